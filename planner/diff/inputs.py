"""The inputs that an author changed, grouped so that each can be changed alone, and specs between base and head.

Defaults that follow from other inputs are no inputs: `workload.max_context` where it is the sum of both 95th
percentiles, `hardware.stack` where it is the chip's own.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from planner.diff.facts import plain
from planner.diff.schema import Input
from planner.plan.units import seconds_text

Path = tuple[str, ...]
Data = Mapping[str, Any]

STORED = ("weights", "kv_cache", "activations")
WHOLE = (("workload", "prompt_tokens"), ("workload", "output_tokens"), ("serving", "speculation"))
"""Sections whose fields only make sense together."""
UNSOLVED = {"name", "version", "hardware.price_per_chip_hour"}
"""Inputs that no decision can depend on."""


def changed_inputs(base: Data, head: Data) -> tuple[Input, ...]:
    """The inputs that differ between two specs as plan files hold them, in the order of a spec."""
    before, after = unfilled(base), unfilled(head)
    grouped: dict[str, list[Path]] = {}
    for path in differing(before, after):
        grouped.setdefault(group_of(path, before, after), []).append(path)
    return tuple(
        Input(
            address=address,
            base=input_text(address, before, paths),
            head=input_text(address, after, paths),
            fields=tuple(".".join(path) for path in paths),
        )
        for address, paths in grouped.items()
    )


def mixed(base: Data, head: Data, addresses: Iterable[str]) -> dict[str, Any]:
    """The base spec with some of its changed inputs as in head."""
    before, after = unfilled(base), unfilled(head)
    wanted = set(addresses)
    found = deepcopy(before)
    for path in differing(before, after):
        if group_of(path, before, after) in wanted:
            put(found, path, value_at(after, path))
    return found


def unfilled(data: Data) -> dict[str, Any]:
    """A spec without the defaults that follow from its other inputs."""
    found = deepcopy(dict(data))
    workload, hardware = found.get("workload", {}), found.get("hardware", {})
    ends = [workload.get(key, {}).get("p95") for key in ("prompt_tokens", "output_tokens")]
    if None not in ends and workload.get("max_context") == sum(ends):
        del workload["max_context"]
    if "stack" in hardware and hardware["stack"] == own_stack(found):
        del hardware["stack"]
    return found


def own_stack(data: Data) -> str | None:
    """The stack that a spec's chip and kind of model have by default."""
    from cost_models.stacks import default_stack

    try:
        return default_stack(
            str(data["hardware"].get("chip")), experts=data.get("model", {}).get("moe") is not None
        ).name
    except LookupError:
        return None


def differing(before: Data, after: Data) -> Iterator[Path]:
    """The paths of values that differ, in the order of head's file, then those that only base has."""
    old, new = dict(paths(before)), dict(paths(after))
    yield from (path for path in {**new, **old} if old.get(path) != new.get(path))


def paths(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every value below a mapping with its path; a list is one value. The keys of pins have dots of their own."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths(item, (*path, str(key)))
    else:
        yield path, plain(value)


def group_of(path: Path, before: Data, after: Data) -> str:
    """The input that a field belongs to."""
    if path[0] == "model" and path[1] not in STORED:
        return "model"
    whole = next((each for each in WHOLE if path[:2] == each), None)
    if whole is not None:
        return ".".join(whole)
    if path[0] == "hardware" and path[1] in ("chip", "stack", "slices") and differ(before, after, "hardware", "chip"):
        return "hardware.chip"
    if path == ("workload", "concurrency") and rated(before) != rated(after):
        return "workload.requests_per_s"
    return ".".join(path)


def differ(before: Data, after: Data, *path: str) -> bool:
    """Whether two specs have another value at a path."""
    return value_at(before, path) != value_at(after, path)


def rated(data: Data) -> bool:
    """Whether requests arrive at a rate."""
    return value_at(data, ("workload", "requests_per_s")) is not None


def value_at(data: object, path: Path) -> object:
    """The value at a path, None for nothing."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def put(data: dict[str, Any], path: Path, value: object) -> None:
    """Set or remove the value at a path; sections are made, and removed where they become empty."""
    key, *rest = path
    if rest:
        below = data.setdefault(key, {})
        put(below, tuple(rest), value)
        if not below:
            del data[key]
    elif value is None:
        data.pop(key, None)
    else:
        data[key] = deepcopy(value)


def input_text(address: str, data: Data, changed: list[Path]) -> str:
    """What a spec says of an input, in words; empty for nothing."""
    if address == "model":
        return model_text(data)
    if tuple(address.split(".")) in WHOLE:
        section = value_at(data, tuple(address.split(".")))
        return ", ".join(f"{key} {value}" for key, value in section.items()) if isinstance(section, Mapping) else ""
    if len(changed) == 1:
        return value_text(changed[0], value_at(data, changed[0]))
    told = ((path[-1], value_text(path, value_at(data, path))) for path in changed)
    return ", ".join(f"{name} {text}" for name, text in told if text)


def value_text(path: Path, value: object) -> str:
    """One value of a spec in words."""
    if isinstance(value, list | tuple):
        return " or ".join(map(str, value)) if path[0] != "pins" else ", ".join(map(str, value))
    if path[0] == "limits" and isinstance(value, str):
        return seconds_text(float(value.removesuffix(" s")))
    if path == ("workload", "max_context") and value is None:
        return "p95 prompt + p95 output"
    return "" if value is None else str(value)


def model_text(data: Data) -> str:
    """A model in a few sizes."""
    from pydantic import ValidationError

    from planner.spec import parameter_count, spec_from_data

    try:
        model = spec_from_data(data).model
    except ValidationError:
        return "a model of another version of the spec"
    return f"{model.family}, {parameter_count(model) / 1e9:.3g} B parameters, {model.layers} layers"
