"""Lower bounds on what any layout costs on a mesh, from sizes alone: a mesh is priced when no other's is lower.

In a block each mesh axis cuts the stored weights or not. Of those that do, prefill may gather over some; the others cut
d_model (X chips together) or the block's width (Y) where it computes. The axes that are left can cut its rows, evenly.
A chip multiplies what remains of the rows with its part of the weights, and they travel: hidden columns over X, the
residual stream over Y, each there and back. Every legal cut is tried, charged at the rate of all its links at once and
for the fewest hops, so that no layout is cheaper. Prefill may read a second copy that is cut over other axes, where HBM
holds both.
"""

from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cost_models.matmul import compute_s, hbm_s
from planner.problem.chunks import steps_of
from planner.problem.costs import vocab_parts
from planner.problem.drafts import Drafts, rows_of
from planner.problem.layer_shapes import Shape, reading_steps, shapes
from planner.problem.legal import LANES
from planner.problem.links import Floats, LinkFloors
from planner.problem.machine import Machine
from planner.problem.problem import NS, UNIT_BYTES, Bools, Floor, Ints, Stored
from planner.problem.rules import Axes

if TYPE_CHECKING:
    from planner.problem.tables import Load

ROUNDING = 1e-9


@dataclass(frozen=True)
class Cuts:
    """Every way to cut a block, as sets of axes (`LinkFloors`)."""

    d_model: Ints
    width: Ints
    gathered: Ints

    @property
    def stored(self) -> Ints:
        """The axes that cut the stored weights."""
        return self.d_model | self.width | self.gathered

    def where(self, kept: Bools) -> "Cuts":
        """Some of them."""
        return Cuts(self.d_model[kept], self.width[kept], self.gathered[kept])


@cache
def all_cuts(axes: int) -> Cuts:
    """Every way to cut over so many mesh axes, legal or not."""
    roles = np.array(list(product(range(4), repeat=axes)), dtype=np.int64).reshape(4**axes, axes)
    places = 1 << np.arange(axes, dtype=np.int64)
    return Cuts(*(((roles == role) * places).sum(axis=1) for role in (1, 2, 3)))


@dataclass(frozen=True)
class Floors:
    """The floors of one mesh, for every number of prompts, every chunk and every batch of a load.

    The floor of a chunked prefill is that of a step of its rows, for each step. No term of a step falls faster than its
    rows do, so that chunks are never below whole prompts, and the scores of all steps are at least those of the prompt.
    """

    machine: Machine
    load: "Load"
    copies: bool = False
    """Whether blocks may have second copies of their weights."""
    _vocab_steps_ns: dict[Drafts | None, Ints] = field(default_factory=dict)

    def of(self, prompts: int, hbm_units: int | None, chunk: int | None = None, drafts: Drafts | None = None) -> Floor:
        """The floor of prefills of `prompts` by chunks and of steps with drafts, over what fits in so much HBM."""
        at = self.load.readings.index((prompts, chunk))
        least = [int(block.units.min()) for block in self.blocks]
        held = self.kept_units + sum(least)
        ways = (block.ways(at, self.copies, rows_of(drafts)) for block in self.blocks)
        stored = (
            Stored(each.prefill_ns, each.steps_ns, fitting(each.units, held - own, hbm_units))
            for each, own in zip(ways, least, strict=True)
        )
        return Floor(tuple(stored), int(self.vocab_prefill_ns[at]), self.vocab_steps_ns(drafts), held)

    @cached_property
    def blocks(self) -> tuple["BlockFloor", ...]:
        """Layers that are alike, block by block."""
        return tuple(BlockFloor(shape, self.links, self.load) for shape in shapes(self.machine, self.load))

    @cached_property
    def links(self) -> LinkFloors:
        """What the mesh's links allow."""
        return LinkFloors(self.machine)

    @cached_property
    def kept_units(self) -> Ints:
        """Units of 64 KiB per chip of the vocabulary and the KV cache, for each batch, cut over all chips."""
        sizes = self.machine.sizes
        cached = sizes.attended(self.load.max_context) * sizes.cached_dim * sizes.kv_bytes
        held = (self.vocab_bytes + cached * np.array(self.load.batches)) / self.machine.slice.chips / UNIT_BYTES
        return np.floor(held).astype(np.int64)

    @property
    def vocab_units(self) -> int:
        """Units per chip of the vocabulary, cut over all chips."""
        return int(self.vocab_bytes / self.machine.slice.chips / UNIT_BYTES)

    @property
    def vocab_bytes(self) -> float:
        """Bytes of the embedding, and of the head where it is not tied."""
        sizes = self.machine.sizes
        return (1 if sizes.tied else 2) * sizes.vocab * sizes.d_model * sizes.weight_bytes

    @cached_property
    def vocab_prefill_ns(self) -> Ints:
        """Nanoseconds of the vocabulary's local work, for each number of prompts read together and each chunk."""
        found = []
        for prompts, chunk in self.load.readings:
            count, tokens = steps_of(self.load.prompt, chunk)
            found.append(count * min(self.vocab_s(axes, prompts * tokens, prompts) for axes in self.vocab_cuts))
        return whole_ns(found)

    def vocab_steps_ns(self, drafts: Drafts | None = None) -> Ints:
        """The same of a step of each batch, whose rows are cut by the axes that do not cut the vocabulary."""
        if drafts not in self._vocab_steps_ns:
            self._vocab_steps_ns[drafts] = self.vocab_steps(drafts)
        return self._vocab_steps_ns[drafts]

    def vocab_steps(self, drafts: Drafts | None) -> Ints:
        """What `vocab_steps_ns` keeps."""
        queries, drafting_s = rows_of(drafts), drafts.seconds if drafts else 0.0
        shares = {axes: self.machine.ways(axes) / self.machine.slice.chips for axes in self.vocab_cuts}
        return whole_ns(
            [
                drafting_s + min(self.vocab_s(axes, rows * share, rows * share) for axes, share in shares.items())
                for rows in (queries * batch for batch in self.load.batches)
            ]
        )

    @cached_property
    def vocab_cuts(self) -> list[Axes]:
        """Every set of axes that may cut the vocabulary."""
        return [tuple(axis.name for axis in axes) for axes in self.links.sets]

    def vocab_s(self, vocab: Axes, looked_up: float, rows: float) -> float:
        """Seconds of the vocabulary's local work on one chip."""
        parts = vocab_parts(vocab, looked_up, rows, self.machine)
        return sum(self.machine.total_s(part) for part in parts.values())


