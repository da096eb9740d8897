"""`--set path=value`: changes to a document from the command line."""

from collections.abc import Sequence
from dataclasses import replace

from planner.spec.diagnostic import Diagnostic, Position, SpecErrors
from planner.spec.document import Entry, Node, parse
from planner.spec.fields import addresses
from planner.spec.nearest import nearest, nearest_few

# Spellings of one choice: setting one drops the others.
_SLICES = ("slice", "slices", "max_chips")
_REPLACES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("hardware", one): tuple(each for each in _SLICES if each != one) for one in _SLICES
}


def apply_overrides(root: Node, overrides: Sequence[str]) -> tuple[Node, tuple[Diagnostic, ...]]:
    """`root` with each `path=value` set in turn, and what is wrong with those that could not be."""
    found: list[Diagnostic] = []
    for override in overrides:
        try:
            path, node = _read(override)
            root = _put(root, path, node)
        except SpecErrors as error:
            found.extend(error.diagnostics)
    return root, tuple(found)


def _read(override: str) -> tuple[tuple[str, ...], Node]:
    """The path and the value of one override."""
    place = Position(f"--set {override}")
    path_text, equals, value_text = override.partition("=")
    path_text = path_text.strip()
    if not equals or not path_text:
        message = f'"{override}" is not of the form path=value'
        raise SpecErrors([Diagnostic("override", message, path_text, place, "for example hardware.slice=4x4")])
    path = _path(path_text, place)
    if not value_text.strip():
        return path, Node(None, place)
    try:
        node, problems = parse(value_text, place.source)
    except SpecErrors as error:
        node, problems = Node(None, place), error.diagnostics
    if problems:
        raise SpecErrors([replace(problem, path=path_text, position=place) for problem in problems])
    return path, _moved(node, place)


def _path(text: str, place: Position) -> tuple[str, ...]:
    """The path written as `text`, if a spec has it."""
    known = {".".join(address): address for address in addresses()}
    if text in known:
        return known[text]
    close = nearest(text, known)
    hint = f'did you mean "{close}"?' if close else f"the nearest are {', '.join(nearest_few(text, known))}"
    raise SpecErrors([Diagnostic("override", f'the spec has no "{text}"', text, place, hint)])


def _moved(node: Node, place: Position) -> Node:
    """`node` with every position in it set to `place`."""
    if isinstance(node.value, dict):
        return Node({key: Entry(place, _moved(entry.node, place)) for key, entry in node.value.items()}, place)
    if isinstance(node.value, list):
        return Node([_moved(item, place) for item in node.value], place)
    return Node(node.value, place)


def _put(root: Node, path: tuple[str, ...], node: Node) -> Node:
    """`root` with `node` at `path`; missing sections are made, one that is no mapping is left for its own error."""
    key, rest = path[0], path[1:]
    entry = root.entries.get(key)
    if not rest:
        return root.with_entry(key, Entry(entry.key if entry else node.position, node))
    below = entry.node if entry and entry.node.value is not None else Node({}, node.position)
    if not isinstance(below.value, dict):
        return root
    for replaced in _REPLACES.get(path, ()):
        below = below.without(replaced)
    return root.with_entry(key, Entry(entry.key if entry else node.position, _put(below, rest, node)))
