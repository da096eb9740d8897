"""The scheduler over the compiled programs of packages: every request is given what a plain model gives it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import jax
import numpy as np
import pytest

from tests.package import reference
from tests.package.cases import CASES, GENERATE_CASES, POOLS, READS
from tests.package.harness import Package, load
from tests.render.plans import Case

EVERY = {case.name: case for case in (*CASES, *READS, *GENERATE_CASES, *POOLS)}
PLANS: dict[str, dict[str, Any]] = {
    "one_device_two_prompts": {},
    "heads_by_batch_chunks": {},
    "tokens_by_all_to_all": {"chunk": 16, "page_tokens": 4},
    "scattered_and_exchanged_chunks_of_prompts": {},
    "apart_in_stages": {},
}
CONTEXT, BUCKETS, PAGE = 64, (16, 48), 8


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


@pytest.fixture(scope="module", params=PLANS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    sizes = {"page_tokens": PAGE, **PLANS[request.param]}
    case = replace(EVERY[request.param], context=CONTEXT, buckets=BUCKETS, **sizes)
    yield Served(case, load(case, tmp_path_factory.mktemp(case.name)))
    jax.clear_caches()


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


@pytest.mark.parametrize(("steps", "depth"), [(1, 2), (3, 2)])
def test_every_request_is_given_what_a_plain_model_gives_it(served: Served, steps: int, depth: int) -> None:
    random, config = Random(steps), served.config
    few = config.pages_per_slot * 3 // 2  # of all slots of a group, so that sequences lose theirs
    scheduler = served.scheduler(few, steps, depth=depth, host_pages=6, prefill_budget=24)
    prompts = {f"r{number}": drawn(random) for number in range(14)}
    for name, prompt in prompts.items():
        scheduler.add(served.request(name, prompt, random.choice((1, 3, 9, 14))))
    made = finished(scheduler)
    assert made.keys() == prompts.keys()
    for name, prompt in prompts.items():
        served.check(prompt, made[name])
    for name, tokens in finished_again(served, scheduler, prompts).items():
        served.check(prompts[name], tokens)
    if scheduler.runner.reuses_prefixes:
        assert scheduler.places.cache.counters.hbm_tokens + scheduler.places.cache.counters.host_tokens > 0


def finished_again(served: Served, scheduler: Any, prompts: dict[str, list[int]]) -> dict[str, list[int]]:
    """Two tokens each of some prompts that were read before."""
    for name in ("r0", "r5", "r13"):
        scheduler.add(served.request(name, prompts[name], 2))
    return finished(scheduler)


@pytest.mark.parametrize("served", ["heads_by_batch_chunks", "apart_in_stages"], indirect=True)
def test_constrained_requests_choose_among_what_is_allowed(served: Served) -> None:
    random, few = Random(5), served.config.pages_per_slot * 3 // 2
    scheduler, thirds = served.scheduler(few, 3, depth=2), Thirds(served.config.vocab)
    prompts = {f"r{number}": drawn(random) for number in range(9)}
    held = {name: thirds if nth % 2 else None for nth, name in enumerate(prompts)}
    for name, prompt in prompts.items():
        scheduler.add(served.request(name, prompt, 14, held[name]))
    for name, made in finished(scheduler).items():
        served.check(prompts[name], made, held[name])


@pytest.mark.parametrize("served", ["heads_by_batch_chunks"], indirect=True)
def test_a_request_that_may_choose_nothing_ends_with_an_error(served: Served) -> None:
    nothing = type("Nothing", (), {"allowed": lambda _, made: np.full(served.config.vocab, len(made) < 3)})()
    scheduler = served.scheduler(None)
    scheduler.add(served.request("nothing", [1, 2, 3], 14, nothing))
    scheduler.add(served.request("beside", [1, 2, 3], 9))
    ends, tokens = {}, []
    while not scheduler.idle:
        for event in scheduler.step():
            ends[event.request] = event.finish
            tokens += [event.token] * (event.request == "beside" and event.token is not None)
    assert ends == {"nothing": "error", "beside": "length"}
    served.check([1, 2, 3], tokens)
