"""A package with programs for its plan, its scheduler, and what a plain model answers."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.package import reference
from tests.package.harness import Package
from tests.render.plans import Case


class Served:
    """A package with programs for its plan, and what a plain model answers."""

    def __init__(self, case: Case, package: Package) -> None:
        self.package, self.model = package, case.model
        checkpoint, self.config = package.module("checkpoint"), package.module("config").MODEL
        self.random = checkpoint.RandomCheckpoint(self.config)
        weights = package.module("loading").load_weights(self.random, self.config, package.mesh)
        self.programs = package.module("programs").Programs(weights, self.config, package.mesh)

    def request(self, name: str, prompt: list[int], max_tokens: int, constraint: Any = None, **sampling: Any) -> Any:
        """A request of the package's scheduler."""
        constrained = constraint is not None
        sampling = self.package.module("sampling").Sampling(**sampling, constrained=constrained)
        asked = self.package.module("runner").Choosing(sampling, constraint)
        request = self.package.module("sequence").Request
        return request(name, tuple(prompt), max_tokens, asked, needs_sync=constrained)

    def scheduler(self, pages: int | None, steps: int = 1, **limits: Any) -> Any:
        """A scheduler whose runner has so many pages in each group."""
        module = self.package.module
        runner = module("runner").Runner(self.programs, steps, pages)
        return module("scheduler").Scheduler(runner, module("scheduler").Limits(**limits))

    def check(self, prompt: list[int], made: list[int], constraint: Any = None) -> None:
        """Each token is the best of a plain model's that are allowed, or as good as that."""
        logits = reference.logits(self.model, self.random.read, [*prompt, *made])[len(prompt) - 1 : -1]
        for step, token in enumerate(made):
            if constraint is not None:
                logits[step] = np.where(constraint.allowed(made[:step]), logits[step], -np.inf)
            assert logits[step][token] == pytest.approx(logits[step].max(), abs=2e-4), step


class Thirds:
    """Allows a third of the tokens, by what was chosen before."""

    def __init__(self, vocab: int) -> None:
        self.ids = np.arange(vocab)

    def allowed(self, made: Sequence[int]) -> np.ndarray:
        return (self.ids + sum(made)) % 3 == len(made) % 2


def drawn(random: Random) -> list[int]:
    """A prompt that has its first tokens in common with others."""
    begin = [(random.randrange(2) * 31 + place) % 250 for place in range(random.choice((0, 8, 16, 20, 30)))]
    return [*begin, *(random.randrange(250) for _ in range(random.randrange(1, 14)))]


def finished(scheduler: Any) -> dict[str, list[int]]:
    """The tokens of all requests, once everything is done."""
    made: dict[str, list[int]] = {}
    for _ in range(2000):
        if scheduler.idle:
            return made
        for event in scheduler.step():
            assert event.finish != "error"
            if event.token is not None:
                made.setdefault(event.request, []).append(event.token)
        scheduler.check()
    raise AssertionError("the scheduler does not come to an end")
