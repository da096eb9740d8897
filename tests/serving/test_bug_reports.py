"""Public bug reports of other engines about queues, pages and cached prefixes, as tests of what must happen instead."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving.fake_runner import VOCAB, FakeRunner
from tests.serving.load import Load

PAGE = 16


def machine(core: SimpleNamespace, limits: dict[str, Any] | None = None, **sizes: Any) -> Load:
    """A load on a runner with pages of 16 tokens."""
    plain = {"tokens_per_page": PAGE, "context": 128, "pages_per_slot": 8, "longest_prompt": 127, "chunk": 64}
    return Load(core, FakeRunner(**plain | sizes), limits or {})


def push_to_host(load: Load) -> None:
    """Read something that needs all pages of HBM."""
    runner = load.runner
    load.add([VOCAB - 1] * (runner.pages_per_group * PAGE - 1), 1)
    load.finish()


# GeeeekExplorer/nano-vllm#144, #199; vllm-project/tpu-inference#860; sgl-project/sglang#22819
@pytest.mark.parametrize("tier", ["hbm", "host"])
@pytest.mark.parametrize("length", [15, 16, 17, 32])
def test_a_prompt_that_is_cached_whole_is_read_from_its_last_token_on(core: SimpleNamespace, length: int, tier: str):
    load = machine(core, {"host_pages": 20}, pages_per_group=8)
    prompt = [position % 7 for position in range(length)]
    counters = load.scheduler.places.cache.counters
    for again in (prompt, prompt, [*prompt, 3]):
        before = counters.hbm_tokens, counters.host_tokens
        load.add(again, 20)
        load.finish()
        found = counters.hbm_tokens - before[0], counters.host_tokens - before[1]
        if len(load.requests) > 1:
            cached = (len(again) - 1) // PAGE * PAGE
            assert found == ((cached, 0) if tier == "hbm" else (0, cached))
        if tier == "host":
            push_to_host(load)
            load.requests.popitem()
            load.outcomes.popitem()
    load.check_outcomes()
    load.check_base_line()


# GeeeekExplorer/nano-vllm#211, #233
@pytest.mark.parametrize("host_pages", [0, 5, 100])
@pytest.mark.parametrize("seed", range(3))
def test_a_preempted_sequence_may_meet_its_own_pages(core: SimpleNamespace, seed: int, host_pages: int):
    random = Random(seed)
    load = machine(core, {"host_pages": host_pages}, slots=8, pages_per_group=12)
    for each in range(8):
        load.add([each % 3] * 40, 60, seed=each)
        for _ in range(random.randrange(12)):
            load.step()
    load.finish()
    load.check_outcomes()
    load.check_base_line()
    assert load.scheduler.counters.preemptions > 0
    assert load.scheduler.places.cache.counters.hbm_tokens > 0


# AI-Hypercomputer/maxtext#661; vllm-project/vllm#2163; sgl-project/sglang#3910
@pytest.mark.parametrize("chunk", [64, None])
def test_a_prompt_longer_than_the_engine_is_refused_and_others_go_on(core: SimpleNamespace, chunk: int | None):
    longest = 95 if chunk else 64
    load = machine(core, chunk=chunk, pages_per_group=6, longest_prompt=127 if chunk else 64)
    taken = [load.add([1] * length, 5) for length in (64, 65) if length <= longest]
    for length in (96, 100, 127, 128, 129, *([] if chunk else [65])):
        with pytest.raises(core.PromptTooLong, match=f"has {length} tokens; this engine reads 1 to {longest}$") as told:
            load.add([1] * length, 5)
        assert (told.value.tokens, told.value.limit) == (length, longest)
    taken.append(load.add([2] * 10, 5))
    load.finish()
    load.check_outcomes()
    assert len(taken) == len(load.outcomes)


def test_a_sequence_ends_for_its_length_where_the_engine_ends(core: SimpleNamespace):
    load = machine(core, pages_per_group=6)
    names = [load.add([1] * 90, most) for most in (None, 1000)]
    load.finish()
    load.check_outcomes()
    assert [(len(load.outcomes[name].tokens), load.outcomes[name].finish) for name in names] == [(6, "length")] * 2


# raullenchai/Rapid-MLX#1759; sgl-project/sglang#36333
@pytest.mark.parametrize("prompts", [1, 2])
@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_clients_that_go_away_leave_nothing_behind(core: SimpleNamespace, tokens: int, prompts: int):
    load = machine(core, {"prefill_budget": 8}, slots=2, pages_per_group=16, prompts=prompts, chunk=4)
    for each in range(40):
        gone = [load.add([each, 1], 100), load.add([2] * (each % 60 + 1), 100), load.add([each] * 9, 100)]
        while all(len(load.outcomes[name].tokens) < tokens for name in gone):
            load.step()
        for name in gone:
            assert load.scheduler.cancel(name)
            assert not load.scheduler.cancel(name)
        load.step()
        assert [load.outcomes[name].finish for name in gone] == ["cancelled"] * 3
    kept = load.add([5] * 20, 20)
    load.finish()
    assert load.outcomes[kept].finish == "length"
    load.check_outcomes()
    load.check_base_line()


@pytest.mark.parametrize("steps", range(8))
def test_a_prompt_that_is_cancelled_while_it_is_read_does_not_disturb_its_neighbour(core: SimpleNamespace, steps: int):
    for cancelled in (0, 1):
        load = machine(core, {"prefill_budget": 8}, slots=3, pages_per_group=16, prompts=2, chunk=4)
        load.add([7], 40)
        load.step()
        pair = [load.add([1] * 30, 5), load.add([2] * 9, 5)]
        for _ in range(steps):
            load.step()
        load.scheduler.cancel(pair[cancelled])
        load.finish()
        load.check_outcomes()
        load.check_base_line()


# AI-Hypercomputer/JetStream#45, #84, #9, #152
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_any_stop_token_ends_a_sequence_and_no_token_is_lost(core: SimpleNamespace, depth: int, steps: int):
    random, stops = Random(1), frozenset({0, 5, 11, 40, 77})
    load = machine(core, {"depth": depth}, slots=64, pages_per_group=300, steps_per_dispatch=steps, prompts=4)
    for _ in range(64):
        prompt = [random.choice((0, 0, 5, 30)) for _ in range(random.randrange(1, 40))]
        load.add(prompt, random.randrange(1, 60), stop_ids=stops, seed=random.randrange(100))
    load.finish()
    load.check_outcomes()
    ends = [outcome.tokens[-1] for outcome in load.outcomes.values() if outcome.finish == "stop"]
    assert set(ends) == stops
    assert all(stops.isdisjoint(outcome.tokens[:-1]) for outcome in load.outcomes.values())


# AI-Hypercomputer/JetStream#231
@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_chunks_of_any_size_read_the_same_prompt(core: SimpleNamespace, chunk: int):
    load = machine(core, {"prefill_budget": 16}, chunk=chunk, pages_per_group=32)
    for length in (1, 15, 16, 17, 63, 64, 65, 100):
        load.add([position % 5 for position in range(length)], 20)
    load.finish()
    load.check_outcomes()
