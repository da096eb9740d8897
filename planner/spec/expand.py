"""Short forms of a document written out: empty sections, `slice`, and `model.config`."""

from dataclasses import replace
from pathlib import Path

from planner.spec.base import Section
from planner.spec.diagnostic import Diagnostic, Position
from planner.spec.document import Entry, KeyPath, Node
from planner.spec.fields import fields, subsection
from planner.spec.hf import import_config
from planner.spec.schema import Spec


def expand(root: Node, folder: Path) -> tuple[Node, tuple[Diagnostic, ...], tuple[KeyPath, ...]]:
    """`root` written out, what is wrong with its short forms, and the sections that therefore lack keys."""
    root, slice_problems = _slices(_filled(root, Spec))
    root, config_problems = _config(root, folder)
    lacking: tuple[KeyPath, ...] = (("model",),) if config_problems else ()
    return root, (*slice_problems, *config_problems), lacking


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


def _slices(root: Node) -> tuple[Node, tuple[Diagnostic, ...]]:
    """`root` with `hardware.slice` as a list of one."""
    hardware = root.entries.get("hardware")
    one = hardware.node.entries.get("slice") if hardware else None
    if hardware is None or one is None:
        return root, ()
    if "slices" in hardware.node.entries:
        problem = Diagnostic(
            "slice", "hardware has both slice and slices", "hardware.slice", one.key, "list every slice in slices"
        )
        return root.with_entry("hardware", replace(hardware, node=hardware.node.without("slice"))), (problem,)
    listed = Entry(one.key, Node([replace(one.node, position=one.place)], one.place))
    return root.with_entry(
        "hardware", replace(hardware, node=hardware.node.without("slice").with_entry("slices", listed))
    ), ()


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
