"""Where the difference of two plans' objectives comes from: parts and collectives, each with its share."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan.machine import place_of, spec_of
from planner.plan.schema import Plan
from planner.problem.build import batches_of
from planner.problem.problem import Limits, Problem
from planner.spec import Spec


@dataclass(frozen=True)
class Cause:
    """One part or the collectives of one address: seconds a step in both plans, 0 where a plan has none.

    `effect` is what it adds to the objective, as a share of the first plan's objective. Of a cost it also counts chips
    and batch: the same seconds cost more on more chips.
    """

    address: str
    base_s: float
    head_s: float
    effect: float


def objective_ratio(base: Plan, head: Plan) -> float:
    """How many times the objective of one plan another reaches."""
    return head.proof.value / base.proof.value


def problem_of(spec: Spec) -> Problem:
    """A problem with the goal of a spec and no meshes, to weigh times with."""
    return Problem((), batches_of(spec), spec.workload.output_tokens.mean, spec.objective, Limits())


def phase_weights(plan: Plan) -> Mapping[str, float]:
    """What a second of each phase's step adds to the objective of a request; of a fleet to the chips it keeps busy."""
    if plan.fleet is not None and plan.pool is not None:
        output = spec_of(plan).workload.output_tokens.mean
        stages = plan.prefill.stages.count if plan.prefill.stages else 1
        read = len(plan.pool.mesh.chips) / plan.prefill.prompts / stages
        return {"prefill": read, "generate": len(plan.mesh.chips) * output / plan.generate.batch}
    problem = problem_of(spec_of(plan))
    weights = problem.goal_weights(problem.goal, place_of(plan))
    scale = float(weights.scale)
    return {"prefill": weights.prefill * scale, "generate": weights.generate * scale}


def part_causes(base: Plan, head: Plan) -> list[Cause]:
    """Every part of either plan, largest effect first; the effects add up to the difference of the objectives."""
    return causes(base, head, part_seconds(base), part_seconds(head))


def collective_causes(base: Plan, head: Plan) -> list[Cause]:
    """The collectives at every address of either plan, largest effect first; parts wait for them and include them."""
    return causes(base, head, collective_seconds(base), collective_seconds(head))


def part_seconds(plan: Plan) -> dict[str, float]:
    """Seconds a step of each part."""
    return {part.address: part.total_s for part in plan.prefill.parts + plan.generate.parts}


def collective_seconds(plan: Plan) -> dict[str, float]:
    """Seconds a step of the collectives at each address."""
    found: dict[str, float] = {}
    for each in plan.prefill.collectives + plan.generate.collectives:
        found[each.address] = found.get(each.address, 0.0) + each.seconds
    return found


def causes(base: Plan, head: Plan, before: Mapping[str, float], after: Mapping[str, float]) -> list[Cause]:
    """The effect of every address whose seconds or weight differ, largest first."""
    weights = phase_weights(base), phase_weights(head)
    whole = weights[0]["prefill"] * base.prefill.step_s + weights[0]["generate"] * base.generate.step_s
    found = []
    for address in dict.fromkeys([*before, *after]):
        phase = address.split(".")[0]
        base_s, head_s = before.get(address, 0.0), after.get(address, 0.0)
        effect = (weights[1][phase] * head_s - weights[0][phase] * base_s) / whole
        if effect:
            found.append(Cause(address, base_s, head_s, effect))
    return sorted(found, key=lambda cause: (-abs(cause.effect), cause.address))
