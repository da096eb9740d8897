"""The solver's word on a plan: what it proved, and the best plans not taken."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

from planner.plan import schema
from planner.plan.chosen import Chosen, rules_of
from planner.plan.optimum import Optimum, fleet_chips
from planner.problem import costs, labels
from planner.problem.build import Built
from planner.problem.problem import NS
from planner.solve.fleet import FleetSolution
from planner.solve.model import Taken
from planner.solve.runner_up import PHASES, runner_up


def proof_of(built: Built, solution: Optimum, near: schema.Near | None) -> schema.Proof:
    """What the solver proved; of a fleet for a request rate the chips that a request takes, used or not."""
    value, bound = solution.value, solution.bound
    arrivals = built.problem.arrivals
    if arrivals is not None:
        paid = Fraction(fleet_chips(solution) * NS) / arrivals.per_s
        value, bound = paid, paid if bound == value else paid * Fraction(bound) / Fraction(value)
    return schema.Proof(
        status="OPTIMAL" if value == bound else "NEAR",
        objective=built.problem.goal,
        value=ceil(value),
        bound=ceil(bound),
        candidates=solution.candidates,
        solved=solution.solved,
        near=near,
    )


def runner_ups_of(solution: Optimum, chosen: Chosen) -> dict[str, schema.RunnerUp | None]:
    """The runner-up of each phase of a solution, decoded as `chosen`."""
    taken = (solution.prefill, solution.generate) if isinstance(solution, FleetSolution) else (solution.taken,) * 2
    sides = zip(PHASES, taken, (chosen.reads, chosen), strict=True)
    return {phase: runner_up_of(phase, own, side) for phase, own, side in sides}


def runner_up_of(phase: str, taken: Taken, chosen: Chosen) -> schema.RunnerUp | None:
    """The runner-up of a phase, with its step and its price against the plan."""
    other_taken = runner_up(taken, phase)
    if other_taken is None:
        return None
    other, blocks = replace(chosen, rules=rules_of(other_taken)), chosen.machine.sizes.blocks
    rules = other.rules
    table: schema.GenerateRules | schema.PrefillRules
    if phase == "prefill":
        table = schema.PrefillRules(**rules.prefill._asdict())
        strategy, parts = labels.prefill_strategy(rules, blocks), other.prefill_parts()
    else:
        table = schema.GenerateRules(**rules.generate._asdict())
        strategy, parts = labels.generate_strategy(rules.generate, blocks), other.generate_parts()
    return schema.RunnerUp(
        rules=table,
        strategy=schema.Strategy(**strategy),
        step_s=costs.total_s(parts, chosen.machine),
        objective_ratio=round(own_value(other_taken) / own_value(taken), 6),
    )


def own_value(taken: Taken) -> float:
    """The goal of a solution without what comes before it."""
    return float(taken.value - taken.candidate.base)
