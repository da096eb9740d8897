"""Best-first search over candidates with proven bounds: CP-SAT solves one candidate, bounds dismiss the rest.

A candidate waits with its floor; when that is the least of all it is priced, and waits with the bound of its prices;
when that is the least it is solved. Where requests arrive at random it waits in the smallest fleet that its slots, its
floor, its prices, or the solver do not rule out: more slices loosen every limit, and cost more than all else can save.
 When the least is worse than the best solution so far, so is every candidate that
is left, and the solution is optimal for the whole problem.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np

from planner.problem.problem import Bools, Problem
from planner.solve.candidate import Candidate, Forbidden
from planner.solve.model import Taken, solve_candidate
from planner.solve.relaxed import Price, relaxed, sums

PRICED, UNPRICED, NEW = 0, 1, 2


@dataclass(frozen=True)
class Solution:
    """The optimum, with the proof: no candidate left unsolved has a bound below `bound`."""

    taken: Taken
    bound: Fraction
    candidates: int
    solved: int

    @property
    def value(self) -> Fraction:
        """The goal reached, in nanoseconds of a request."""
        return self.taken.value


def candidates_of(problem: Problem) -> list[Candidate]:
    """Every mesh and batch, smaller slices first."""
    return [
        Candidate(problem, table, mesh_index, batch_index)
        for mesh_index, table in enumerate(problem.meshes)
        for batch_index, batch in enumerate(problem.batches)
        if table.prompts <= batch
    ]


def search(problem: Problem) -> Solution | None:
    """The optimal solution of a problem, or None if it has none."""
    running = Search(problem)
    while running.open:
        running.step()
    return running.solution()


class Search:
    """A search that can be stopped: the best solution so far, and what waits."""

    def __init__(self, problem: Problem) -> None:
        self.candidates = candidates_of(problem)
        self.heap: list[tuple[Fraction, int, int]] = []
        self.best: Taken | None = None
        self.solved = 0
        for at, each in enumerate(self.candidates):
            if (bound := each.quick()) is not None:
                self.heap.append((bound, NEW if problem.fleet else UNPRICED, at))
        heapq.heapify(self.heap)

    @property
    def open(self) -> bool:
        """Whether anything that waits may be as good as the best."""
        return bool(self.heap) and (self.best is None or self.heap[0][0] <= self.best.value)

    @property
    def bound(self) -> Fraction | None:
        """What no solution is below; None where there is none."""
        bounds = [*([self.best.value] if self.best else []), *([self.heap[0][0]] if self.heap else [])]
        return min(bounds, default=None)

    def step(self) -> None:
        """Open the candidate that waits with the least bound."""
        _, stage, at = heapq.heappop(self.heap)
        if stage != PRICED:
            self.wait(at, self.candidates[at], stage - 1)
            return
        found = solve_one(self.candidates[at], self.best)
        self.solved += 1
        if found is None:
            self.wait(at, larger(self.candidates[at]), PRICED)
        elif self.best is None or preferred(found, self.best):
            self.best = found

    def wait(self, at: int, candidate: Candidate, stage: int) -> None:
        """Put a candidate among those that wait, in the smallest fleet that is not ruled out, if there is one."""
        fitting = smallest_fleet(candidate, Candidate.bound if stage == PRICED else Candidate.floor)
        if fitting is not None:
            self.candidates[at], bound = fitting
            heapq.heappush(self.heap, (bound, stage, at))

    def solution(self) -> Solution | None:
        """The optimum of a search with nothing open, or None."""
        if self.best is None or self.bound is None:
            return None
        return Solution(self.best, self.bound, len(self.candidates), self.solved)


def larger(candidate: Candidate) -> Candidate:
    """A candidate with one slice more."""
    return candidate.with_slices(candidate.slices + 1)


def smallest_fleet(
    candidate: Candidate, bound_of: Callable[[Candidate], Fraction | None]
) -> tuple[Candidate, Fraction] | None:
    """The candidate with the fewest slices, no fewer than its own, that has a bound; None where no number has one.

    What has a bound keeps it with more slices, so the number is found by doubling, then by halving the interval.
    """
    most, low = candidate.most_slices, candidate.slices - 1
    if low >= most:
        return None
    at, step = candidate.slices, 1
    while (bound := bound_of(candidate.with_slices(at))) is None:
        if at == most:
            return None
        low, at, step = at, min(at + step, most), step * 2
    while at - low > 1:
        middle = (at + low) // 2
        if (closer := bound_of(candidate.with_slices(middle))) is None:
            low = middle
        else:
            at, bound = middle, closer
    return candidate.with_slices(at), bound


def preferred(found: Taken, best: Taken) -> bool:
    """Whether a solution is better: by goal, then fewer chips, earlier mesh, larger batch."""
    return order(found) < order(best)


def order(taken: Taken) -> tuple[Fraction, int, int, int]:
    """What solutions of different candidates are compared by."""
    candidate = taken.candidate
    return taken.value, candidate.table.chips, candidate.mesh_index, -candidate.batch


def solve_one(candidate: Candidate, best: Taken | None, forbidden: Forbidden | None = None) -> Taken | None:
    """The best solution of a candidate that is no worse than `best`, and in which some block is not forbidden.

    A good solution is found first: with it the model that CP-SAT has to prove is small.
    """
    at_most = None if best is None else floor((best.value - candidate.base) / candidate.weights().scale)
    prices: list[Price] = []
    for among in allowed(candidate, forbidden):
        found = relaxed(candidate, at_most, among)
        at_most, prices = found.at_most, [*prices, *found.prices]
    choices = candidate.choices(at_most, forbidden, sums(candidate, prices, at_most))
    return solve_candidate(candidate, choices, forbidden)


def allowed(candidate: Candidate, forbidden: Forbidden | None) -> Iterator[list[Bools] | None]:
    """The options of each block that make up solutions; where some block must leave its forbidden ones, for each such
    block those in which it does."""
    if forbidden is None:
        yield None
        return
    every = [np.ones(len(block.options), dtype=np.bool_) for block in candidate.table.blocks]
    for number, hits in enumerate(forbidden):
        if hits is not None:
            yield [*every[:number], ~hits, *every[number + 1 :]]
