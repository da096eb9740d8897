"""What must move between the layouts of two plans: bytes of weights that a chip does not hold yet.

A chip holds a box of every weight: a run of d_model times one of heads, columns, experts or vocabulary rows. Runs
are counted in real rows and heads, so padding never moves. What a chip receives is the new box less what it shares
with the old one. The scales of quantised weights move with them and are not counted, nor are the norms.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

import numpy as np

from planner.problem.problem import Ints
from planner.problem.rules import Axes, GenerateRules, Ways, without
from planner.problem.sizes import Sizes

Run = tuple[Ints, Ints]
"""Per chip, the first element held and the one after the last."""


@dataclass(frozen=True)
class Places:
    """Which part of an array each chip holds under a rule; chips in the order of their torus coordinates."""

    axes: Mapping[str, int]
    """Mesh axes, major first, with their sizes."""
    chips: tuple[tuple[int, ...], ...]
    """Torus coordinates in C order over the mesh axes."""

    @cached_property
    def ways(self) -> Ways:
        """How many ways mesh axes cut an array."""
        return Ways(dict(self.axes))

    @cached_property
    def positions(self) -> dict[str, Ints]:
        """Each chip's index along every mesh axis."""
        order = sorted(range(len(self.chips)), key=self.chips.__getitem__)
        grid = np.indices(tuple(self.axes.values())).reshape(len(self.axes), -1)[:, order]
        return dict(zip(self.axes, grid, strict=True))

    def part(self, axes: Sequence[str]) -> Ints:
        """The part of each chip when an array is cut over `axes`, major first."""
        part = np.zeros(prod(self.axes.values()), dtype=np.int64)
        for axis in axes:
            part = part * self.axes[axis] + self.positions[axis]
        return part


@dataclass(frozen=True)
class Boxes:
    """What each chip holds of the weights that a generate table stores."""

    rules: GenerateRules
    sizes: Sizes
    places: Places

    def run(self, size: int, axes: Axes) -> Run:
        """An axis of `size` cut into equal parts, the last ones short or empty where it does not divide."""
        width = ceil(size / self.places.ways(axes))
        first = self.places.part(axes) * width
        return np.minimum(first, size), np.minimum(first + width, size)

    def runs(self, dimension: str) -> Run:
        """The run of one dimension that each chip holds."""
        sizes, rules, ways = self.sizes, self.rules, self.places.ways
        if dimension != "q_heads":
            return self.run(size_of(dimension, sizes), getattr(rules, CUT_BY.get(dimension, dimension)))
        # Query heads follow the KV shard that they read, and each shard is padded at its own end.
        heads = sizes.heads(rules, ways)
        shard = self.places.part(rules.kv_heads) * heads.kv_local * heads.group
        end = np.minimum(shard + heads.kv_local * heads.group, sizes.q_heads)
        first = shard + self.places.part(without(rules.q_heads, rules.kv_heads)) * heads.q_local
        return np.minimum(first, end), np.minimum(first + heads.q_local, end)

    def same_cache(self, other: "Boxes") -> bool:
        """Whether every chip keeps the same KV heads of the same sequences."""
        heads = zip(self.runs("kv_heads"), other.runs("kv_heads"), strict=True)
        if self.places.ways(self.rules.batch) != other.places.ways(other.rules.batch):
            return False
        slots = (self.places.part(self.rules.batch), other.places.part(other.rules.batch))
        return all(np.array_equal(a, b) for a, b in (*heads, slots))


CUT_BY = {"shared_d_ff": "d_ff"}
"""The logical axis that cuts a dimension, where it has another name."""


def size_of(dimension: str, sizes: Sizes) -> int:
    """The size of a dimension that can be cut, query heads apart."""
    match dimension:
        case "expert_ff":
            return sizes.experts.d_ff
        case "experts":
            return sizes.experts.experts
        case "d_ff" | "shared_d_ff":
            return next(each.d_ff for each in sizes.mlps if each.dimension == dimension)
    return int(getattr(sizes, dimension))


def weights_of(block: str, sizes: Sizes) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The weights of a block: elements for each tuple of indices, and the dimensions that can be cut."""
    inputs = sizes.inputs + 1
    if block == "attention":
        return tuple(attention_weights(sizes))
    if block == "mlp":
        return tuple((inputs * each.layers, (each.dimension, "d_model")) for each in sizes.mlps)
    if block == "experts":
        routed = (inputs * sizes.sparse_layers, ("experts", "expert_ff", "d_model"))
        return routed, (sizes.sparse_layers * sizes.experts.experts, ("d_model",))
    return (((1 if sizes.tied else 2) * sizes.d_model, ("vocab",)),)


def attention_weights(sizes: Sizes) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The weights of attention, those that are cut alike together."""
    found: dict[tuple[str, ...], int] = {}
    for each in sizes.matrices:
        heads = () if each.heads is None else (f"{each.heads}_heads",)
        cut = heads + (("d_model",) if each.whole is None else ())
        found[cut] = found.get(cut, 0) + sizes.layers * each.each * (each.whole or 1)
    yield from ((elements, cut) for cut, elements in found.items())


def received_bytes(block: str, new: Boxes, *olds: Boxes) -> int:
    """The most bytes of a block's weights that any chip must receive, less the part that it keeps of some old layout;
    all of its part where there is none."""
    elements: Ints = np.zeros(len(new.places.chips), dtype=np.int64)
    for each, dimensions in weights_of(block, new.sizes):
        runs = [new.runs(dimension) for dimension in dimensions]
        new_box = np.prod([end - first for first, end in runs], axis=0)
        kept = np.zeros_like(new_box)
        for old in olds:
            before = [old.runs(dimension) for dimension in dimensions]
            both = np.prod([shared(mine, theirs) for mine, theirs in zip(runs, before, strict=True)], axis=0)
            kept = np.maximum(kept, both)
        elements = elements + each * (new_box - kept)
    return ceil(int(elements.max()) * new.sizes.weight_bytes)


def shared(mine: Run, theirs: Run) -> Ints:
    """How many elements two runs have in common, per chip."""
    overlap: Ints = np.maximum(np.minimum(mine[1], theirs[1]) - np.maximum(mine[0], theirs[0]), 0)
    return overlap
