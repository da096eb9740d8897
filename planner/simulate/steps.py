"""Seconds of the two steps of a plan: prefill by bucket or by chunk, generate as predicted.

The plan prices the prefill of one bucket. Others take that time scaled by what the cost models say of each, so the
planned bucket keeps its predicted step whatever the catalogue says by now. A chunk takes what it adds to those before.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from planner.plan.chosen import chosen_of
from planner.plan.schema import Plan
from planner.problem.chunks import steps_of as prefill_steps


@dataclass(frozen=True)
class Steps:
    """Predicted seconds: of a prefill by bucket, shortest first, and of a generate step."""

    prefill_s: tuple[tuple[int, float], ...]
    generate_s: float
    prompts: int = 1
    """Prompts that a prefill reads together, in the same time when there are fewer."""
    stages: int = 1
    """Stages of a pipeline, each of which reads other prompts meanwhile."""
    chunk: int | None = None
    chunks_s: tuple[float, ...] = ()
    """Seconds of the first chunk of a prompt, of the second, and so on, as many as the longest bucket has."""
    drafted_tokens: int = 0
    acceptance: float = 0.0

    def prompt_s(self, tokens: int) -> float:
        """Seconds to read a prompt: those of the smallest bucket that holds it."""
        return next((s for bucket, s in self.prefill_s if bucket >= tokens), self.prefill_s[-1][1])

    def reads_s(self, tokens: int) -> tuple[float, ...]:
        """Seconds of each step that reads a prompt: one of its bucket, or so many chunks."""
        bucket = next((bucket for bucket, _ in self.prefill_s if bucket >= tokens), self.prefill_s[-1][0])
        count, _ = prefill_steps(bucket, self.chunk)
        return (self.prompt_s(tokens),) if count == 1 else self.chunks_s[:count]

    def tokens(self, random: Random) -> int:
        """Tokens that a generate step adds to a sequence: one, and its drafts up to the first that is not accepted."""
        accepted = 0
        while accepted < self.drafted_tokens and random.random() < self.acceptance:
            accepted += 1
        return 1 + accepted


def steps_of(plan: Plan) -> Steps:
    """The steps of a plan."""
    prefill, chosen = plan.prefill, chosen_of(plan).reads
    costed = {tokens: chosen.read_s(tokens) for tokens in {*prefill.buckets, prefill.tokens}}
    scale = prefill.step_s / costed[prefill.tokens]
    found = Steps(
        tuple((bucket, costed[bucket] * scale) for bucket in prefill.buckets),
        plan.generate.step_s,
        prefill.prompts,
        prefill.stages.count if prefill.stages else 1,
    )
    if told := plan.generate.speculation:
        found = replace(found, drafted_tokens=told.drafted_tokens, acceptance=told.acceptance)
    if prefill.chunk is None:
        return found
    count, tokens = prefill_steps(prefill.buckets[-1], prefill.chunk)
    ends = [0.0, *(chosen.read_s(read * tokens) * scale for read in range(1, count + 1))]
    return replace(found, chunk=prefill.chunk, chunks_s=tuple(after - before for before, after in pairwise(ends)))
