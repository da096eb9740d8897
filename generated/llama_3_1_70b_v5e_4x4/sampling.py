# Rendered from plan.yaml (sha256 cf84d444). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Choosing tokens: each chip offers its best candidates, all chips choose among the best of all.

Logits never leave their chip. A draw is made among the best 64 tokens, from noise that depends only on the request's
seed and the token's position: the same request gives the same text in any slot, beside any neighbours.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from . import collectives
from .config import CANDIDATES
from .sharding import GENERATE


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampling:
    """How each row chooses: arrays [rows], or for one request plain numbers."""

    temperature: Any = 0.0  # 0 takes the best token
    top_k: Any = 0  # 0 is off
    top_p: Any = 1.0  # 1 is off
    seed: Any = 0


def candidates(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(logits, token ids) of the best tokens of each row over all chips, both [rows, candidates], best first.

    Ids travel as float32 beside their logits, so that one collective carries both; ids below 2**24 are exact.
    """
    count = min(CANDIDATES, logits.shape[1])
    best, ids = lax.top_k(logits, count)
    ids = ids + collectives.rank(GENERATE.vocab) * logits.shape[1]
    offers = jnp.stack([best, ids.astype(jnp.float32)], axis=-1)
    offers = collectives.all_gather_at_once(offers, GENERATE.vocab, dim=1)
    best, places = lax.top_k(offers[:, :, 0], min(CANDIDATES, offers.shape[1]))
    ids = jnp.take_along_axis(offers[:, :, 1].astype(jnp.int32), places, axis=1)
    return best, ids


def choose(best: jax.Array, ids: jax.Array, sampling: Sampling, positions: jax.Array) -> jax.Array:
    """int32[rows]: the token of each row, drawn from its candidates for the token at `positions`."""
    order = jnp.arange(best.shape[1])
    scaled = best / jnp.maximum(sampling.temperature, 1e-6)[:, None]
    probabilities = jax.nn.softmax(scaled, axis=-1)
    before = jnp.cumsum(probabilities, axis=-1) - probabilities
    limit = jnp.where(sampling.top_k > 0, sampling.top_k, best.shape[1])[:, None]
    allowed = (order < limit) & ((before < sampling.top_p[:, None]) | (order == 0))
    draw = jnp.argmax(jnp.where(allowed, scaled + _noise(sampling.seed, positions, best.shape[1]), -jnp.inf), axis=-1)
    place = jnp.where(sampling.temperature > 0, draw, 0)
    return jnp.take_along_axis(ids, place[:, None], axis=1)[:, 0]


def _noise(seeds: jax.Array, positions: jax.Array, count: int) -> jax.Array:
    """Gumbel noise float32[rows, count]."""

    def row(seed: jax.Array, position: jax.Array) -> jax.Array:
        return jax.random.gumbel(jax.random.fold_in(jax.random.key(seed), position), (count,))

    return jax.vmap(row)(seeds, positions)
