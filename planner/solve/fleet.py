"""The best fleet of prefill slices and generate slices: best first over pairs, with proven bounds of both sides.

Every slice under every load is a small search for its shortest step, which starts from floors and is driven on only
while it can matter. A pair whose bounds add up to no less than the best fleet is never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.problem.demand import NONE, Choice, GenerateSide, PrefillSide
from planner.problem.handover import Link
from planner.problem.pools import Apart, Pool
from planner.solve.model import Taken
from planner.solve.search import Search


@dataclass(frozen=True)
class FleetSolution:
    """The optimum: what each side took, numbers of slices, the link; no other fleet has a value below `bound`."""

    prefill: Taken
    generate: Taken
    choice: Choice
    link: Link
    sent_bytes: int
    value: float
    bound: float
    candidates: int
    solved: int


class Side:
    """All pools of one phase, with the best known bound of each."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self.searches = [Search(pool.problem) for pool in pools]

    def ns(self, at: int) -> float:
        """The bound on a pool's step; infinite where it has no layout."""
        bound = self.searches[at].bound
        return float("inf") if bound is None else float(bound)

    def is_exact(self, at: int) -> bool:
        """Whether the bound is the optimum."""
        return not self.searches[at].open

    def improve(self, at: int) -> None:
        """Drive a pool's search on until its bound moves, or it ends."""
        before = self.ns(at)
        while self.searches[at].open and self.ns(at) <= before:
            self.searches[at].step()


class Found(NamedTuple):
    """The best fleet so far: its value, and the pair of pools that it takes; `link` is None for none."""

    value: float
    choice: Choice
    link: Link | None
    row: int
    column: int


class FleetSearch:
    """A search over pairs of pools."""

    def __init__(self, apart: Apart, prefill: Side, generate: Side) -> None:
        self.apart, self.demand = apart, apart.demand
        self.prefill, self.generate = prefill, generate
        self.best = Found(float("inf"), NONE, None, 0, 0)
        self.reads = np.array([self.prefill_bound(at) for at in range(len(prefill.pools))])
        self.makes = np.array([self.generate_bound(at) for at in range(len(generate.pools))])
        self.bounds = self.reads[:, None] + self.makes

    def prefill_side(self, at: int) -> PrefillSide:
        """A prefill pool in numbers."""
        return self.prefill.pools[at].prefill_side(self.prefill.ns(at))

    def generate_side(self, at: int) -> GenerateSide:
        """A generate pool in numbers."""
        return self.generate.pools[at].generate_side(self.generate.ns(at))

    def prefill_bound(self, at: int) -> float:
        """What a prefill pool adds to the value at least."""
        side = self.prefill_side(at)
        return self.demand.prefill_bound(side) if np.isfinite(side.ns) else float("inf")

    def generate_bound(self, at: int) -> float:
        """What a generate pool adds to the value at least."""
        side = self.generate_side(at)
        return self.demand.generate_bound(side) if np.isfinite(side.ns) else float("inf")

    def run(self) -> FleetSolution | None:
        """The optimum, or None where there is none."""
        while (least := float(self.bounds.min(initial=float("inf")))) < self.best.value:
            row, column = (int(each) for each in np.unravel_index(int(self.bounds.argmin()), self.bounds.shape))
            choice, link = self.best_of(row, column)
            value = self.demand.value(choice)
            if value > least:
                self.bounds[row, column] = value
            elif not self.prefill.is_exact(row):
                self.improve_prefill(row)
            elif not self.generate.is_exact(column):
                self.improve_generate(column)
            else:
                self.best = Found(value, choice, link, row, column)
                self.bounds[row, column] = float("inf")
        return self.solution(min(least, self.best.value))

    def best_of(self, row: int, column: int) -> tuple[Choice, Link | None]:
        """The best fleet of a pair, if its steps are as short as their bounds."""
        prefill, generate = self.prefill_side(row), self.generate_side(column)
        names = self.prefill.pools[row].slice, self.generate.pools[column].slice
        found = [
            (self.demand.best(prefill, generate, link, self.apart.sent_bytes), link) for link in self.apart.links[names]
        ]
        return min(found, key=lambda each: self.demand.value(each[0]), default=(NONE, None))

    def improve_prefill(self, row: int) -> None:
        """Drive a prefill pool on, and raise the bounds of its pairs."""
        self.prefill.improve(row)
        self.reads[row] = max(self.reads[row], self.prefill_bound(row))
        self.bounds[row] = np.maximum(self.bounds[row], self.reads[row] + self.makes)

    def improve_generate(self, column: int) -> None:
        """Drive a generate pool on, and raise the bounds of its pairs."""
        self.generate.improve(column)
        self.makes[column] = max(self.makes[column], self.generate_bound(column))
        self.bounds[:, column] = np.maximum(self.bounds[:, column], self.reads + self.makes[column])

    def solution(self, bound: float) -> FleetSolution | None:
        """The best fleet of a search that is over."""
        value, choice, link, row, column = self.best
        if link is None:
            return None
        prefill, generate = self.prefill.searches[row].best, self.generate.searches[column].best
        assert prefill is not None, "a pair is looked at when its steps are known"
        assert generate is not None, "a pair is looked at when its steps are known"
        counted = self.prefill.searches + self.generate.searches
        candidates, solved = sum(len(each.candidates) for each in counted), sum(each.solved for each in counted)
        return FleetSolution(
            prefill, generate, choice, link, self.apart.sent_bytes, value, min(bound, value), candidates, solved
        )


def search_fleet(apart: Apart) -> FleetSolution | None:
    """The best fleet of prefill slices and generate slices, or None where there is none."""
    return FleetSearch(apart, Side(apart.prefill), Side(apart.generate)).run()
