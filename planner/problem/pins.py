"""Pins as filters: which options of a block agree with what the user insists on."""

from collections.abc import Mapping, Sequence

from planner.problem import labels
from planner.problem.rules import Axes, GenerateRules, PrefillRules
from planner.problem.tables import Allowed

PinValue = int | str | Sequence[str]

BLOCK_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "attention": {
        "generate": ("d_model", "q_heads", "kv_heads"),
        "prefill": ("tokens", "d_model", "q_heads", "kv_heads"),
    },
    "mlp": {"generate": ("d_model", "d_ff"), "prefill": ("tokens", "d_model", "d_ff")},
    "vocab": {"generate": ("d_model", "vocab"), "prefill": ("tokens", "d_model", "vocab")},
}


def allowed_by(pins: Mapping[str, PinValue], torus_axes: Mapping[str, Axes]) -> dict[str, Allowed]:
    """For each block, whether its rules agree with every pin.

    `torus_axes` are the mesh axes that each torus axis is cut into.
    """
    return {block: block_filter(block, pins, torus_axes) for block in BLOCK_FIELDS}


def block_filter(block: str, pins: Mapping[str, PinValue], torus_axes: Mapping[str, Axes]) -> Allowed:
    """The filter of one block."""
    axes = {
        (phase, field): frozenset(expanded(pins[f"{phase}.{field}"], torus_axes))
        for phase, fields in BLOCK_FIELDS[block].items()
        for field in fields
        if f"{phase}.{field}" in pins
    }

    def allowed(generate: GenerateRules, prefill: PrefillRules) -> bool:
        tables = {"generate": generate, "prefill": prefill}
        agreed = all(frozenset(getattr(tables[phase], field)) == wanted for (phase, field), wanted in axes.items())
        return agreed and all(pins.get(name, own) == own for name, own in labels_of(block, generate, prefill).items())

    return allowed


def labels_of(block: str, generate: GenerateRules, prefill: PrefillRules) -> dict[str, str]:
    """The labels that can be pinned, of one block's rules."""
    if block == "attention":
        return {
            "generate.attention": labels.attention_label(generate),
            "generate.kv_cache": labels.kv_cache_label(generate),
            "prefill.attention": labels.prefill_attention_label(generate, prefill),
        }
    if block == "mlp":
        return {
            "generate.mlp": labels.mlp_label(generate),
            "prefill.mlp": labels.prefill_mlp_label(generate, prefill),
        }
    return {}


def expanded(value: PinValue, torus_axes: Mapping[str, Axes]) -> Axes:
    """The mesh axes a pin names: a torus axis stands for all of its pieces."""
    names = (
        (value,) if isinstance(value, str) else tuple(str(name) for name in value) if not isinstance(value, int) else ()
    )
    return tuple(piece for name in names for piece in torus_axes.get(name, (name,)))
