"""The scheduler over the compiled programs of packages: every request is given what a plain model gives it."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import jax
import numpy as np
import pytest

from tests.package.cases import CASES, GENERATE_CASES, POOLS, READS
from tests.package.harness import load
from tests.serving.served import Served, Thirds, drawn, finished

EVERY = {case.name: case for case in (*CASES, *READS, *GENERATE_CASES, *POOLS)}
PLANS: dict[str, dict[str, Any]] = {
    "one_device_two_prompts": {},
    "heads_by_batch_chunks": {},
    "tokens_by_all_to_all": {"chunk": 16, "page_tokens": 4},
    "scattered_and_exchanged_chunks_of_prompts": {},
    "apart_in_stages": {},
}
CONTEXT, BUCKETS, PAGE = 64, (16, 48), 8


@pytest.fixture(scope="module", params=PLANS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    sizes = {"page_tokens": PAGE, **PLANS[request.param]}
    case = replace(EVERY[request.param], context=CONTEXT, buckets=BUCKETS, **sizes)
    yield Served(case, load(case, tmp_path_factory.mktemp(case.name)))
    jax.clear_caches()


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
