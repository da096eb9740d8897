"""Best-first search over candidates with proven bounds: CP-SAT solves one candidate, bounds dismiss the rest.

A candidate waits with its floor; when that is the least of all it is priced, and waits with the bound of its prices;
when that is the least it is solved. When the least is worse than the best solution so far, so is every candidate that
is left, and the solution is optimal for the whole problem.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np

from planner.problem.problem import Bools, Problem
from planner.solve.candidate import Candidate, Forbidden
from planner.solve.model import Taken, solve_candidate
from planner.solve.relaxed import Price, relaxed, sums

PRICED, UNPRICED = 0, 1


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
    candidates = candidates_of(problem)
    heap = [(floor, UNPRICED, at) for at, each in enumerate(candidates) if (floor := each.floor()) is not None]
    heapq.heapify(heap)
    best: Taken | None = None
    solved = 0
    while heap and (best is None or heap[0][0] <= best.value):
        _, stage, at = heapq.heappop(heap)
        if stage == UNPRICED:
            bound = candidates[at].bound()
            if bound is not None:
                heapq.heappush(heap, (bound, PRICED, at))
            continue
        found = solve_one(candidates[at], best)
        solved += 1
        if found is not None and (best is None or preferred(found, best)):
            best = found
    if best is None:
        return None
    bound = min(best.value, heap[0][0]) if heap else best.value
    return Solution(best, bound, len(candidates), solved)


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
    at_most = None if best is None else floor(best.value / candidate.weights().scale)
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
