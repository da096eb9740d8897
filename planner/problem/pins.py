"""Pins as filters: which options of a block agree with what the user insists on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.problem import labels
from planner.problem.options import STORED_AXES
from planner.problem.rules import Axes, GenerateRules, PrefillRules

PinValue = int | str | Sequence[str]

# `generate.batch` is not among them: as a pin it is the number of sequences, not the axes that cut them.
BLOCK_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "attention": {
        "generate": ("rows", "d_model", "q_heads", "kv_heads", "kv_tokens"),
        "prefill": ("tokens", "d_model", "q_heads", "kv_heads"),
    },
    "mlp": {"generate": ("rows", "d_model", "d_ff"), "prefill": ("tokens", "d_model", "d_ff")},
    "experts": {
        "generate": ("rows", "d_model", "expert_ff", "experts"),
        "prefill": ("tokens", "d_model", "expert_ff", "experts"),
    },
    "vocab": {"generate": ("rows", "d_model", "vocab"), "prefill": ("tokens", "d_model", "vocab")},
}


@dataclass(frozen=True)
class Allowed:
    """What the pins leave of one block: per phase, the axes that a logical axis must have, and the labels."""

    axes: Mapping[tuple[str, str], frozenset[str]]
    labels: Mapping[str, PinValue]
    block: str

    def generate(self, stored: GenerateRules) -> bool:
        """Whether a generate table agrees with every pin."""
        return self.agrees("generate", stored, generate_labels(self.block, stored))

    def prefill(self, stored: GenerateRules, rules: PrefillRules) -> bool:
        """Whether a prefill table agrees with every pin, over weights that are stored so."""
        return self.agrees("prefill", rules, prefill_labels(self.block, stored, rules))

    @property
    def copied(self) -> bool | None:
        """Whether the block must have a second copy of its weights, or must not; None where it may."""
        pinned = self.labels.get("prefill.copies")
        if not isinstance(pinned, tuple) or self.block not in STORED_AXES:
            return None
        return self.block in pinned

    def agrees(self, phase: str, table: GenerateRules | PrefillRules, own: Mapping[str, str]) -> bool:
        """Whether the table of a phase has the pinned axes and labels."""
        axes = (frozenset(getattr(table, name)) == wanted for (of, name), wanted in self.axes.items() if of == phase)
        return all(axes) and all(self.labels.get(name, label) == label for name, label in own.items())


def allowed_by(pins: Mapping[str, PinValue], torus_axes: Mapping[str, Axes]) -> dict[str, Allowed]:
    """For each block, what its pins allow. `torus_axes` are the mesh axes that each torus axis is cut into."""
    return {block: block_filter(block, pins, torus_axes) for block in BLOCK_FIELDS}


def block_filter(block: str, pins: Mapping[str, PinValue], torus_axes: Mapping[str, Axes]) -> Allowed:
    """What the pins allow of one block."""
    axes = {
        (phase, field): frozenset(expanded(pins[f"{phase}.{field}"], torus_axes))
        for phase, fields in BLOCK_FIELDS[block].items()
        for field in fields
        if f"{phase}.{field}" in pins
    }
    return Allowed(axes, pins, block)


def generate_labels(block: str, stored: GenerateRules) -> dict[str, str]:
    """The labels of a block's generate table that can be pinned."""
    if block == "attention":
        attention, cache = labels.attention_label(stored), labels.kv_cache_label(stored)
        return {"generate.attention": attention, "generate.kv_cache": cache}
    return {"generate.mlp": labels.mlp_label(stored)} if block == "mlp" else {}


def prefill_labels(block: str, stored: GenerateRules, rules: PrefillRules) -> dict[str, str]:
    """The labels of a block's prefill table that can be pinned."""
    if block == "attention":
        return {"prefill.attention": labels.prefill_attention_label(stored, rules)}
    return {"prefill.mlp": labels.prefill_mlp_label(stored, rules)} if block == "mlp" else {}


def expanded(value: PinValue, torus_axes: Mapping[str, Axes]) -> Axes:
    """The mesh axes a pin names: a torus axis stands for all of its pieces."""
    names = (
        (value,) if isinstance(value, str) else tuple(str(name) for name in value) if not isinstance(value, int) else ()
    )
    return tuple(piece for name in names for piece in torus_axes.get(name, (name,)))
