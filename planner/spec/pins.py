"""Pins: choices of the plan that the user has already made, by plan address."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from planner.spec.diagnostic import shown

PinValue = Annotated[int, Field(strict=True)] | str | tuple[str, ...]
PinKind = Literal["slice", "batch", "chunk", "switch", "kv_cache", "label", "axes", "copies", "mesh"]

KV_CACHE_LAYOUTS = (
    "heads",
    "batch",
    "tokens",
    "heads_x_batch",
    "heads_x_tokens",
    "batch_x_tokens",
    "heads_x_batch_x_tokens",
    "replicated",
)
EXPERT_AXES = ("expert_ff", "experts")
GENERATE_AXES = ("rows", "d_model", "q_heads", "kv_heads", "kv_tokens", "d_ff", "vocab", *EXPERT_AXES)
PREFILL_AXES = ("tokens", "d_model", "q_heads", "kv_heads", "d_ff", "vocab", *EXPERT_AXES)

PINS: Mapping[str, PinKind] = {
    "slice": "slice",
    "generate.batch": "batch",
    "generate.speculation": "switch",
    "generate.kv_cache": "kv_cache",
    "generate.attention": "label",
    "generate.mlp": "label",
    "generate.mesh": "mesh",
    **{f"generate.{axis}": "axes" for axis in GENERATE_AXES},
    "prefill.prompts": "batch",
    "prefill.chunk": "chunk",
    "prefill.copies": "copies",
    "prefill.attention": "label",
    "prefill.mlp": "label",
    "prefill.mesh": "mesh",
    **{f"prefill.{axis}": "axes" for axis in PREFILL_AXES},
}
LISTS = ("axes", "copies", "mesh")
"""Kinds of pins whose values are lists of words."""
GENERATE_LAYOUTS = ("replicated", "1d", "2d", "d_model")
COPIED_BLOCKS = ("attention", "mlp", "experts")
PREFILL_LAYOUTS = (*GENERATE_LAYOUTS, "sequence_parallel", "weight_gathered")
_BELOW: Mapping[str, tuple[str, ...]] = {
    "rules": PREFILL_AXES + GENERATE_AXES,
    "strategy": ("attention", "kv_cache", "mlp"),
    "attention": ("kv_cache", "tokens", "rows", "d_model", "q_heads", "kv_heads", "kv_tokens"),
    "mlp": ("tokens", "d_model", "d_ff"),
    "experts": ("tokens", "rows", "d_model", *EXPERT_AXES),
    "vocab": ("tokens", "d_model", "vocab"),
}
"""What the plan file and its blocks have below them that can be pinned for a phase."""
_MESH_AXIS = re.compile(r"[xyz][0-9]?")
_SIZED_AXIS = re.compile(r"([xyz][0-9]?)=[1-9][0-9]*")


def read_pins(value: object) -> object:
    """`value` with the axes, or blocks, of each pin as a tuple; `none` is the empty one. Anything odd is left for
    `pin_problem`."""
    if not isinstance(value, Mapping):
        return value
    return {address: _read(PINS.get(address), pin) for address, pin in value.items()}


def written(address: str, value: PinValue) -> int | str | list[str]:
    """The pin as a spec file spells it."""
    if PINS.get(address) not in LISTS or not isinstance(value, tuple):
        return list(value) if isinstance(value, tuple) else value
    return list(value) if len(value) > 1 else (value[0] if value else "none")


def pin_address(text: str) -> str | None:
    """The address of the pin that a plan address means, or None.

    `generate.attention.kv_cache` and `generate.strategy.kv_cache` mean `generate.kv_cache`, `generate.rules.d_ff` and
    `generate.mlp.d_ff` mean `generate.d_ff`, `spec.hardware.slice` means `slice`, `mesh` means `generate.mesh`, and
    `pins.` may stand before a pin.
    """
    words = text.removeprefix("spec.").removeprefix("pins.").split(".")
    if words[-1] in ("slice", "slices") and words[:-1] in ([], ["hardware"]):
        return "slice"
    if words == ["mesh"]:
        return "generate.mesh"
    if len(words) == 3 and words[2] in _BELOW.get(words[1], ()):
        words = [words[0], words[2]]
    address = ".".join(words)
    return address if address in PINS else None


def pinned_mesh(pins: Mapping[str, PinValue]) -> tuple[str, ...] | None:
    """The axes of the pinned mesh, `x=4` each; None where no mesh is pinned. Both phases have the same."""
    value = pins.get("generate.mesh", pins.get("prefill.mesh"))
    return value if isinstance(value, tuple) else None


def pin_choices(address: str) -> tuple[str, ...]:
    """The words that a known pin may be; empty where it is no word."""
    if PINS[address] == "kv_cache":
        return KV_CACHE_LAYOUTS
    if PINS[address] == "switch":
        return ("on", "off")
    if PINS[address] == "label":
        return PREFILL_LAYOUTS if address.startswith("prefill.") else GENERATE_LAYOUTS
    return ()


def pin_problem(address: str, value: object) -> str | None:
    """What is wrong with the value of a known pin, or None."""
    match PINS[address]:
        case "batch":
            good = type(value) is int and value > 0
            wanted = "a whole number above 0"
        case "chunk":
            good = value == "none" or (type(value) is int and value > 0)
            wanted = "a whole number above 0, or none for whole prompts"
        case "axes":
            good = isinstance(value, tuple) and all(_is_mesh_axis(axis) for axis in value)
            wanted = "mesh axes without repeats: x, [x, y] or none"
            good = good and isinstance(value, tuple) and len(set(value)) == len(value)
        case "mesh":
            good = isinstance(value, tuple) and value != () and all(_sized_axis(axis) for axis in value)
            wanted = "mesh axes with their sizes, each once: [x=4, y0=2, y1=2]"
            good = good and isinstance(value, tuple) and len({_sized_axis(axis) for axis in value}) == len(value)
        case "copies":
            good = isinstance(value, tuple) and all(each in COPIED_BLOCKS for each in value)
            good = good and isinstance(value, tuple) and len(set(value)) == len(value)
            wanted = f"blocks without repeats, of {', '.join(COPIED_BLOCKS)}, or none"
        case "slice":
            good = isinstance(value, str)
            wanted = "a topology such as 4x4"
        case "kv_cache" | "label" | "switch":
            good = value in pin_choices(address)
            wanted = f"one of {', '.join(pin_choices(address))}"
    return None if good else f"{address} must be {wanted}, not {shown(_single(value))}"


def _single(value: object) -> object:
    """The value as it was written: one axis alone without its list."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _is_mesh_axis(axis: object) -> bool:
    return isinstance(axis, str) and _MESH_AXIS.fullmatch(axis) is not None


def _sized_axis(axis: object) -> str | None:
    """The name of a mesh axis that is written with its size, or None."""
    found = _SIZED_AXIS.fullmatch(axis) if isinstance(axis, str) else None
    return found[1] if found else None


def _read(kind: PinKind | None, value: object) -> object:
    if kind in LISTS and isinstance(value, str):
        return () if value == "none" else (value,)
    return tuple(value) if isinstance(value, list) else value
