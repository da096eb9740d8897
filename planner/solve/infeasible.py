"""Why a problem has no solution: the smallest set of limits in conflict, and for each need and have."""

from dataclasses import dataclass, replace

from planner.problem.problem import LimitName, Problem
from planner.solve.search import search


@dataclass(frozen=True)
class Need:
    """One limit of a conflict: the bound, and the least that some plan needs while the other limits hold.

    HBM is in 64 KiB units per chip, times in nanoseconds (TPOT for one token).
    """

    limit: LimitName
    have: int
    need: int


@dataclass(frozen=True)
class Infeasible:
    """No plan exists.

    `conflict` is minimal: dropping any one of its limits leaves a plan. It is empty when no layout is legal at all.
    """

    conflict: tuple[Need, ...]


def explain_infeasible(problem: Problem) -> Infeasible:
    """The minimal conflict of an infeasible problem, found by dropping its limits one by one in a fixed order."""
    limits = problem.limits
    for name in reversed(problem.limits.named()):
        fewer = limits.without(name)
        if search(replace(problem, limits=fewer)) is None:
            limits = fewer
    needs = [need_of(replace(problem, limits=limits), name) for name in limits.named()]
    return Infeasible(tuple(need for need in needs if need is not None))


def need_of(problem: Problem, name: LimitName) -> Need | None:
    """The least value of a limited quantity while the other limits of the problem hold."""
    solution = search(replace(problem, goal=name, limits=problem.limits.without(name)))
    if solution is None:
        return None
    return Need(name, problem.limits.named()[name], problem.units(name, solution.value))
