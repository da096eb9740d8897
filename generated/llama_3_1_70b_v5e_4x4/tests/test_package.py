# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The tiny model under the plan's rules, on virtual CPU devices, against the same model in plain NumPy."""

from functools import cache

import jax
import numpy as np
import pytest

from .. import TINY, Engine, Sampling, make_mesh
from ..checkpoint import RandomCheckpoint
from ..kv_cache import empty_cache
from ..loading import load_weights
from .plain import PlainModel

TOLERANCE = 0.15  # of a logit; activations are bfloat16, the cache bfloat16
PROMPT = [3, 200, 17, 42, 0, 9, 101, 13, 88, 5, 61]
TOKENS = 8


@cache
def engine() -> Engine:
    """One engine for all tests; each test leaves its slots free."""
    mesh = make_mesh(jax.devices())
    made = Engine(load_weights(RandomCheckpoint(TINY), TINY, mesh), TINY, mesh)
    made.warm_up(TINY.buckets[:1])
    return made


def answer(prompt: list[int], sampling: Sampling | None = None) -> list[int]:
    """The tokens that follow `prompt`."""
    return [token.id for token in engine().stream(prompt, TOKENS, sampling or Sampling())]


def test_greedy_tokens_are_the_plain_models_best() -> None:
    """Each token made has, in the plain model, the best logit up to rounding."""
    tokens = answer(PROMPT)
    logits = PlainModel(RandomCheckpoint(TINY), TINY).logits([*PROMPT, *tokens])[len(PROMPT) - 1 : -1]
    assert len(tokens) == TOKENS
    assert (logits.max(axis=1) - logits[np.arange(TOKENS), tokens]).max() < TOLERANCE


def test_neighbours_change_nothing() -> None:
    """A sequence says the same alone and beside others."""
    alone = answer(PROMPT)
    slots = engine().free_slots[1:]
    for slot in slots:
        engine().insert(engine().prefill([7] * (slot % 5 + 1)), slot)
    assert answer(PROMPT) == alone
    for slot in slots:
        engine().release(slot)


def test_the_same_seed_draws_the_same_tokens() -> None:
    """A draw depends on its seed and on nothing else."""
    drawn = [answer(PROMPT, Sampling(temperature=1.5, seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_cache_is_cut_as_planned() -> None:
    """All chips hold equal parts of the cache."""
    cache = empty_cache(TINY, engine().mesh).pages
    assert len({shard.data.shape for shard in cache.addressable_shards}) == 1
    assert len(cache.addressable_shards) == engine().mesh.size


def test_too_long_a_prompt_is_refused() -> None:
    """The error says how long a prompt may be."""
    with pytest.raises(ValueError, match="this plan reads 1 to"):
        engine().prefill([1] * (TINY.context + 1))
