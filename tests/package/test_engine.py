"""The engine: slots, finish reasons, and no compilation once it is warm."""

import logging
from dataclasses import replace
from typing import Any

import jax
import pytest

from tests.package.cases import CASES
from tests.package.harness import Package, load


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    case = next(case for case in CASES if case.name == "heads_by_batch")
    return load(replace(case, context=40, buckets=(16, 32)), tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def warm(package: Package) -> Any:
    checkpoint, config = package.module("checkpoint"), package.module("config").MODEL
    weights = package.module("loading").load_weights(checkpoint.RandomCheckpoint(config), config, package.mesh)
    engine = package.module("engine").Engine(weights, config, package.mesh)
    engine.warm_up()
    return engine


@pytest.fixture
def engine(warm: Any) -> Any:
    warm.end_ids = frozenset()
    for slot in range(8):
        warm.release(slot)
    return warm


def test_nothing_compiles_after_warm_up(engine: Any, caplog: pytest.LogCaptureFixture) -> None:
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for length in (1, 5, 16, 17, 32):
            prefilled = engine.prefill([9] * length)
            engine.insert(prefilled, engine.free_slots[0])
            engine.generate()
        engine.release(0)
        list(engine.stream([3, 4], 4))
    assert not [record for record in caplog.records if "ompil" in record.getMessage()]


def test_fifty_requests_share_eight_slots(engine: Any) -> None:
    waiting = [[1 + number % 7] * (1 + number % 19) for number in range(50)]
    alone = {tuple(prompt): [token.id for token in engine.stream(prompt, 5)] for prompt in waiting}
    running: dict[int, tuple[list[int], list[int]]] = {}
    done = 0
    while waiting or running:
        while waiting and engine.free_slots:
            prompt, slot = waiting.pop(), engine.free_slots[0]
            prefilled = engine.prefill(prompt)
            engine.insert(prefilled, slot, max_tokens=5)
            running[slot] = (prompt, [prefilled.first])
        for slot, token in engine.generate().items():
            prompt, made = running[slot]
            made.append(token.id)
            if token.finish:
                assert made == alone[tuple(prompt)]
                del running[slot]
                done += 1
    assert done == 50


def test_every_end_token_stops_and_is_marked(engine: Any) -> None:
    made = [token.id for token in engine.stream([5, 6, 7], 10)]
    engine.end_ids = frozenset({made[4], 999})
    stopped = list(engine.stream([5, 6, 7], 10))
    first = made.index(made[4])
    assert [token.id for token in stopped] == made[: first + 1]
    assert [token.finish for token in stopped] == [None] * first + ["stop"]
    assert len(engine.free_slots) == 8


def test_the_first_token_can_end_a_sequence(engine: Any) -> None:
    engine.end_ids = frozenset({next(engine.stream([5, 6, 7], 1)).id})
    assert [token.finish for token in engine.stream([5, 6, 7], 10)] == ["stop"]


@pytest.mark.parametrize("length", [1, 31, 32])
def test_a_full_context_finishes_with_length(engine: Any, length: int) -> None:
    made = list(engine.stream([2] * length))
    assert length + len(made) == 40
    assert [token.finish for token in made] == [None] * (len(made) - 1) + ["length"]


def test_a_closed_stream_frees_its_slot(engine: Any) -> None:
    stream = engine.stream([1, 2, 3])
    next(stream)
    next(stream)
    assert len(engine.free_slots) == 7
    stream.close()
    assert len(engine.free_slots) == 8


@pytest.mark.parametrize("length", [0, 33, 64])
def test_prompts_that_do_not_fit_are_refused(engine: Any, length: int) -> None:
    with pytest.raises(ValueError, match=f"the prompt has {length} tokens; this plan reads 1 to 32"):
        engine.prefill([1] * length)


def test_a_slot_in_use_is_refused(engine: Any) -> None:
    prefilled = engine.prefill([1])
    engine.insert(prefilled, 3)
    with pytest.raises(ValueError, match="slot 3 is not free"):
        engine.insert(prefilled, 3)
    with pytest.raises(ValueError, match="slot 8 is not free"):
        engine.insert(prefilled, 8)


def test_draws_follow_the_settings(package: Package, engine: Any) -> None:
    sampling = package.module("sampling").Sampling

    def first(**settings: Any) -> int:
        return int(engine.prefill([4, 4, 4], sampling(**settings)).first)

    greedy = first()
    assert {first(temperature=5.0, top_k=1, seed=seed) for seed in range(5)} == {greedy}
    assert {first(temperature=5.0, top_p=1e-6, seed=seed) for seed in range(5)} == {greedy}
    assert len({first(temperature=5.0, seed=seed) for seed in range(12)}) > 4
    assert len({first(temperature=5.0, top_k=3, seed=seed) for seed in range(20)}) <= 3
    assert max(first(temperature=100.0, seed=seed) for seed in range(20)) < engine.config.vocab


def test_prefill_holds_no_square_of_the_prompt(package: Package) -> None:
    prefill = package.module("prefill").lower_prefill(package.module("config").MODEL, package.mesh, 1024)
    text = prefill.compile().as_text()
    assert "512,1024]" not in text
    assert "1024,1024]" not in text
    assert "128,1024]" in text


def test_state_keeps_its_layout(engine: Any) -> None:
    before = [(array.sharding, array.ndim) for array in jax.tree.leaves((engine._cache, engine._slots))]
    engine.insert(engine.prefill([1, 2]), 0)
    engine.generate()
    after = [array.sharding for array in jax.tree.leaves((engine._cache, engine._slots))]
    assert len(after) == len(before)
    assert all(old.is_equivalent_to(new, ndim) for (old, ndim), new in zip(before, after, strict=True))


def test_the_mesh_takes_the_planned_devices_only(package: Package, capsys: pytest.CaptureFixture[str]) -> None:
    sharding = package.module("sharding")
    assert sharding.make_mesh(jax.devices()).size == 8
    assert "using 8 of 16 devices; the others stay idle" in capsys.readouterr().err
    with pytest.raises(sharding.DeviceError, match="needs 8 chips of a cpu 2x4 slice; found 5 cpu devices"):
        sharding.make_mesh(jax.devices()[:5])


class Chip:
    """A TPU chip, as far as a mesh looks at it."""

    platform = "tpu"

    def __init__(self, *coords: int) -> None:
        self.coords = coords


def test_chips_at_other_coordinates_are_refused(package: Package) -> None:
    sharding = package.module("sharding")
    with pytest.raises(sharding.DeviceError, match=r"the plan uses the chip at \(0, 2, 0\)"):
        sharding.make_mesh([Chip(x, y, 0) for x in range(4) for y in range(2)])
    with pytest.raises(sharding.DeviceError, match="16 devices share 8 chips"):
        sharding.make_mesh([Chip(x, y, 0) for x in range(2) for y in range(4) for core in range(2)])
