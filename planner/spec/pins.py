"""Pins: choices of the plan that the user has already made, by plan address."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from planner.spec.diagnostic import shown

PinValue = Annotated[int, Field(strict=True)] | str | tuple[str, ...]
PinKind = Literal["slice", "batch", "kv_cache", "label", "axes"]

KV_CACHE_LAYOUTS = ("heads", "batch", "heads_x_batch", "replicated")
GENERATE_AXES = ("d_model", "q_heads", "kv_heads", "d_ff", "vocab")
PREFILL_AXES = ("tokens", "d_model", "q_heads", "kv_heads", "d_ff", "vocab")

PINS: Mapping[str, PinKind] = {
    "slice": "slice",
    "generate.batch": "batch",
    "generate.kv_cache": "kv_cache",
    "generate.attention": "label",
    "generate.mlp": "label",
    **{f"generate.{axis}": "axes" for axis in GENERATE_AXES},
    "prefill.attention": "label",
    "prefill.mlp": "label",
    **{f"prefill.{axis}": "axes" for axis in PREFILL_AXES},
}
GENERATE_LAYOUTS = ("replicated", "1d", "2d", "d_model")
PREFILL_LAYOUTS = (*GENERATE_LAYOUTS, "sequence_parallel", "weight_gathered")
_MESH_AXIS = re.compile(r"[xyz][0-9]?")


def read_pins(value: object) -> object:
    """`value` with the axes of each pin as a tuple; `none` is the empty one. Anything odd is left for `pin_problem`."""
    if not isinstance(value, Mapping):
        return value
    return {address: _read(PINS.get(address), pin) for address, pin in value.items()}


def written(address: str, value: PinValue) -> int | str | list[str]:
    """The pin as a spec file spells it."""
    if PINS.get(address) != "axes" or not isinstance(value, tuple):
        return list(value) if isinstance(value, tuple) else value
    return list(value) if len(value) > 1 else (value[0] if value else "none")


def pin_problem(address: str, value: object) -> str | None:
    """What is wrong with the value of a known pin, or None."""
    match PINS[address]:
        case "batch":
            good = type(value) is int and value > 0
            wanted = "a whole number above 0"
        case "kv_cache":
            good = value in KV_CACHE_LAYOUTS
            wanted = f"one of {', '.join(KV_CACHE_LAYOUTS)}"
        case "axes":
            good = isinstance(value, tuple) and all(_is_mesh_axis(axis) for axis in value)
            wanted = "mesh axes without repeats: x, [x, y] or none"
            good = good and isinstance(value, tuple) and len(set(value)) == len(value)
        case "slice":
            good = isinstance(value, str)
            wanted = "a topology such as 4x4"
        case "label":
            layouts = PREFILL_LAYOUTS if address.startswith("prefill.") else GENERATE_LAYOUTS
            good = value in layouts
            wanted = f"one of {', '.join(layouts)}"
    return None if good else f"{address} must be {wanted}, not {shown(_single(value))}"


def _single(value: object) -> object:
    """The value as it was written: one axis alone without its list."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _is_mesh_axis(axis: object) -> bool:
    return isinstance(axis, str) and _MESH_AXIS.fullmatch(axis) is not None


def _read(kind: PinKind | None, value: object) -> object:
    if kind == "axes" and isinstance(value, str):
        return () if value == "none" else (value,)
    return tuple(value) if isinstance(value, list) else value
