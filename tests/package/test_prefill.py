"""Prefill as the engine offers it: prompts read together, in chunks, on slices of their own and in stages."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.package.cases import CASES, COPIED, POOLS, READS
from tests.package.harness import Package, load
from tests.render.plans import Case

PROMPTS = ([3, 200, 17, 42, 0, 9, 101, 13, 88, 5, 61], [7] * 20, [1, 2, 3], [5], list(range(40)))
EVERY = {case.name: case for case in (*CASES, *READS, *COPIED, *POOLS)}
TOGETHER = (
    "spare_axis_for_tokens_parts_of_two_prompts",
    "two_d_chunks_of_four",
    "apart_padded",
    "apart_in_four_stages",
)


def made(case: Case, folder: Path, buckets: tuple[int, ...] = (16, 32, 48)) -> tuple[Package, Any]:
    """The package of a case, and its engine with random weights."""
    package = load(replace(case, context=64, buckets=buckets), folder)
    checkpoint, config = package.module("checkpoint"), package.module("config").MODEL
    weights = package.module("loading").load_weights(checkpoint.RandomCheckpoint(config), config, package.mesh)
    return package, package.module("engine").Engine(weights, config, package.mesh)


def case_of(name: str) -> Case:
    if name == "two_d_chunks_of_four":
        return replace(EVERY["two_d"], name=name, prompts=4, chunk=16)
    return EVERY[name]


@pytest.fixture(scope="module", params=TOGETHER)
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, Any]:
    return made(case_of(request.param), tmp_path_factory.mktemp(request.param))


def read(package: Package, engine: Any, prompts: Any) -> list[Any]:
    """Prompts as the engine reads them together, as many at a time as it takes."""
    size = len(prompts) if hasattr(engine, "stages") else engine.config.prompts
    greedy = package.module("engine").GREEDY
    batches = [prompts[begin : begin + size] for begin in range(0, len(prompts), size)]
    return [found for batch in batches for found in engine.prefill_together(batch, [greedy] * len(batch))]


def test_prompts_read_together_go_on_as_they_do_alone(together: tuple[Package, Any]) -> None:
    package, engine = together
    alone = [[token.id for token in engine.stream(prompt, 6)] for prompt in PROMPTS]
    for slot, prefilled in enumerate(read(package, engine, PROMPTS)):
        engine.insert(prefilled, slot, max_tokens=6)
        assert prefilled.first == alone[slot][0]
    steps = [engine.generate() for _ in range(5)]
    assert [[tokens[slot].id for tokens in steps] for slot in range(len(PROMPTS))] == [each[1:] for each in alone]
    assert len(engine.free_slots) == engine.config.batch


def test_each_prompt_read_together_is_drawn_for_by_its_own_settings(together: tuple[Package, Any]) -> None:
    package, engine = together
    settings = [package.module("sampling").Sampling(temperature=9.0, seed=seed) for seed in range(2)]
    both = [engine.prefill_together([[4, 4]] * 2, pair) for pair in (settings, settings[::-1])]
    assert [each.first for each in both[0]] == [each.first for each in both[1]][::-1]
    assert both[0][0].first == engine.prefill([4, 4], settings[0]).first


def test_nothing_compiles_after_warm_up(together: tuple[Package, Any], caplog: pytest.LogCaptureFixture) -> None:
    package, engine = together
    engine.warm_up()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for slot, prefilled in enumerate(read(package, engine, PROMPTS)):
            engine.insert(prefilled, slot)
            engine.release(slot)
    assert not [record for record in caplog.records if "ompil" in record.getMessage()]


def test_too_many_prompts_and_prompts_that_do_not_fit_are_refused(together: tuple[Package, Any]) -> None:
    package, engine = together
    greedy = package.module("engine").GREEDY
    if not hasattr(engine, "stages"):
        count = engine.config.prompts + 1
        with pytest.raises(ValueError, match=f"{count} prompts; this plan reads 1 to {engine.config.prompts} together"):
            engine.prefill_together([[1]] * count, [greedy] * count)
    for prompt in ([], [1] * 49):
        with pytest.raises(ValueError, match=f"the prompt has {len(prompt)} tokens; this plan reads 1 to 48"):
            engine.prefill_together([[1], prompt], [greedy] * 2)


def test_chunks_are_read_as_far_as_the_prompt_goes(tmp_path: Path) -> None:
    _, engine = made(EVERY["one_device_chunks"], tmp_path, buckets=(48,))
    starts, program = [], engine._program("prefill", 48)

    def counted(*values: Any) -> Any:
        starts.append(int(values[3]))
        return program(*values)

    engine._programs["prefill", 48] = counted
    for tokens, wanted in ((1, [0]), (16, [0]), (17, [0, 16]), (40, [0, 16, 32])):
        starts.clear()
        engine.prefill([9] * tokens)
        assert starts == wanted


def test_a_chunk_fills_the_array_that_it_was_given(tmp_path: Path) -> None:
    package, engine = made(EVERY["one_device_chunks"], tmp_path)
    kv_cache, config = package.module("kv_cache"), engine.config
    memory = engine._program("prefill", 48).memory_analysis()
    kv = kv_cache.abstract_prefilled(config, package.mesh, 48)
    assert memory.alias_size_in_bytes == kv.size * kv.dtype.itemsize
    assert np.prod(kv.shape[:2]) == config.layers * 48


def test_stages_hold_their_own_layers_and_pass_rows_on(tmp_path: Path) -> None:
    package, engine = made(EVERY["apart_in_stages"], tmp_path)
    layers = {shard.data.shape[0] for shard in engine._prefill_weights.layers.w_q.addressable_shards}
    assert layers == {engine.config.layers // engine.stages}
    seen = []
    program = engine._program("prefill", 16)
    engine._programs["prefill", 16] = lambda *values: seen.append(values) or program(*values)
    read(package, engine, [[3, 1, 4], [1, 5], [9, 2, 6, 5]])
    assert len(seen) == 3 + engine.stages - 1
