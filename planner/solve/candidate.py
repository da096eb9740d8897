"""One candidate (mesh, batch): its lower bound, and the choices that are left after safe pruning."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from operator import le

import numpy as np

from planner.problem.problem import Block, Bools, Ints, MeshTable, Place, Problem, Weights, whole_weights

NEVER = np.int64(2**61)
CHIP_NS = 10**18
"""What a chip of a fleet counts for: more than the goal, nanoseconds of a request, can ever be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of one block that a solution may still take; `index` is its row in the block's table."""

    block: int
    index: int
    residual: int
    prefill_ns: int
    generate_ns: int
    hbm: int
    change: int = 0

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """The four prices; an option that is no better in any of them is dominated."""
        return self.prefill_ns, self.generate_ns, self.hbm, self.change


Forbidden = tuple[Bools | None, ...]
"""For each block which of its options are forbidden to all such blocks together; None for a block that may take any."""


@dataclass(frozen=True)
class Candidate:
    """A mesh and a batch of a problem."""

    problem: Problem
    table: MeshTable
    mesh_index: int
    batch_index: int
    slices: int = 1
    """How many slices share the requests, where they arrive at random."""
    _bounds: list[Ints] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def base(self) -> Fraction:
        """What comes before the goal where requests arrive at random: the chips of the fleet, and the time until the
        other prompts of a prefill have come."""
        return self.paid + (self.problem.fleet.filling_ns(self.table.prompts) if self.problem.fleet else 0)

    @property
    def paid(self) -> Fraction:
        """What the chips of the fleet count for."""
        return Fraction(CHIP_NS * self.table.chips * self.slices if self.problem.fleet else 0)

    @property
    def most_slices(self) -> int:
        """The most slices that a fleet may have."""
        return self.problem.fleet.most_slices(self.table.chips) if self.problem.fleet else 1

    def with_slices(self, slices: int) -> "Candidate":
        """The same mesh and batch in a fleet of other size."""
        return replace(self, slices=slices)

    def quick(self) -> Fraction | None:
        """A lower bound before anything else is known: the floor in the smallest fleet whose slots may do."""
        fleet = self.problem.fleet
        if fleet is None:
            return self.floor()
        read, made = fleet.least_slices(Fraction(self.problem.output_tokens), self.place)
        shares = whole_weights(read, made)
        least = self.table.floor(self.problem.limits.hbm).least(shares, self.batch_index) * shares.scale
        candidate = self.with_slices(max(1, ceil(least)))
        return candidate.floor(candidate.problem.named_rows(candidate.place).values())

    def floor(self, rows: Iterable[tuple[Weights, int]] | None = None) -> Fraction | None:
        """A lower bound that needs no prices: from the floors of its mesh; None where they break a limit, or `rows`."""
        at, floor = self.batch_index, self.table.floor(self.problem.limits.hbm)
        kept = self.limit_rows() if rows is None else rows
        if any(floor.least(weights, at) > bound for weights, bound in kept):
            return None
        return self.base + floor.least(self.weights(), at) * self.weights().scale

    @property
    def batch(self) -> int:
        """Sequences generated together."""
        return self.problem.batches[self.batch_index]

    @property
    def place(self) -> Place:
        """What times are weighed by here."""
        table = self.table
        alone = Place.of(table.chips, table.prompts, self.batch, table.steps, table.tokens_per_step)
        return alone._replace(slices=self.slices, reading=table.reading)

    def weights(self) -> Weights:
        """What the problem's goal minimises here."""
        return self.problem.goal_weights(self.problem.goal, self.place)

    def limit_rows(self) -> list[tuple[Weights, int]]:
        """The limits of the problem as they read here."""
        return self.problem.limit_rows(self.place)

    def quantities(self, block: Block, weights: Weights) -> Ints:
        """A linear quantity of every option of a block; options that are not legal here cost `NEVER`."""
        at = self.batch_index
        column = block.column(at)
        priced = (
            (weights.prefill, block.prefill_ns),
            (weights.generate, column.generate_ns),
            (weights.hbm, column.hbm),
        )
        total: Ints = np.zeros_like(block.prefill_ns)
        for weight, prices in priced:
            if weight:
                total = total + weight * prices
        if weights.change:
            total = total + weights.change * block.changes(at)
        return np.where(column.legal, total, NEVER)

    def minima(self, weights: Weights) -> list[Ints]:
        """Per block, the least quantity for each residual layout."""
        return [self.least_of(block, self.quantities(block, weights)) for block in self.table.blocks]

    def least_of(self, block: Block, quantities: Ints) -> Ints:
        """The least of a quantity of the options of a block for each residual layout."""
        least = np.full(self.table.residuals, NEVER)
        np.minimum.at(least, block.residual, quantities)
        return least

    def residual_bounds(self) -> Ints:
        """For each residual layout a lower bound on the goal, `NEVER` where some limit alone rules it out."""
        if not self._bounds:
            bounds = total(self.minima(self.weights()))
            for weights, bound in self.limit_rows():
                bounds = np.where(total(self.minima(weights)) > bound, NEVER, bounds)
            self._bounds.append(bounds)
        return self._bounds[0]

    def bound(self) -> Fraction | None:
        """A lower bound on the goal of any solution here, scaled; None if no residual layout is left."""
        least = int(self.residual_bounds().min())
        return None if least >= NEVER else self.base + least * self.weights().scale

    def choices(
        self, at_most: int | None, forbidden: Forbidden | None = None, besides: Iterable[tuple[Weights, int]] = ()
    ) -> list[Choice]:
        """The options that can be in a solution whose (unscaled) goal is `at_most`, less the dominated ones.

        `besides`: other quantities that no such solution exceeds. A forbidden option dominates only other forbidden
        ones.
        """
        rows = [*self.limit_rows(), *besides]
        if at_most is not None:
            rows.append((self.weights(), min(at_most, int(NEVER) - 1)))
        kept: list[Choice] = []
        for number, found in enumerate(self.fitting(rows)):
            choices = (self.choice(number, int(row)) for row in np.flatnonzero(found))
            ranked = dominators(choices, lambda choice: forbidden is not None and is_forbidden(choice, forbidden))
            kept.extend(choice for choice, dominator in ranked if dominator is None)
        return kept

    def fitting(self, rows: Iterable[tuple[Weights, int]]) -> list[Bools]:
        """For each block the legal options with which every quantity can still be within its bound."""
        alive, blocks = self.residual_bounds() < NEVER, self.table.blocks
        found = [block.column(self.batch_index).legal & alive[block.residual] for block in blocks]
        for weights, bound in rows:
            for fits, least in zip(found, self.least_with_each(weights), strict=True):
                fits &= least <= bound
        return found

    def least_with_each(self, weights: Weights) -> list[Ints]:
        """For each option of each block, the least total of a quantity over solutions that take it."""
        blocks = self.table.blocks
        own = [self.quantities(block, weights) for block in blocks]
        minima = [self.least_of(block, quantities) for block, quantities in zip(blocks, own, strict=True)]
        others = [total([least for at, least in enumerate(minima) if at != number]) for number in range(len(blocks))]
        parts = zip(blocks, own, others, strict=True)
        return [np.minimum(quantities + rest[block.residual], NEVER) for block, quantities, rest in parts]

    def choice(self, number: int, row: int) -> Choice:
        """One row of a block's table as a choice here."""
        block = self.table.blocks[number]
        column = block.column(self.batch_index)
        return Choice(
            number,
            row,
            int(block.residual[row]),
            int(block.prefill_ns[row]),
            int(column.generate_ns[row]),
            int(column.hbm[row]),
            block.change_of(row, self.batch_index),
        )


def is_forbidden(choice: Choice, forbidden: Forbidden) -> bool:
    """Whether a choice is among the forbidden ones of its block."""
    hits = forbidden[choice.block]
    return hits is not None and bool(hits[choice.index])


def total(parts: list[Ints]) -> Ints:
    """Element sums that stay at `NEVER` once any part is."""
    summed = np.zeros_like(parts[0])
    for part in parts:
        summed = np.minimum(summed + part, NEVER)
    return summed


def dominators(
    choices: Iterable[Choice], group: Callable[[Choice], bool] = lambda _: False
) -> Iterator[tuple[Choice, Choice | None]]:
    """The choices of one block, each with one that dominates it, or None where there is none.

    A dominator has the same residual layout and group, and matches or beats the choice in every price. Of equal ones
    the first stays: swapping a dominated choice for its dominator keeps legality and raises nothing.
    """
    front: dict[tuple[int, bool], list[Choice]] = {}
    for choice in sorted(choices, key=lambda c: (c.residual, c.cost, c.index)):
        others, cost = front.setdefault((choice.residual, group(choice)), []), choice.cost
        found = next((other for other in others if all(map(le, other.cost, cost))), None)
        if found is None:
            others.append(choice)
        yield choice, found
