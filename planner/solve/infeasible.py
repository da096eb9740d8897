"""Why a problem has no solution: the smallest set of limits in conflict, and for each need and have."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from planner.problem.pools import Apart, Pool
from planner.problem.problem import LimitName, Limits, Problem
from planner.solve.fleet import search_fleet
from planner.solve.search import search


@dataclass(frozen=True)
class Need:
    """One limit of a conflict: the bound, and the least that some plan needs while the other limits hold.

    That is all of them, if they can hold together, else those of the conflict.

    HBM is in 64 KiB units per chip, times in nanoseconds (TPOT for one token), a fleet in chips.
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
    """The minimal conflict of an infeasible problem, found by dropping its limits one by one in a fixed order.

    Where requests arrive at random, what slices cannot do even without other requests is blamed; if they can, it is
    the chips of the fleet.
    """
    if problem.arrivals is not None and problem.arrivals.per_s:
        alone = replace(problem, arrivals=replace(problem.arrivals, per_s=Fraction(0)))
        if search(alone) is not None:
            return Infeasible(tuple(need for need in [fleet_need(problem)] if need is not None))
        problem = alone
    limits = fewest(problem.limits, lambda fewer: search(replace(problem, limits=fewer)) is None)
    # While all other limits hold, if they can; else while those of the conflict do.
    needs = [need_of(problem, name) or need_of(replace(problem, limits=limits), name) for name in limits.named()]
    return Infeasible(tuple(need for need in needs if need is not None))


def fewest(limits: Limits, conflict: Callable[[Limits], bool]) -> Limits:
    """A minimal set of limits that are in conflict, as all of them are."""
    for name in reversed(limits.named()):
        fewer = limits.without(name)
        if conflict(fewer):
            limits = fewer
    return limits


def need_of(problem: Problem, name: LimitName) -> Need | None:
    """The least value of a limited quantity while the other limits of the problem hold."""
    solution = search(replace(problem, goal=name, limits=problem.limits.without(name)))
    if solution is None:
        return None
    return Need(name, problem.limits.named()[name], problem.units(name, solution.value))


def fleet_need(problem: Problem) -> Need | None:
    """The chips that a request rate needs, against those that the fleet may have."""
    assert problem.arrivals is not None, "only a request rate takes a fleet"
    solution = search(replace(problem, arrivals=replace(problem.arrivals, fleet_chips=None)))
    if solution is None or problem.arrivals.fleet_chips is None:
        return None
    candidate = solution.taken.candidate
    return Need("fleet_chips", problem.arrivals.fleet_chips, candidate.table.chips * candidate.slices)


def explain_infeasible_fleet(apart: Apart) -> Infeasible:
    """The same for slices of each phase: HBM of either, the times, then the chips of the fleet."""
    free = asked(apart, fleet_chips=None)
    if (solution := search_fleet(free)) is not None:
        most = apart.demand.fleet_chips
        assert most is not None, "nothing else was dropped"
        return Infeasible((Need("fleet_chips", most, least_chips(apart, most, int(solution.choice.chips))),))
    limits = fewest(all_limits(free), lambda fewer: search_fleet(limited(free, fewer)) is None)
    needs = [fleet_need_of(free, name) or fleet_need_of(limited(free, limits), name) for name in limits.named()]
    return Infeasible(tuple(need for need in needs if need is not None))


def least_chips(apart: Apart, too_few: int, enough: int) -> int:
    """The fewest chips of a fleet, between a number that is too small and one that is not."""
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        found = search_fleet(asked(apart, fleet_chips=middle))
        if found is None:
            too_few = middle
        else:
            enough = int(found.choice.chips)
    return enough


def asked(apart: Apart, **changes: object) -> Apart:
    """The same pools with another demand."""
    return replace(apart, demand=replace(apart.demand, **changes))  # type: ignore[arg-type]


def all_limits(apart: Apart) -> Limits:
    """The limits of a fleet: HBM is its pools', times are the demand's."""
    return apart.demand.limits


def limited(apart: Apart, limits: Limits) -> Apart:
    """The same under other limits."""

    def own(pool: Pool) -> Pool:
        return replace(pool, problem=replace(pool.problem, limits=Limits(hbm=limits.hbm)))

    return replace(
        asked(apart, limits=limits), prefill=tuple(map(own, apart.prefill)), generate=tuple(map(own, apart.generate))
    )


def fleet_need_of(apart: Apart, name: LimitName) -> Need | None:
    """The least value of a limited quantity while the other limits hold."""
    have = apart.demand.limits.named()[name]
    if name == "hbm":
        need = max(least_hbm(apart.prefill), least_hbm(apart.generate))
        return Need(name, have, need) if need > have else None
    goal: LimitName = "ttft" if name.startswith("ttft") else "tpot"
    found = search_fleet(asked(limited(apart, apart.demand.limits.without(name)), goal=goal))
    return None if found is None else Need(name, have, ceil(found.choice.goal))


def least_hbm(pools: tuple[Pool, ...]) -> int:
    """The least HBM that a slice of a phase needs."""
    found = [search(replace(pool.problem, goal="hbm", limits=Limits())) for pool in pools]
    return min((ceil(solution.value) for solution in found if solution is not None), default=0)
