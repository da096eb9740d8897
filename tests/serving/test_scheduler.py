"""The scheduler: what requests are given under any load, and who waits for whom."""

from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving.fake_runner import FakeRunner
from tests.serving.load import Load, play

MACHINES: dict[str, dict[str, Any]] = {
    "plain": {},
    "whole_prompts": {"chunk": None, "prompts": 2},
    "chunk_1": {"chunk": 1},
    "chunk_7": {"chunk": 7, "prompts": 2},
    "chunk_16": {"chunk": 16, "prompts": 3},
    "chunk_64": {"chunk": 64, "context": 64, "pages_per_slot": 16, "pages_per_group": 20, "longest_prompt": 63},
    "few_pages": {"pages_per_group": 9},
    "few_pages_many_slots": {"slots": 8, "pages_per_group": 9, "prompts": 4},
    "fewer_pages_than_a_slot": {"pages_per_group": 5},
    "tiny_pages": {"tokens_per_page": 1, "pages_per_slot": 24, "pages_per_group": 30, "context": 24},
    "groups": {"slots": 8, "groups": 4, "pages_per_group": 9, "prompts": 2},
    "steps_of_4": {"steps_per_dispatch": 4, "pages_per_group": 12},
    "steps_of_4_in_groups": {"steps_per_dispatch": 4, "groups": 2, "slots": 6, "pages_per_group": 10, "prompts": 2},
    "short_prompts": {"longest_prompt": 12, "pages_per_group": 11},
    "short_whole_prompts": {"longest_prompt": 9, "chunk": None, "pages_per_group": 9, "steps_per_dispatch": 4},
}
LIMITS: dict[str, dict[str, Any]] = {
    "sync": {"depth": 1, "prefill_budget": 8},
    "depth_2": {"depth": 2, "prefill_budget": 16, "host_pages": 6},
    "depth_3": {"depth": 3, "prefill_budget": 1, "host_pages": 40},
    "no_cache": {"depth": 2, "prefill_budget": 64, "prefix_cache": False},
}


def machine(core: SimpleNamespace, limits: dict[str, Any] | None = None, **sizes: Any) -> Load:
    """A load on a runner of these sizes."""
    return Load(core, FakeRunner(**sizes), limits or {})


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("sizes", MACHINES)
def test_requests_under_load_give_what_they_give_alone(core: SimpleNamespace, sizes: str, limits: str):
    load = machine(core, LIMITS[limits] | {"queue": 12}, **MACHINES[sizes])
    play(load, Random(f"{sizes} {limits}"), operations=400)
    load.check_outcomes()
    load.check_base_line()
    assert sum(outcome.finish != "cancelled" for outcome in load.outcomes.values()) > 20


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_held_twice_in_a_long_run(core: SimpleNamespace, seed: int):
    random = Random(seed)
    drawn = MACHINES[random.choice(list(MACHINES))] | {"groups": 2, "slots": 6}
    load = machine(core, {"queue": 20, "depth": random.randrange(1, 4), "host_pages": 5}, **drawn)
    play(load, random, operations=2500)
    load.check_outcomes()
    load.check_base_line()


def test_load_meets_what_it_is_meant_to_meet(core: SimpleNamespace):
    load = machine(core, LIMITS["depth_2"] | {"queue": 12}, **MACHINES["few_pages_many_slots"])
    play(load, Random(0), operations=1500)
    counters, cache = load.scheduler.counters, load.scheduler.places.cache.counters
    assert min(counters.preemptions, counters.dropped_tokens) > 10
    assert min(cache.hbm_tokens, cache.host_tokens, cache.missed_tokens, cache.copied_out, cache.forgotten) > 40
    calls = [call[0] for call in load.runner.calls]
    assert {"load", "copy_out", "copy_in"} <= set(calls)
    assert any(len(call[1]) > 1 for call in load.runner.calls if call[0] == "begin")


# Order


def begun(load: Load) -> list[tuple[int, ...]]:
    """Prompts in the order in which they were read."""
    return [prompt for call in load.runner.calls if call[0] == "begin" for prompt in call[1]]


def test_the_first_to_come_is_the_first_to_be_read(core: SimpleNamespace):
    load = machine(core, slots=2, prompts=2)
    prompts = [(each,) * (1 + 5 * (each % 3)) for each in range(12)]
    for prompt in prompts:
        load.add(list(prompt), 6)
    load.finish()
    assert begun(load) == prompts


def test_a_small_request_does_not_overtake_a_large_one(core: SimpleNamespace):
    load = machine(core, pages_per_group=8)
    load.add(range(20), 8)
    large, small = load.add(range(50, 75), 6), load.add([1], 2)
    load.finish()
    ends = [name for name in load.outcomes if name in (large, small)]
    assert ends == [large, small]
    assert begun(load)[1:] == [tuple(range(50, 75)), (1,)]


