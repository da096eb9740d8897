"""What became of every candidate, and of every option of the taken one: the search's proof, item by item.

A candidate is opened by the search exactly when its bound is not above the optimum, since candidates are taken in the
order of their bounds; so the ledger can be drawn up afterwards, and costs nothing when nobody asks for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from planner.problem.problem import LimitName, Problem, Weights
from planner.solve.candidate import NEVER, Candidate, dominators, total
from planner.solve.model import Taken
from planner.solve.search import Solution, candidates_of, solve_one

Verdict = Literal["taken", "tied", "dearer", "bounded", "limit", "limits", "illegal"]
"""Why a candidate is not the plan.

    tied      solved: as good, and later in the order (chips, mesh, larger batch first)
    dearer    solved: its own optimum is dearer than the taken one
    bounded   not solved: even its lower bound is dearer
    limit     some limit alone rules every layout out
    limits    every limit alone can be kept, all of them together cannot
    illegal   no layout is legal
"""

OptionVerdict = Literal["taken", "kept", "dominated", "dearer", "limit", "limits", "illegal"]
"""Why an option is not in the plan.

    kept        left to the solver, which took another
    dominated   another option of its block and residual layout is no worse in any price
    dearer      not dominated, but even the cheapest solution with it is dearer than the taken one
    limit       no solution with it keeps some limit
    limits      no solution with its residual layout keeps every limit
    illegal     not legal with this batch
"""


@dataclass(frozen=True)
class Least:
    """The least of a limited quantity that a candidate reaches, against the limit; in the problem's units."""

    limit: LimitName
    have: int
    need: int


@dataclass(frozen=True)
class Entry:
    """One candidate: its proven lower bound (None where a limit rules it out), and what became of it."""

    candidate: Candidate
    verdict: Verdict
    bound: Fraction | None = None
    value: Fraction | None = None
    broken: tuple[Least, ...] = ()


@dataclass(frozen=True)
class OptionEntry:
    """One option of the taken candidate; `by` is the option that dominates it, `limit` the limit that it breaks."""

    block: int
    index: int
    verdict: OptionVerdict
    by: int | None = None
    limit: LimitName | None = None


@dataclass(frozen=True)
class Ledger:
    """Every candidate in the order of the problem, and every option of the taken one."""

    problem: Problem
    taken: Taken | None
    entries: tuple[Entry, ...]
    options: tuple[OptionEntry, ...]


def ledger_of(problem: Problem, solution: Solution | None) -> Ledger:
    """The ledger of a search and its answer, None for an infeasible problem."""
    taken = solution.taken if solution else None
    entries = tuple(entry_of(candidate, taken) for candidate in candidates_of(problem))
    options = tuple(option_entries(taken)) if taken else ()
    return Ledger(problem, taken, entries, options)


def entry_of(candidate: Candidate, taken: Taken | None) -> Entry:
    """What became of one candidate."""
    bound = candidate.floor()
    if bound is None or taken is None or bound <= taken.value:
        bound = candidate.bound()
    if bound is None:
        return ruled_out(candidate)
    if taken is not None and bound > taken.value:
        return Entry(candidate, "bounded", bound)
    own = solve_one(candidate, None)
    if own is None:
        return Entry(candidate, "limits", bound)
    assert taken is not None, "a solved candidate makes the problem feasible"
    if is_same(candidate, taken.candidate):
        return Entry(candidate, "taken", bound, own.value)
    return Entry(candidate, "tied" if own.value == taken.value else "dearer", bound, own.value)


def is_same(candidate: Candidate, other: Candidate) -> bool:
    """Whether two candidates are the same mesh and batch."""
    return (candidate.mesh_index, candidate.batch_index) == (other.mesh_index, other.batch_index)


def ruled_out(candidate: Candidate) -> Entry:
    """A candidate without a bound: the limits that each rule it out alone, if there are any."""
    broken = []
    for name, (weights, most) in candidate.problem.named_rows(candidate.place).items():
        least = int(total(candidate.minima(weights)).min())
        if least >= NEVER:
            return Entry(candidate, "illegal")
        if least > most:
            problem = candidate.problem
            broken.append(Least(name, problem.limits.named()[name], problem.units(name, least * weights.scale)))
    if not broken and int(total(candidate.minima(Weights(0, 0, 1))).min()) >= NEVER:
        return Entry(candidate, "illegal")
    return Entry(candidate, "limit" if broken else "limits", broken=tuple(broken))


def option_entries(taken: Taken) -> Iterator[OptionEntry]:
    """What became of every option of the taken candidate, block by block."""
    candidate, goal = taken.candidate, taken.candidate.weights()
    best, costs = taken.quantity(goal), candidate.least_with_each(goal)
    fits = candidate.fitting(candidate.limit_rows())
    for number, block in enumerate(candidate.table.blocks):
        fitting = (candidate.choice(number, int(row)) for row in np.flatnonzero(fits[number]))
        fronts = {choice.index: by for choice, by in dominators(fitting)}
        broken = dict(unfit(candidate, number))
        cost = costs[number]
        for index in range(len(block.options)):
            if index in broken:
                yield broken[index]
            elif (by := fronts[index]) is not None:
                yield OptionEntry(number, index, "dominated", by.index)
            elif cost[index] > best:
                yield OptionEntry(number, index, "dearer")
            else:
                yield OptionEntry(number, index, "taken" if index == taken.choices[number].index else "kept")


def unfit(candidate: Candidate, number: int) -> Iterator[tuple[int, OptionEntry]]:
    """The options of a block that cannot be in any solution, each with the reason."""
    block = candidate.table.blocks[number]
    alive = candidate.residual_bounds() < NEVER
    named = candidate.problem.named_rows(candidate.place)
    least = {name: candidate.least_with_each(weights)[number] for name, (weights, _) in named.items()}
    for index in range(len(block.options)):
        broken = next((name for name, (_, most) in named.items() if NEVER > least[name][index] > most), None)
        if not block.column(candidate.batch_index).legal[index]:
            yield index, OptionEntry(number, index, "illegal")
        elif broken is not None:
            yield index, OptionEntry(number, index, "limit", limit=broken)
        elif not alive[block.residual[index]]:
            yield index, OptionEntry(number, index, "limits")