def fitting(units: Ints, others: Ints, most: int | None) -> Bools:
    """Which stored weights fit beside the least of everything else, [stored, batches]; all where none does."""
    if most is None:
        return np.ones((len(units), len(others)), dtype=np.bool_)
    fits: Bools = units[:, None] + others <= most
    return fits | ~fits.any(axis=0)


class StoringWays(NamedTuple):
    """Ways of storing a block, once or twice: nanoseconds of prefill [ways] and of steps [ways, batches], and units of
    64 KiB per chip [ways]."""

    prefill_ns: Ints
    steps_ns: Ints
    units: Ints


@dataclass(frozen=True)
class BlockFloor:
    """The floors of one block on one mesh, for each set of axes that may cut its stored weights."""

    shape: Shape
    links: LinkFloors
    load: "Load"
    _steps_ns: dict[int, Ints] = field(default_factory=dict)

    def ways(self, at: int, copies: bool, queries: int) -> StoringWays:
        """Every way to store the block for prefills of the `at`-th number of prompts; with copies, also those in which
        prefill reads another set of cuts than steps do, and is the faster for it."""
        prefill_ns = self.prefill_ns[:, at]
        steps = read = np.arange(len(self.kept))
        if copies:
            second = np.nonzero(prefill_ns < prefill_ns[:, None])
            steps, read = (np.concatenate(pair) for pair in zip((steps, read), second, strict=True))
        units = self.units[steps] + np.where(steps == read, 0, self.units[read])
        return StoringWays(prefill_ns[read], self.steps_ns(queries)[steps], units)

    @cached_property
    def cuts(self) -> Cuts:
        """Every way to cut the block: parts of d_model are whole lanes, those of the width are wide enough."""
        machine, ways = self.links.machine, self.links.ways
        every = all_cuts(len(self.links.sets).bit_length() - 1)
        lanes = np.where((ways > 1) & (machine.chip.kind == "tpu"), LANES, 1)
        whole = machine.sizes.d_model % (ways * lanes) == 0
        wide = (ways == 1) | (self.shape.units >= ways * self.shape.least_units)
        return every.where(whole[every.d_model] & wide[every.width])

    @cached_property
    def kept(self) -> Ints:
        """The sets of axes that may cut stored weights: generate computes on all of them."""
        return np.unique(self.cuts.stored[self.cuts.gathered == 0])

    @cached_property
    def units(self) -> Ints:
        """Units of 64 KiB per chip of the weights of all layers, for each stored set."""
        sizes = self.links.machine.sizes
        whole = self.shape.layers * self.shape.parameters * sizes.weight_bytes / UNIT_BYTES
        return np.floor(whole / self.links.ways[self.kept]).astype(np.int64)

    @cached_property
    def prefill_ns(self) -> Ints:
        """Nanoseconds of prefills, [stored, prompts and chunks]."""
        counts, rows = reading_steps(self.load)
        spread = self.links.spread(np.array([self.load.smallest]))
        return self.least_ns(self.cuts, rows, spread, self.shape.prefill_between_s, counts)

    def steps_ns(self, queries: int = 1) -> Ints:
        """Nanoseconds of steps, [stored, batches], with so many rows of a sequence; no weights are gathered."""
        if queries not in self._steps_ns:
            batches, cuts = np.array(self.load.batches), self.cuts.where(self.cuts.gathered == 0)
            rows, spread = queries * batches.astype(np.float64), self.links.spread(batches)
            self._steps_ns[queries] = self.least_ns(cuts, rows, spread, self.shape.step_between_s)
        return self._steps_ns[queries]

    def least_ns(
        self, cuts: Cuts, rows: Floats, spread: Floats, between_s: Floats, counts: Floats | float = 1.0
    ) -> Ints:
        """Nanoseconds in all layers, [stored, rows]: the least over the cuts of the same stored weights. `counts` steps
        of such rows are made."""
        own = rows / spread[cuts.d_model | cuts.width]
        seconds = self.seconds(cuts, rows, own, between_s) * counts * self.shape.layers
        found = np.full((len(self.links.sets), len(rows)), np.inf)
        np.minimum.at(found, cuts.stored, seconds)
        return whole_ns(found[self.kept])

    def seconds(self, cuts: Cuts, rows: Floats, own: Floats, between_s: Floats) -> Floats:
        """Seconds of one layer, [cuts, rows], of which a chip multiplies its `own`."""
        stack = self.links.machine.stack
        x, y = self.links.ways[cuts.d_model][:, None], self.links.ways[cuts.width][:, None]
        local = self.matmuls_s(own, x, y) + self.elementwise_s(rows) + between_s
        talking = self.rows_s(cuts, own, x, y) + self.gather_s(cuts)[:, None]
        found: Floats = np.maximum(local, talking + (1 - stack.hides) * local)
        return found

    def narrow(self, y: Floats) -> Floats:
        """The part of the width on one chip: whole units."""
        return np.ceil(self.shape.units / y) / self.shape.units

    def matmuls_s(self, own: Floats, x: Floats, y: Floats) -> Floats:
        """Seconds of both matmuls of a chip's own rows, as one."""
        shape, machine, narrow = self.shape, self.links.machine, self.narrow(y)
        sizes, stack = machine.sizes, machine.stack
        share = (shape.cut * narrow + (shape.parameters - shape.cut) / y) / x
        read = shape.read(own)
        flops = 2 * (own * shape.met + read * stack.partial_overlap_tokens) * share
        copies = shape.mixture.experts_per_token / y if shape.mixture else 1.0
        widths = 2 * sizes.d_model / x * copies + (shape.out_width + shape.in_width) * narrow
        moved = read * share * sizes.weight_bytes * stack.weight_passes + own * widths * sizes.activation_bytes
        math_s = flops * compute_s(1.0, sizes.compute_dtype, machine.chip, stack)
        read_s = moved * hbm_s(1.0, machine.chip, stack)
        found: Floats = math_s + read_s if machine.overlap == "nothing" else np.maximum(math_s, read_s)
        return found

    def elementwise_s(self, rows: Floats) -> Floats:
        """Seconds of activations outside matmuls, cut over all chips."""
        machine = self.links.machine
        width = (machine.sizes.d_model + self.shape.in_width) * machine.sizes.activation_bytes / machine.slice.chips
        return rows * hbm_s(machine.stack.elementwise_passes * width, machine.chip)

    def rows_s(self, cuts: Cuts, own: Floats, x: Floats, y: Floats) -> Floats:
        """Seconds of a chip's own rows there and back: the residual stream over Y; hidden columns and norms over X.

        Rows may go to their experts by all-to-all, whose bytes are not charged here.
        """
        shape, sizes = self.shape, self.links.machine.sizes
        residual = own * 2 * sizes.d_model / x * (1 - 1 / y) * sizes.activation_bytes
        hidden = own * (shape.out_width + shape.in_width) * self.narrow(y) * (1 - 1 / x) * sizes.activation_bytes
        nothing = np.zeros((1, 1))
        norms = self.passes_s(cuts.d_model, nothing) * shape.normed
        outside = (
            self.passes_s(cuts.width, nothing, sent=True) if shape.mixture else self.passes_s(cuts.width, residual)
        )
        return outside + self.passes_s(cuts.d_model, hidden) + norms

    def passes_s(self, over: Ints, moved: Floats, sent: bool = False) -> Floats:
        """Seconds of `moved` bytes there and back over sets of axes; nothing over the empty set. `sent`: by whatever
        takes the fewest hops, all-to-alls among them."""
        links = self.links
        hops_s = links.passes * (links.sent_hops_s if sent else links.hops_s)[over][:, None]
        found = links.combined_s(moved / links.rate[over][:, None], hops_s) + links.launch_s
        return np.where(over[:, None] > 0, found, 0.0)

    def gather_s(self, cuts: Cuts) -> Floats:
        """Seconds of the gathers of weights before prefill computes: the share of a chip there, less the stored one."""
        links, sizes = self.links, self.links.machine.sizes
        there = links.ways[cuts.d_model] * links.ways[cuts.width]
        moved = self.shape.gathered / there * (1 - 1 / links.ways[cuts.gathered]) * sizes.weight_bytes
        found: Floats = moved / links.gather_rate[cuts.gathered]
        return found


def whole_ns(seconds: npt.ArrayLike) -> Ints:
    """Whole nanoseconds, rounded down."""
    return np.floor(np.asarray(seconds) * NS * (1 - ROUNDING)).astype(np.int64)
