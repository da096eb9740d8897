"""The real SmolLM2-135M under different plans says what an independent reading of the same file says."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
import pytest

from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from tests.package import reference
from tests.package.harness import load, phase_logits
from tests.render.plans import SMOLLM2, Case

XY = {"x": 2, "y": 4}
PLANS = [
    Case("one_device", {}, G(), P()),
    Case(
        "heads_on_four_with_sequence_parallel_prefill",
        XY,
        G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y")),
        P(tokens=("x", "y"), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "two_d_in_both_phases",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        P(d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "two_d_with_weight_gathered_prefill",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "kv_by_batch_over_both_axes",
        XY,
        G(batch=("x", "y"), q_heads=("x", "y"), d_ff=("x", "y"), vocab=("x", "y")),
        P(q_heads=("x", "y"), d_ff=("x", "y"), vocab=("x", "y")),
    ),
]
PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
)
TOKENS = 32


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

    def read(self, part: str, layer: int | None = None) -> np.ndarray:
        if (part, layer) not in self.matrices:
            self.matrices[part, layer] = self.checkpoint.read(part, layer)
        return self.matrices[part, layer]


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case.name)
def test_first_tokens_and_logits_equal_the_plain_reading(case: Case, tmp_path: Path) -> None:
    package = load(replace(case, buckets=(64,), context=128), tmp_path)
    config, checkpoint = package.module("config").MODEL, package.module("checkpoint")
    path = reference.smollm2_path()
    prompt = package.module("tokenizer").load_tokenizer(path).encode(PROMPT)
    weights = checkpoint.load_weights(Shared(checkpoint.open_checkpoint(path, config)), config, package.mesh)
    engine = package.module("engine").Engine(weights, config, package.mesh)
    made = [token.id for token in engine.stream(prompt, TOKENS)]
    assert len(made) == TOKENS
    expected = plain_logits((*prompt, *made))[len(prompt) - 1 : -1]
    assert made == expected.argmax(axis=1).tolist()
    logits = phase_logits(package, config, weights, [prompt])
    np.testing.assert_allclose(*_held(logits.after_prompt, expected[:1]), atol=2e-3)
    np.testing.assert_allclose(*_held(logits.after_token, plain_logits((*prompt, 7))[-1:]), atol=2e-3)


def _held(found: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = ~np.isnan(found)
    assert held.sum() == 64 * len(found)
    return found[held], wanted[held]


def test_every_cache_shard_is_its_share(tmp_path: Path) -> None:
    package = load(replace(PLANS[1], buckets=(64,), context=128), tmp_path)
    config = package.module("config").MODEL
    cache = package.module("kv_cache").empty_cache(config, package.mesh)
    pages = 30 * (8 // 2 * 128 // 16 + 1)
    assert {shard.data.shape for shard in cache.addressable_shards} == {(pages, 16, 2, 64)}
    assert len(cache.addressable_shards) == 8
    assert jax.tree.leaves(cache)[0].dtype == np.float32
