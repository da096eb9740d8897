"""Rule tables (logical axis -> mesh axes) and what they do to sizes: ways, padded heads, padded widths.

The two tables of a plan share one mesh. Weights are stored as the generate table says, and a block may have a second
copy that prefill reads instead; prefill gathers a weight over every axis that its own table leaves out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from types import MappingProxyType
from typing import NamedTuple

Axes = tuple[str, ...]


class GenerateRules(NamedTuple):
    """Mesh axes of each logical axis in generate, major to minor; empty means replicated.

    `rows` cuts the sequences of the residual stream, `batch` those of the KV cache further, `kv_tokens` each
    sequence's cached tokens; `experts` cuts whole experts, `expert_ff` the hidden columns of each.
    """

    rows: Axes = ()
    batch: Axes = ()
    d_model: Axes = ()
    q_heads: Axes = ()
    kv_heads: Axes = ()
    kv_tokens: Axes = ()
    d_ff: Axes = ()
    vocab: Axes = ()
    expert_ff: Axes = ()
    experts: Axes = ()


class PrefillRules(NamedTuple):
    """Mesh axes of each logical axis in prefill, major to minor; empty means replicated."""

    tokens: Axes = ()
    d_model: Axes = ()
    q_heads: Axes = ()
    kv_heads: Axes = ()
    d_ff: Axes = ()
    vocab: Axes = ()
    expert_ff: Axes = ()
    experts: Axes = ()


NO_COPIES: Mapping[str, GenerateRules] = MappingProxyType({})


class Rules(NamedTuple):
    """Both tables of a plan, and for each block with a second copy of its weights the table that stores it."""

    generate: GenerateRules
    prefill: PrefillRules
    copies: Mapping[str, GenerateRules] = NO_COPIES

    def read(self, block: str) -> GenerateRules:
        """The table by which the weights that prefill reads of a block are stored."""
        return self.copies.get(block, self.generate)


@cache
def without(axes: Axes, taken: Axes) -> Axes:
    """The axes that are not in `taken`, in order."""
    return tuple(axis for axis in axes if axis not in taken)


@cache
def common(axes: Axes, others: Axes) -> Axes:
    """The axes that are in `others` too, in order."""
    return tuple(axis for axis in axes if axis in others)


class Ways(dict[Axes, int]):
    """How many ways a set of mesh axes cuts an array; remembered, since pricing asks for the same few sets."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self._sizes = sizes
        self._cutting: dict[Axes, Axes] = {}

    __call__ = dict[Axes, int].__getitem__

    def __missing__(self, axes: Axes) -> int:
        found = self[axes] = prod(self._sizes[axis] for axis in axes)
        return found

    def cutting(self, axes: Axes) -> Axes:
        """The axes of more than one chip, in order."""
        if axes not in self._cutting:
            self._cutting[axes] = tuple(axis for axis in axes if self._sizes[axis] > 1)
        return self._cutting[axes]


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention heads as stored: padded by KV group, then to the ways that split the query heads of one KV shard.

    Shapes per chip: `kv_local` KV heads, `q_local` query heads; `q_shard` query heads share one KV shard.
    """

    kv_ways: int
    q_ways: int
    group: int
    kv_padded: int
    kv_local: int
    q_local: int
    q_shard: int
    q_padded: int


@cache
def padded_heads(q_heads: int, kv_heads: int, kv_ways: int, q_ways: int) -> Heads:
    """The stored heads when KV heads are cut `kv_ways` and the query heads of each KV shard `q_ways` more."""
    group = q_heads // kv_heads
    kv_local = ceil(kv_heads / kv_ways)
    q_local = ceil(kv_local * group / q_ways)
    q_shard = q_local * q_ways
    return Heads(kv_ways, q_ways, group, kv_local * kv_ways, kv_local, q_local, q_shard, q_shard * kv_ways)


def padded_width(width: int, ways: int) -> int:
    """`width` rounded up to a multiple of `ways`; the added columns are zeros."""
    return ceil(width / ways) * ways


def scattered_batch(rules: GenerateRules) -> Axes:
    """Batch axes on which the qkv reduction scatters rows (they also cut d_model)."""
    return common(rules.batch, rules.d_model)


def exchanged_batch(rules: GenerateRules) -> Axes:
    """Batch axes reached by all-to-all: they cut query heads in the projections and rows in the KV cache."""
    return common(rules.batch, rules.q_heads)


def copied_kv(rules: GenerateRules) -> Axes:
    """Query-head axes over which the KV cache is replicated."""
    return without(without(rules.q_heads, rules.kv_heads), rules.batch + rules.kv_tokens)


def prompt_axes(axes: Axes, prompts: int, ways: Ways) -> Axes:
    """The leading token axes that cut whole prompts: as many as divide the prompts read together."""
    for index, axis in enumerate(axes):
        if prompts % ways((axis,)):
            return axes[:index]
        prompts //= ways((axis,))
    return axes
