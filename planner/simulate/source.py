"""The requests of a replay: those that warm the service up, then those that are counted, then more."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import ceil
from random import Random

import simpy

from cost_models.lengths import fitted
from planner.simulate.lengths import fractions
from planner.simulate.server import Request
from planner.spec import Spec


@dataclass(frozen=True)
class Warming:
    """How many requests come before those that are counted, and in how many strata their lengths are drawn.

    Of the first `cut` of them the k-th gets only (k + 1/2) / cut of its answer.
    """

    requests: int
    strata: int
    cut: int = 0


@dataclass(frozen=True)
class Source:
    """Draws requests of a spec's lengths; those that are counted are noted in `counted`, in the order they are sent."""

    spec: Spec
    env: simpy.Environment
    requests: int
    counted: list[Request]

    def drawn(self, warming: Warming, seed: int) -> Iterator[Request]:
        """Requests for ever."""
        random = Random(seed)
        strata = fractions(warming.strata, random), fractions(warming.strata, random)
        for number, prompt_at, output_at in zip(range(warming.requests), *strata, strict=False):
            each = self.request(prompt_at, output_at)
            if number < warming.cut:
                each.output = ceil(each.output * (number + 0.5) / warming.cut)
            yield each
        prompt_draws, output_draws = fractions(self.requests, random), fractions(self.requests, random)
        for number in count():
            each = self.request(next(prompt_draws), next(output_draws))
            if number < self.requests:
                self.counted.append(each)
            yield each

    def request(self, prompt_at: float, output_at: float) -> Request:
        """The request whose lengths these fractions of requests stay within."""
        workload = self.spec.workload
        prompt = fitted(workload.prompt_tokens.mean, workload.prompt_tokens.p95).at(prompt_at)
        output = fitted(workload.output_tokens.mean, workload.output_tokens.p95).at(output_at)
        return fitting(workload.max_context, prompt, output, self.env)

    def play(self) -> None:
        """Let time go by until every counted request is answered."""
        answered = 0
        while answered < self.requests:
            self.env.step()
            while answered < len(self.counted) and self.counted[answered].done.triggered:
                answered += 1


def fitting(context: int, prompt: int, output: int, env: simpy.Environment) -> Request:
    """A request cut to what one sequence of the KV cache holds; its output keeps at least one token."""
    kept = min(prompt, context - 1)
    made = min(output, context - kept)
    return Request(kept, made, env.event(), shortened=(kept, made) != (prompt, output))
