"""Checks of the solver's answers that do not use the solver.

Blocks meet only in the residual layout, so the optimum can be enumerated: for each candidate and each layout, every
combination of options. Candidates and layouts are taken in the order of their priced bounds, until no bound is better
than what was found. Neither floors nor dominance are used, and it is exact with limits too. Fleets are enumerated too:
numbers of slices from one on, and every pair of pools of disaggregated serving.
"""

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import isfinite

import numpy as np

from planner.problem.demand import GenerateSide, PrefillSide
from planner.problem.pools import Apart, Pool
from planner.problem.problem import Ints, Problem, Weights
from planner.solve.candidate import NEVER, Candidate
from planner.solve.model import Taken
from planner.solve.search import candidates_of


def faults(taken: Taken) -> list[str]:
    """What is wrong with a solution, recomputed from the tables: nothing, for a sound one."""
    candidate, found = taken.candidate, []
    blocks = candidate.table.blocks
    if [choice.block for choice in taken.choices] != list(range(len(blocks))):
        found.append("a block without exactly one option")
    if len({choice.residual for choice in taken.choices}) > 1:
        found.append("blocks disagree on the residual stream")
    for choice in taken.choices:
        if not blocks[choice.block].column(candidate.batch_index).legal[choice.index]:
            found.append(f"{blocks[choice.block].name} takes an option that is not legal")
        if candidate.choice(choice.block, choice.index) != choice:
            found.append(f"{blocks[choice.block].name} is priced otherwise than its table says")
    for weights, bound in candidate.limit_rows():
        if taken.quantity(weights) > bound:
            found.append(f"a limit of {bound} is broken by {taken.quantity(weights)}")
    return found


def exact_optimum(problem: Problem) -> Fraction | None:
    """The least value of the goal over all solutions, by enumeration; None if there is no solution."""
    if problem.fleet is not None:
        return exact_rate(problem)
    candidates, best = candidates_of(problem), None
    bounds = [(bound, at) for at, each in enumerate(candidates) if (bound := each.bound()) is not None]
    for bound, at in sorted(bounds):
        if best is not None and bound >= best:
            break
        own = candidate_optimum(candidates[at])
        best = own if best is None or (own is not None and own < best) else best
    return best


def exact_rate(problem: Problem) -> Fraction | None:
    """The same where requests arrive at random: every candidate in fleets of one slice more each time, until one does
    or has more chips than the best."""
    assert problem.fleet is not None, "only a request rate takes a fleet"
    alone, best = replace(problem, arrivals=replace(problem.fleet, per_s=Fraction(0))), None
    for candidate in candidates_of(problem):
        if replace(candidate, problem=alone).bound() is None:
            continue  # not even without other requests
        own = None
        while own is None and candidate.slices <= candidate.most_slices and (best is None or candidate.base <= best):
            own = candidate_optimum(candidate)
            candidate = candidate.with_slices(candidate.slices + 1)
        best = own if best is None or (own is not None and own < best) else best
    return best


def exact_fleet(apart: Apart) -> float | None:
    """The least value of fleets of slices for each phase: every pool by enumeration, then every pair and link."""
    demand = apart.demand
    reads = [(pool, exact_optimum(pool.problem)) for pool in apart.prefill]
    makes = [(pool, exact_optimum(pool.problem)) for pool in apart.generate]
    values = (
        demand.value(demand.best(*sides(one, reading, other, making), link, apart.sent_bytes))
        for one, reading in reads
        for other, making in makes
        if reading is not None and making is not None
        for link in apart.links[one.slice, other.slice]
    )
    return min((value for value in values if isfinite(value)), default=None)


def sides(one: Pool, reading: Fraction, other: Pool, making: Fraction) -> tuple[PrefillSide, GenerateSide]:
    """Two pools as a fleet sees them."""
    return one.prefill_side(float(reading)), other.generate_side(float(making))


def candidate_optimum(candidate: Candidate) -> Fraction | None:
    """The least goal within one candidate: every combination of the layouts whose bound is below the best so far."""
    weights, best = candidate.weights(), NEVER
    bounds = candidate.residual_bounds()
    for residual in np.argsort(bounds, kind="stable"):
        if bounds[residual] >= best:
            break
        best = min(best, least_of_layout(candidate, int(residual)))
    return None if best >= NEVER else candidate.base + int(best) * weights.scale


def least_of_layout(candidate: Candidate, residual: int) -> np.int64:
    """The least goal, unscaled, over every combination of options with one layout that keeps every limit."""
    rows = [candidate.table.blocks[number].residual == residual for number in range(len(candidate.table.blocks))]

    def sums(weights: Weights) -> Ints:
        blocks = zip(candidate.table.blocks, rows, strict=True)
        parts = [candidate.quantities(block, weights)[chosen] for block, chosen in blocks]
        summed: Ints = np.minimum(reduce(np.add.outer, parts), NEVER)
        return summed

    goal = sums(candidate.weights())
    for weights, bound in candidate.limit_rows():
        goal = np.where(sums(weights) <= bound, goal, NEVER)
    return np.int64(goal.min())