def test_prompts_are_read_together_where_reading_begins_at_the_same_position(core: SimpleNamespace):
    load = machine(core, prompts=3, slots=6, pages_per_group=40)
    load.add(range(12), 2)
    load.finish()
    for last in (40, 41, 42, 43):
        load.add([*range(8), last], 2)  # 8 tokens are cached
    load.add([90, 91, 92], 2)  # none is
    load.finish()
    batches = [len(call[1]) for call in load.runner.calls if call[0] == "begin"]
    assert batches == [1, 3, 1, 1]
    assert [call for call in load.runner.calls if call[0] == "load"] == [("load", nth, 8) for nth in (0, 1, 2, 0)]
    load.check_outcomes()


# Interleaving


def reads_between_generates(load: Load) -> list[int]:
    """Tokens of prompts read before each generate step but the first."""
    marks = [at for at, call in enumerate(load.runner.calls) if call[0] == "generate"]
    parts = [load.runner.calls[begin:end] for begin, end in pairwise(marks)]
    return [sum(call[3] for call in part if call[0] == "read") for part in parts]


@pytest.mark.parametrize(
    ("budget", "chunk", "prompts", "most"), [(8, 4, 1, 8), (10, 4, 1, 8), (3, 4, 1, 4), (8, 4, 2, 8)]
)
def test_generation_waits_for_no_more_than_the_budget(
    core: SimpleNamespace, budget: int, chunk: int, prompts: int, most: int
):
    limits = {"prefill_budget": budget}
    load = machine(core, limits, chunk=chunk, prompts=prompts, slots=8, pages_per_group=64)
    load.add([1], 31)
    load.step()
    for each in range(5):
        load.add([50 + each] * 20, 2)
    load.finish()
    assert max(reads_between_generates(load)) == most
    load.check_outcomes()


def test_a_whole_prompt_plan_reads_one_batch_between_two_steps(core: SimpleNamespace):
    load = machine(core, {"prefill_budget": 4}, chunk=None, prompts=2, slots=8, pages_per_group=64)
    load.add([1], 30)
    load.step()
    for each in range(5):
        load.add([50 + each] * 10, 2)
    load.finish()
    assert [tokens for tokens in reads_between_generates(load) if tokens] == [20, 20, 10]


def test_reading_goes_on_without_a_pause_where_nothing_runs(core: SimpleNamespace):
    load = machine(core, {"prefill_budget": 1}, chunk=2)
    name = load.add(range(20), 5)
    load.step()
    assert load.outcomes[name].tokens == load.expected(name)[:1]
    assert [call[0] for call in load.runner.calls] == ["begin", *["read"] * 10, "insert", "generate"]


# Dispatch


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_as_many_steps_are_on_their_way_as_may_be(core: SimpleNamespace, depth: int):
    load = machine(core, {"depth": depth})
    load.add([1, 2, 3], 12)
    for _ in range(6):
        load.step()
    assert sum(handle.generated for handle in load.runner.handles) == depth - 1
    load.finish()
    load.check_outcomes()


def test_no_step_is_called_for_tokens_that_nobody_may_have(core: SimpleNamespace):
    load = machine(core, {"depth": 3})
    load.add([1, 2, 3], 5)
    load.add([3, 2, 1], 1)
    load.finish()
    assert load.scheduler.counters.steps == 4  # the first token came from prefill


def test_first_tokens_are_told_before_the_step_that_follows_them(core: SimpleNamespace):
    load = machine(core, {"depth": 2})
    first = load.add([1, 2, 3], 20)
    load.step()
    assert len(load.outcomes[first].tokens) == 1
    second = load.add([4, 5], 20)
    load.step()
    assert (len(load.outcomes[first].tokens), len(load.outcomes[second].tokens)) == (2, 1)


def test_steps_are_synchronous_while_a_sequence_needs_it(core: SimpleNamespace):
    load = machine(core, {"depth": 3}, steps_per_dispatch=4)
    plain, steered = load.add([1, 2, 3], 25), ""
    for _ in range(20):
        load.step()
        if steered and load.outcomes[steered].finish is None:
            assert not load.runner.handles
        if not steered and len(load.outcomes[plain].tokens) > 5:
            steered = load.add([4, 5], 4, needs_sync=True)
    load.finish()
    load.check_outcomes()
    steps = [call[1] for call in load.runner.calls if call[0] == "generate"]
    assert steps.count(1) == 3
    assert steps[0] == steps[-1] == 4


# Preemption


def crowded(core: SimpleNamespace, **limits: Any) -> Load:
    """Five sequences of which no two fit to their ends."""
    load = machine(core, limits, slots=5, pages_per_group=10, longest_prompt=31)
    for each in range(5):
        load.add([each] * 4, 27)
    return load


