"""The best plan of all modes that a spec allows."""

from dataclasses import replace

from planner.problem.build import Built
from planner.problem.demand import CHIP_NS
from planner.problem.pools import Apart
from planner.solve.fleet import FleetSolution, search_fleet
from planner.solve.search import Solution, search

Optimum = Solution | FleetSolution


def optimum_of(built: Built) -> Optimum | None:
    """The best of the modes that may be taken; slices that take turns where both are as good."""
    together = search(built.problem) if built.together else None
    apart = best_fleet(built.apart)
    if together is None or apart is None:
        return together or apart
    return apart if apart.value < fleet_value(together) else together


def best_fleet(choices: tuple[Apart, ...]) -> FleetSolution | None:
    """The best fleet of slices for each phase, with any choice of dtypes; the first of those that are as good."""
    found = [each for each in map(search_fleet, choices) if each is not None]
    if not found:
        return None
    best = min(found, key=lambda each: each.value)
    return replace(best, candidates=sum(each.candidates for each in found), solved=sum(each.solved for each in found))


def fleet_value(solution: Solution) -> float:
    """The value of slices that take turns, as that of a fleet of both kinds is measured."""
    candidate = solution.taken.candidate
    chips = CHIP_NS * candidate.table.chips * candidate.slices if candidate.problem.arrivals else 0.0
    return chips + float(solution.value - candidate.base)


def fleet_chips(solution: Optimum) -> int:
    """Chips of all slices."""
    if isinstance(solution, FleetSolution):
        return int(solution.choice.chips)
    return solution.taken.candidate.table.chips * solution.taken.candidate.slices
