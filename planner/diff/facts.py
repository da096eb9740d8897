"""A plan as a flat table of facts: kind -> address -> value. Two plans differ where their facts do."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from planner.diff.schema import Kind
from planner.plan.records import Mesh, Record
from planner.plan.schema import Generate, Plan, Prefill

Facts = dict[Kind, dict[str, JsonValue]]

PHASES = ("prefill", "generate")
FLEET_CHOICES = ("mode", "slices", "prefill_slices", "chips")
CHOSEN = {
    "prefill": ("prompts", "chunk", "stages", "tokens", "buckets"),
    "generate": ("batch", "context", "page_tokens", "speculation"),
}


def facts(plan: Plan) -> Facts:
    """Every leaf of a plan under one address; nothing of the file is left out."""
    return {
        "input": dict(leaves(plan.spec, "spec")),
        "choice": choices(plan),
        "layout": layouts(plan),
        "collective": collectives(plan),
        "prediction": predictions(plan),
        "note": notes(plan),
    }


def leaves(value: object, address: str) -> Iterator[tuple[str, JsonValue]]:
    """The values below `address`; a list is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{address}.{key}")
    elif isinstance(value, tuple | list):
        yield address, [plain(item) for item in value]
    else:
        yield address, plain(value)


def plain(value: object) -> JsonValue:
    """A scalar of a plan as JSON holds it; anything else as its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [plain(item) for item in value] if isinstance(value, tuple | list) else str(value)


def phase_of(plan: Plan, name: str) -> Prefill | Generate:
    """The phase called `name`."""
    return plan.prefill if name == "prefill" else plan.generate


def choices(plan: Plan) -> dict[str, JsonValue]:
    """Chip, slice, mesh, batch and lengths, those that a plan has."""
    found: dict[str, JsonValue] = {"chip": plan.chip, "slice": plan.slice, "mesh": [*mesh_axes(plan.mesh)]}
    found |= leaves({} if plan.dtypes is None else dict(plan.dtypes), "dtypes")
    for name, fields in CHOSEN.items():
        phase = phase_of(plan, name)
        for field in fields:
            if (value := getattr(phase, field)) is not None:
                found |= leaves(dict(value) if isinstance(value, Record) else value, f"{name}.{field}")
    found |= {"mesh.chips": [list(chip) for chip in plan.mesh.chips]}
    if plan.pool is not None:
        found |= {"pool.slice": plan.pool.slice, "pool.mesh": [*mesh_axes(plan.pool.mesh)]}
        found |= {"pool.mesh.chips": [list(chip) for chip in plan.pool.mesh.chips]}
    counted = {} if plan.fleet is None else {name: getattr(plan.fleet, name) for name in FLEET_CHOICES}
    return found | {f"fleet.{name}": value for name, value in counted.items() if value is not None}


def mesh_axes(mesh: Mesh) -> Iterator[str]:
    """The mesh axes as text: `y=4`, a piece with the torus axis it is cut from: `y0=2 (of y, stride 2)`."""
    for axis in mesh.axes:
        whole = axis.name == axis.torus_axis and axis.stride == 1
        piece = "" if whole else f" (of {axis.torus_axis}, stride {axis.stride})"
        yield f"{axis.name}={axis.size}{' ring' if axis.wraps else ''}{piece}"


def layouts(plan: Plan) -> dict[str, JsonValue]:
    """The mesh axes of each logical axis with their sizes, those of second copies too, and the dimensions that are
    padded."""
    tables = {f"{name}.rules": (plan.at(name), dict(phase_of(plan, name).rules)) for name in PHASES}
    tables |= {f"prefill.copies.{block}": (plan, dict(rules)) for block, rules in (plan.prefill.copies or {}).items()}
    if plan.prefill.stored is not None:
        tables["prefill.stored"] = plan.at("prefill"), dict(plan.prefill.stored)
    found: dict[str, JsonValue] = {}
    for address, (there, rules) in tables.items():
        sizes = {axis.name: axis.size for axis in there.mesh.axes}
        for logical, axes in rules.items():
            found[f"{address}.{logical}"] = [f"{axis}={sizes[axis]}" for axis in axes]
    for prefix, padding in (("", plan.padding), ("pool.", plan.pool.padding if plan.pool else ())):
        found |= {f"{prefix}padding.{item.dimension}": f"{item.size} to {item.padded}" for item in padding}
    return found


def collectives(plan: Plan) -> dict[str, JsonValue]:
    """The collectives at each address, in the order of the step."""
    found: dict[str, JsonValue] = {}
    for name in PHASES:
        for each in phase_of(plan, name).collectives:
            listed = found.setdefault(each.address, [])
            assert isinstance(listed, list)
            listed.append(each.model_dump(mode="json", exclude={"address"}))
    return found


def predictions(plan: Plan) -> dict[str, JsonValue]:
    """Times of steps and parts, bytes per chip, and what users of the service see."""
    found: dict[str, JsonValue] = {}
    for name in PHASES:
        phase = phase_of(plan, name)
        found[f"{name}.step_s"] = phase.step_s
        found |= {part.address: part.model_dump(mode="json", exclude={"address"}) for part in phase.parts}
    for prefix, padding in (("", plan.padding), ("pool.", plan.pool.padding if plan.pool else ())):
        found |= {f"{prefix}padding.{item.dimension}.bytes_per_chip": item.bytes_per_chip for item in padding}
    if plan.pool is not None:
        found |= leaves(dict(plan.pool.hbm), "pool.hbm")
    if plan.fleet is not None:
        told = plan.fleet.model_dump(mode="json", exclude_none=True, exclude=set(FLEET_CHOICES))
        found |= leaves(told, "fleet")
    return {**found, **dict(leaves(dict(plan.hbm), "hbm")), **dict(leaves(dict(plan.service), "service"))}


def notes(plan: Plan) -> dict[str, JsonValue]:
    """What follows from the rest, or says how far to trust it."""
    data = plan.model_dump(mode="json", exclude_none=True)
    found: dict[str, JsonValue] = {field: data[field] for field in ("format_version", "name", "proof", "accuracy")}
    for name in PHASES:
        found[f"{name}.binds"] = data[name]["binds"]
        for record in ("strategy", "kv_layout"):
            found |= leaves(data[name].get(record, {}), f"{name}.{record}")
        if "runner_up" in data[name]:
            found[f"{name}.runner_up"] = data[name]["runner_up"]
    return found