def test_the_oldest_is_never_preempted(core: SimpleNamespace):
    load, states = crowded(core), core.State
    while not load.scheduler.idle:
        before = load.scheduler.places.sequences()
        load.step()
        assert not before or before[0].state in (states.READING, states.RUNNING, states.FINISHED)
    assert load.scheduler.counters.preemptions > 2
    load.check_outcomes()


def test_the_youngest_is_preempted_and_waits_at_the_front(core: SimpleNamespace):
    load = crowded(core)
    later = load.add([90], 3)
    while not load.scheduler.counters.preemptions:
        before = load.scheduler.places.sequences()
        load.step()
    gone = [each for each in before if each.state is core.State.WAITING]
    assert gone == before[-len(gone) :]
    waiting = load.scheduler._waiting
    assert waiting[: len(gone)] == gone
    assert waiting[-1].request.id == later
    load.finish()
    load.check_outcomes()


def test_sequences_end_in_the_order_in_which_they_came_where_no_two_fit(core: SimpleNamespace):
    load = crowded(core, prefix_cache=False)
    ends: list[str] = []
    while not load.scheduler.idle:
        ends += [event.request for event in load.step() if event.finish]
    assert ends == list(load.requests)


def test_a_sequence_that_could_not_be_read_again_is_not_preempted(core: SimpleNamespace):
    load = machine(core, {"prefix_cache": False}, pages_per_group=9, longest_prompt=10)
    load.add([1] * 3, 8)  # it may have 10 tokens when it is read again, and has 3 pages at its end
    load.add([2] * 9, 20)  # 28 tokens, 7 pages
    load.finish()
    load.check_outcomes()
    assert load.scheduler.counters.preemptions == 1
    assert list(map(len, begun(load))) == [3, 9, 9]


def test_one_page_is_left_for_each_sequence_that_grows(core: SimpleNamespace):
    load = machine(core, {"prefix_cache": False}, slots=4, pages_per_group=8, tokens_per_page=4)
    for each in range(4):
        load.add([each] * 7, 9)
    load.step()
    assert len(load.scheduler.places.sequences()) == 3  # of 2 pages each; the third left 2 for those before it
    load.finish()
    load.check_outcomes()


# Endings


def test_a_row_without_a_token_ends_its_request_only(core: SimpleNamespace):
    load = machine(core, {"depth": 1})
    bad, good = load.add([1, 2], 10), load.add([3, 4], 10)
    load.step()
    load.runner.broken_rows = {0}
    load.step()
    load.runner.broken_rows = set()
    load.finish()
    assert load.outcomes[bad].finish == "error"
    assert load.outcomes[bad].tokens == load.expected(bad)[: len(load.outcomes[bad].tokens)]
    assert load.outcomes[good].tokens == load.expected(good)
    load.check_base_line()


def test_what_makes_no_sense_is_refused(core: SimpleNamespace):
    load = machine(core, {"queue": 2})
    with pytest.raises(ValueError, match="max_tokens is 0"):
        load.add([1], 0)
    with pytest.raises(core.PromptTooLong, match="the prompt has 0 tokens; this engine reads 1 to 31"):
        load.add([], 1)
    name = load.add([1], 5)
    with pytest.raises(ValueError, match=f"request {name} is not finished yet"):
        load.scheduler.add(load.requests[name])
    load.add([2], 5)
    with pytest.raises(core.QueueFull, match="2 requests wait; more may not"):
        load.add([3], 5)
    load.finish()
    load.check_outcomes()
    assert not load.scheduler.cancel("never seen")


@pytest.mark.parametrize(("depth", "steps"), [(1, 1), (2, 1), (1, 4), (3, 4)])
@pytest.mark.parametrize("tokens", range(1, 10))
def test_a_conversation_goes_on_from_the_pages_of_its_answers(
    core: SimpleNamespace, tokens: int, depth: int, steps: int
):
    load = machine(core, {"depth": depth}, steps_per_dispatch=steps, pages_per_group=40)
    prompt = [1, 2, 3]
    for _ in range(3):
        answer = load.outcomes[load.add(prompt, tokens)]
        load.finish()
        written = len(prompt) + tokens - 1
        prompt = [*prompt, *answer.tokens, 90]
        assert len(load.scheduler.places.cache.match(0, prompt)) == written // load.runner.tokens_per_page
    load.check_outcomes()


def test_pages_are_shared_with_a_sequence_that_still_runs(core: SimpleNamespace):
    load = machine(core, slots=2, pages_per_group=10)
    load.add(range(16), 12)
    load.step()
    load.add([*range(16), 1], 4)
    load.step()
    first, second = load.scheduler.places.sequences()
    assert first.pages[:4] == second.pages[:4]
    load.finish()
    load.check_outcomes()
