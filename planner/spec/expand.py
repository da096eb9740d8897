"""Short forms of a document written out: empty sections, `slice`, `max_chips`, and `model.config`."""

from dataclasses import replace
from pathlib import Path

from planner.spec.base import Section
from planner.spec.diagnostic import Diagnostic, Position, shown
from planner.spec.document import Entry, KeyPath, Node
from planner.spec.fields import fields, subsection
from planner.spec.hf import import_config
from planner.spec.schema import Spec


def expand(root: Node, folder: Path) -> tuple[Node, tuple[Diagnostic, ...], tuple[KeyPath, ...]]:
    """`root` written out, what is wrong with its short forms, and the sections that therefore lack keys."""
    root, slice_problems, no_slices = _slices(_filled(root, Spec))
    root, config_problems = _config(_limits(root), folder)
    lacking = [path for path, lacks in ((("hardware",), no_slices), (("model",), config_problems)) if lacks]
    return root, (*slice_problems, *config_problems), tuple(lacking)


def _filled(node: Node, section: type[Section]) -> Node:
    """`node` with every section that is left empty as an empty mapping."""
    for key, (_, info) in fields(section).items():
        below, entry = subsection(info), node.entries.get(key)
        if entry is None:
            continue
        if entry.node.value is None and (info.is_required() or info.default is not None) and (below or key == "pins"):
            node = node.with_entry(key, replace(entry, node=Node({}, entry.place)))
        elif below:
            node = node.with_entry(key, replace(entry, node=_filled(entry.node, below)))
    return node


def _slices(root: Node) -> tuple[Node, tuple[Diagnostic, ...], bool]:
    """`root` with `hardware.slice` or `hardware.max_chips` as a list of slices, and whether that cannot be made."""
    hardware = root.entries.get("hardware")
    given = [key for key in ("slice", "max_chips", "slices") if hardware and key in hardware.node.entries]
    if hardware is None or not given or given == ["slices"]:
        return root, (), False
    short, node = hardware.node.entries[given[0]], hardware.node.without(given[0])
    if len(given) > 1:
        both = f"hardware has both {given[0]} and {given[1]}"
        problem = Diagnostic("slice", both, f"hardware.{given[0]}", short.key, "list every slice in slices")
        return (
            root.with_entry("hardware", replace(hardware, node=node.without("max_chips"))),
            (problem,),
            "slices" not in given,
        )
    try:
        listed = [replace(short.node, position=short.place)] if given[0] == "slice" else _up_to(short, node)
    except ValueError as error:
        problem = Diagnostic("max-chips", str(error), "hardware.max_chips", short.place, "write slices instead")
        return root.with_entry("hardware", replace(hardware, node=node)), (problem,), True
    if not listed:
        return root.with_entry("hardware", replace(hardware, node=node)), (), True
    entry = Entry(short.key, Node(listed, short.place))
    return root.with_entry("hardware", replace(hardware, node=node.with_entry("slices", entry))), (), False


def _limits(root: Node) -> Node:
    """`root` with each `ttft: {mean: 1 s, p95: 2 s}` as `ttft` and `ttft_p95`; any other form stays as it is."""
    limits = root.entries.get("limits")
    if limits is None:
        return root
    node = limits.node
    for name in ("ttft", "tpot"):
        entry = node.entries.get(name)
        tails = entry.node.entries if entry else {}
        if not tails or not tails.keys() <= {"mean", "p95"}:
            continue
        node = node.without(name)
        for key, as_limit in (("mean", name), ("p95", f"{name}_p95")):
            node = node.with_entry(as_limit, tails[key]) if key in tails else node
    return root.with_entry("limits", replace(limits, node=node))


def _up_to(most: Entry, hardware: Node) -> list[Node]:
    """Every slice of the chip with at most so many chips, none of a chip that is not known.

    ValueError says what is wrong with the number.
    """
    from cost_models.chips import UnknownChip, chip
    from cost_models.torus import legal_slices

    count, name = most.node.value, hardware.entries.get("chip")
    if type(count) is not int or count < 1:
        raise ValueError(f"max_chips must be a whole number above 0, not {shown(count)}")
    try:
        slices = legal_slices(chip(str(name.node.value) if name else ""), count)
    except UnknownChip:
        return []
    if not slices:
        raise ValueError(f"no slice of {name.node.value if name else 'the chip'} has at most {count} chips")
    return [Node(str(each), most.place) for each in slices]


def _config(root: Node, folder: Path) -> tuple[Node, tuple[Diagnostic, ...]]:
    """`root` with the sizes of `model.config` under those that are written beside it."""
    model = root.entries.get("model")
    config = model.node.entries.get("config") if model else None
    if model is None or config is None:
        return root, ()
    place = config.place
    sizes, problems = import_config(config.node.value, folder, place)
    merged = _under(model.node.without("config"), _node(sizes, place))
    return root.with_entry("model", replace(model, node=merged)), problems


def _under(written: Node, imported: Node) -> Node:
    """`written` with what it lacks taken from `imported`, section by section; one that names its type stands alone."""
    merged = imported.entries | written.entries
    for key in imported.entries.keys() & written.entries.keys():
        above, below = written.entries[key], imported.entries[key]
        if isinstance(above.node.value, dict) and "type" not in above.node.value:
            merged[key] = replace(above, node=_under(above.node, below.node))
    return replace(written, value=merged)


def _node(value: object, place: Position) -> Node:
    """Plain data as nodes that all stand at `place`."""
    if isinstance(value, dict):
        return Node({key: Entry(place, _node(below, place)) for key, below in value.items()}, place)
    assert value is None or isinstance(value, str | int | float | bool)
    return Node(value, place)
