"""The best plan of all modes that a spec allows."""

from dataclasses import replace

from planner.problem.build import Built
from planner.problem.pools import Apart
from planner.problem.problem import Weights
from planner.solve.fleet import FleetSolution, search_fleet
from planner.solve.search import Solution, search

Optimum = Solution | FleetSolution
PREFILL, GENERATE = Weights(1, 0), Weights(0, 1)


def optimum_of(built: Built) -> Optimum | None:
    """The best of the modes that may be taken; slices that take turns where both are as good."""
    together = search(built.problem) if built.together else None
    apart = best_fleet(built.apart)
    if together is None or apart is None:
        return together or apart
    return apart if fleet_value(apart, built) < fleet_value(together, built) else together


def best_fleet(choices: tuple[Apart, ...]) -> FleetSolution | None:
    """The best fleet of slices for each phase, with any choice of dtypes; the first of those that are as good."""
    found = [each for each in map(search_fleet, choices) if each is not None]
    if not found:
        return None
    best = min(found, key=lambda each: each.value)
    return replace(best, candidates=sum(each.candidates for each in found), solved=sum(each.solved for each in found))


def fleet_value(solution: Optimum, built: Built) -> tuple[int, float]:
    """What the modes are compared by: the goal; at a request rate chips, then what a request takes there."""
    arrivals, output = built.problem.arrivals, built.problem.output_tokens
    if isinstance(solution, FleetSolution):
        if arrivals is None:
            return 0, solution.value
        token_ns = solution.generate.quantity(GENERATE) / float(solution.generate.candidate.place.tokens_per_step)
        return fleet_chips(solution), solution.choice.ttft + output * token_ns
    if arrivals is None:
        return 0, float(solution.value)
    at = solution.taken.candidate.place
    prefill_ns, generate_ns = (solution.taken.quantity(each) for each in (PREFILL, GENERATE))
    token_ns = generate_ns / float(at.tokens_per_step) / (1 - arrivals.rate(at) * prefill_ns * float(at.reading.mean))
    ttft_ns = arrivals.to_first_token_ns(prefill_ns, at) + generate_ns
    return fleet_chips(solution), ttft_ns + output * token_ns


def fleet_chips(solution: Optimum) -> int:
    """Chips of all slices."""
    if isinstance(solution, FleetSolution):
        return int(solution.choice.chips)
    return solution.taken.candidate.table.chips * solution.taken.candidate.slices
