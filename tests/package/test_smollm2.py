"""The real SmolLM2-135M under different plans says what an independent reading of the same file says."""

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
import pytest

from planner.plan.schema import Plan
from tests.package import reference
from tests.package.harness import Request, load_plan, replay
from tests.plans_of import example_plan
from tests.render.plans import SMOLLM2

ONE_D = ("pins.generate.attention=1d", "pins.generate.mlp=1d")
PLANS = {
    "one_device": ("hardware.slice=1x1",),
    "one_d_with_sequence_parallel_prefill": (*ONE_D, "pins.generate.kv_heads=y", "pins.prefill.mlp=sequence_parallel"),
    "two_d_in_both_phases": ("pins.generate.attention=2d", "pins.generate.mlp=2d", "pins.prefill.mlp=2d"),
    "weight_gathered_prefill": ("pins.generate.mlp=2d", "pins.prefill.attention=weight_gathered"),
    "kv_by_batch_over_both_axes": (*ONE_D, "pins.generate.kv_cache=batch", "pins.generate.q_heads=[x, y]"),
    "three_kv_heads_on_an_axis_of_four": (
        "pins.generate.q_heads=y",
        "pins.generate.kv_heads=y",
        "pins.generate.d_model=none",
        "pins.generate.kv_cache=heads",
    ),
}
PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
)
TOKENS = 16


@cache
def read() -> reference.Read:
    """Matrices of the file, each read once."""
    return cache(reference.gguf_reader(reference.smollm2_path(), SMOLLM2))


@cache
def plain_logits(ids: tuple[int, ...]) -> np.ndarray:
    return reference.logits(SMOLLM2, read(), ids)


class Shared:
    """A checkpoint whose matrices all plans share: every package reads the file with the same code."""

    matrices: ClassVar[dict[tuple[str, int | None], np.ndarray]] = {}

    def __init__(self, checkpoint: Any) -> None:
        self.checkpoint = checkpoint

    def read(self, part: str, layer: int | None = None, *cut: slice) -> np.ndarray:
        if (part, layer) not in self.matrices:
            self.matrices[part, layer] = self.checkpoint.read(part, layer)
        return self.matrices[part, layer][cut]

    def scales(self, *_: Any) -> None:
        return None


@cache
def planned(name: str) -> Plan:
    """The proven plan under the pins of that name."""
    return example_plan("smollm2_135m_cpu8", *PLANS[name])


MORE = {"one_d_with_sequence_parallel_prefill", "weight_gathered_prefill", "three_kv_heads_on_an_axis_of_four"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in MORE)) for name in PLANS]
)
def test_first_tokens_and_logits_equal_the_plain_reading(name: str, tmp_path: Path) -> None:
    package = load_plan(planned(name), name, tmp_path)
    config, checkpoint = package.module("config").MODEL, package.module("checkpoint")
    path = reference.smollm2_path()
    prompt = package.module("tokenizer").load_tokenizer(path).encode(PROMPT)
    weights = package.module("loading").load_weights(
        Shared(checkpoint.open_checkpoint(path, config)), config, package.mesh
    )
    engine = package.module("engine").Engine(weights, config, package.mesh)
    made = [token.id for token in engine.stream(prompt, TOKENS)]
    assert len(made) == TOKENS
    expected = plain_logits((*prompt, *made))[len(prompt) - 1 : -1]
    assert made == expected.argmax(axis=1).tolist()
    request = Request(tuple(prompt), slot=3, begin=0, end=2)
    wanted = reference.normalised(plain_logits(tuple(request.tokens)))
    (logprobs,) = replay(package, config, weights, [request]).logprobs
    np.testing.assert_allclose(*_held(logprobs, wanted[len(prompt) - 1 :]), atol=2e-3)


def test_heads_that_do_not_divide_are_padded_by_kv_group_and_counted() -> None:
    plan = planned("three_kv_heads_on_an_axis_of_four")
    padded = {item.dimension: (item.size, item.padded) for item in plan.padding}
    generate = {dimension: sizes for dimension, sizes in padded.items() if not dimension.startswith("prefill.")}
    assert generate == {"q_heads": (9, 12), "kv_heads": (3, 4)}
    assert all(item.bytes_per_chip > 0 for item in plan.padding)


def test_the_plans_differ_in_their_tables() -> None:
    tables = [(planned(name).prefill.rules, planned(name).generate.rules) for name in PLANS]
    assert len(set(map(repr, tables))) == len(PLANS)


def _held(found: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = ~np.isnan(found)
    assert held.sum() == 63 * len(found)
    return found[held], wanted[held]


def test_every_cache_shard_is_its_share(tmp_path: Path) -> None:
    plan = planned("three_kv_heads_on_an_axis_of_four")
    package = load_plan(plan, "cache_shards", tmp_path)
    config = package.module("config").MODEL
    cache = package.module("kv_cache").empty_cache(config, package.mesh)
    slots = plan.generate.batch
    pages = 30 * (slots * 512 // 16 + 1)
    shards = cache.pages.addressable_shards
    assert {shard.data.shape for shard in shards} == {(pages, 16, 2, 64)}
    assert len(shards) == 8
    assert [each.dtype for each in jax.tree.leaves(cache)] == [np.float32]
    assert shards[0].data.nbytes == plan.hbm.kv_cache
