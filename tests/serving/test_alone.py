"""Under load every request is given the tokens that it is given alone; and nothing compiles once a server is ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import jax
import pytest

from tests.package.cases import CASES, READS
from tests.package.harness import load
from tests.serving.served import Served, Thirds, drawn, finished

EVERY = {case.name: case for case in (*CASES, *READS)}
CONTEXT, BUCKETS, PAGE, STREAMS = 64, (16, 64), 8, 64


def served(name: str, folder: Any, **sizes: Any) -> Served:
    """The package of a case, of these sizes."""
    case = replace(EVERY[name], context=CONTEXT, buckets=BUCKETS, page_tokens=PAGE, **sizes)
    return Served(case, load(case, folder))


@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_streams_are_given_what_each_is_given_alone(tmp_path: Any, chunk: int) -> None:
    random, machine = Random(chunk), served("one_device", tmp_path, chunk=chunk, batch=16)
    pages = machine.config.pages_per_slot * 3  # for 16 slots, so that sequences lose theirs
    crowded = machine.scheduler(pages, steps=2, depth=2, host_pages=20, prefill_budget=32)
    requests = {f"r{nth}": (drawn(random), random.choice((1, 11, 34, 34))) for nth in range(STREAMS)}
    again = {f"again {name}": requests[name] for name in random.sample(sorted(requests), 12)}
    made = {}
    for some in (requests, again):  # prompts that come again find their pages, in both tiers
        for name, (prompt, tokens) in some.items():
            crowded.add(machine.request(name, prompt, tokens))
        made |= finished(crowded)
    cache = crowded.places.cache.counters
    assert crowded.counters.preemptions > 0
    assert cache.hbm_tokens > 0
    assert cache.host_tokens > 0
    alone = machine.scheduler(None, prefix_cache=False)
    for name, (prompt, tokens) in (requests | again).items():
        alone.add(machine.request(name, prompt, tokens))
        assert made[name] == finished(alone)[name], name


@contextmanager
def compiles_counted() -> Iterator[list[str]]:
    """What is compiled meanwhile."""
    seen: list[str] = []
    active = True

    def note(event: str, *_: Any, **__: Any) -> None:
        if active and event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield seen
    active = False


# C1: sgl-project/sglang-jax#233, #234; vllm-project/tpu-inference#1967
@pytest.mark.parametrize("name", ["one_device", "heads_by_batch"])
def test_c1_nothing_compiles_once_a_server_is_ready(tmp_path: Any, name: str) -> None:
    random, machine = Random(3), served(name, tmp_path, chunk=16)
    thirds = Thirds(machine.config.vocab)
    with compiles_counted() as seen:
        machine.programs.warm_up_to_serve(3)
        assert seen
        seen.clear()
        scheduler = machine.scheduler(machine.config.pages_per_slot * 3, 3, depth=2, host_pages=9, prefill_budget=24)
        for nth in range(200):
            scheduler.add(machine.request(f"r{nth}", drawn(random), random.randrange(1, 12), **mixed(random, thirds)))
        assert len(finished(scheduler)) == 200
        assert scheduler.places.cache.counters.host_tokens > 0
        assert seen == []


def mixed(random: Random, thirds: Thirds) -> dict[str, Any]:
    """How a request chooses: greedy or drawn, with penalties or without, with log probabilities or without."""
    drawing = {
        "temperature": random.choice((0.0, 0.7, 1.3)),
        "top_k": random.choice((0, 5)),
        "seed": random.randrange(9),
    }
    limits = {"top_p": random.choice((1.0, 0.8)), "min_p": random.choice((0.0, 0.05))}
    penalties = {"repetition": random.choice((1.0, 1.2)), "frequency": random.choice((0.0, 0.5))}
    return {
        **drawing,
        **limits,
        **(penalties if random.random() < 0.3 else {}),
        "logprobs": random.random() < 0.2,
        "constraint": thirds if random.random() < 0.1 else None,
    }
