"""Seconds of the two steps of a plan: prefill by bucket, generate as predicted.

The plan prices the prefill of one bucket. Others take that time scaled by what the cost models say of each, so the
planned bucket keeps its predicted step whatever the catalogue says by now.
"""

from dataclasses import dataclass

from planner.plan.build import chosen_of
from planner.plan.schema import Plan
from planner.problem import costs


@dataclass(frozen=True)
class Steps:
    """Predicted seconds: of a prefill by bucket, shortest first, and of a generate step."""

    prefill_s: tuple[tuple[int, float], ...]
    generate_s: float
    prompts: int = 1
    """Prompts that a prefill reads together, in the same time when there are fewer."""
    stages: int = 1
    """Stages of a pipeline, each of which reads other prompts meanwhile."""

    def prompt_s(self, tokens: int) -> float:
        """Seconds to read a prompt: those of the smallest bucket that holds it."""
        return next((s for bucket, s in self.prefill_s if bucket >= tokens), self.prefill_s[-1][1])


def steps_of(plan: Plan) -> Steps:
    """The steps of a plan."""
    costed = {tokens: prefill_cost_s(plan, tokens) for tokens in {*plan.prefill.buckets, plan.prefill.tokens}}
    scale = plan.prefill.step_s / costed[plan.prefill.tokens]
    return Steps(
        tuple((bucket, costed[bucket] * scale) for bucket in plan.prefill.buckets),
        plan.generate.step_s,
        plan.prefill.prompts,
        plan.prefill.stages.count if plan.prefill.stages else 1,
    )


def prefill_cost_s(plan: Plan, tokens: int) -> float:
    """Seconds of the prefill of a bucket by the cost models."""
    reads = chosen_of(plan).reads
    return costs.total_s(reads.parts_of_prompt(tokens), reads.machine)
