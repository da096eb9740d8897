# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Choosing tokens: each chip offers its best candidates, all chips choose among the best of all.

Logits never leave their chip. A draw is made among the best 63 tokens, from noise that depends only on the request's
seed and the token's position: the same request gives the same text in any slot, beside any neighbours. What a request
has said so far is marked on the chips, [vocab] of each slot, for penalties and for tokens that it may not choose.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import collectives
from .config import CANDIDATES, TOLD
from .sharding import GENERATE

MARKS = jnp.int16
NO_TOKEN = -1  # where all tokens are forbidden, or the logits are no numbers
COUNT, READ, FORBIDDEN = 0x1FFF, 0x2000, 0x4000  # parts of a mark: times chosen, in the prompt, may not be chosen


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampling:
    """How each row chooses: arrays [rows], or for one request plain numbers."""

    temperature: Any = 0.0  # 0 takes the best token
    top_k: Any = 0  # 0 is off
    top_p: Any = 1.0  # 1 is off
    min_p: Any = 0.0  # least probability, as a share of the best token's
    repetition: Any = 1.0  # divides the logits of what was read or chosen, where they are positive; else multiplies
    presence: Any = 0.0  # is taken off the logits of what was chosen
    frequency: Any = 0.0  # is taken off them as often as it was chosen
    seed: Any = 0
    logprobs: Any = False  # whether log probabilities are wanted
    constrained: Any = False  # whether some tokens may be forbidden


DTYPES = Sampling(*(jnp.float32, jnp.int32, *(jnp.float32,) * 5, jnp.uint32, jnp.bool_, jnp.bool_))


def abstract_sampling(array: Callable[[Any], Any]) -> Sampling:
    """A Sampling of what `array` makes of each dtype."""
    found: Sampling = jax.tree.map(array, DTYPES)
    return found


class Candidates(NamedTuple):
    """The best tokens of each row over all chips, best first, and the log of the sum of all exponentials."""

    logits: jax.Array  # [rows, candidates]
    ids: jax.Array  # [rows, candidates]
    whole: jax.Array  # [rows]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chosen:
    """The token of each row, and the likeliest ones, with their log probabilities before temperature."""

    tokens: Any  # int32[rows]
    logprobs: Any  # float32[rows]
    top_tokens: Any  # int32[rows, told]
    top_logprobs: Any  # float32[rows, told]


def mark(
    vocab: int, read: Sequence[int], chosen: Sequence[int] = (), forbidden: np.ndarray | None = None
) -> np.ndarray:
    """Marks int16[vocab] of a request that has read and chosen these ids; `forbidden` bool[vocab], None for nothing."""
    marks = np.zeros(vocab, np.int16)
    for token, count in Counter(chosen).items():
        marks[token] = min(count, COUNT)
    marks[np.asarray(read, np.int64)] |= READ
    if forbidden is not None:
        marks[forbidden] |= FORBIDDEN
    return marks


def is_plain(sampling: Sampling) -> bool:
    """Whether a request has no use for marks nor for log probabilities."""
    neutral = sampling.repetition == 1 and sampling.presence == 0 and sampling.frequency == 0
    return bool(neutral and not sampling.logprobs and not sampling.constrained)


def marked(marks: jax.Array, tokens: jax.Array, live: jax.Array) -> jax.Array:
    """`marks` [rows, vocab] of this chip's part of the vocabulary, with the tokens that live rows have chosen."""
    ids = tokens - collectives.rank(GENERATE.vocab) * marks.shape[1]
    held = live & (ids >= 0) & (ids < marks.shape[1])
    places = jnp.arange(marks.shape[0]), jnp.where(held, ids, 0)
    return marks.at[places].add((held & (marks[places] & COUNT < COUNT)).astype(marks.dtype))


def penalised(logits: jax.Array, marks: jax.Array, sampling: Sampling) -> jax.Array:
    """`logits` [rows, vocab] after the penalties of each row; those of forbidden tokens are minus infinity."""
    count = (marks & COUNT).astype(logits.dtype)
    repeated = (marks & (COUNT | READ)) != 0
    factor = sampling.repetition[:, None]
    logits = jnp.where(repeated, jnp.where(logits > 0, logits / factor, logits * factor), logits)
    logits -= sampling.frequency[:, None] * count + sampling.presence[:, None] * (count > 0)
    return jnp.where((marks & FORBIDDEN) != 0, -jnp.inf, logits)


def candidates(logits: jax.Array, summed: bool) -> Candidates:
    """The candidates of `logits` [rows, vocab]; where they are not `summed`, log probabilities cannot be told.

    One collective carries the offers of all chips: logits, ids as float32, which is exact below 2**24, and in the last
    place each chip's own sum.
    """
    count = min(CANDIDATES, logits.shape[1])
    best, ids = _top(logits, count)
    whole = jax.nn.logsumexp(logits, axis=-1) if summed else best[:, 0]
    ids = ids + collectives.rank(GENERATE.vocab) * logits.shape[1]
    offers = jnp.stack([best, ids.astype(jnp.float32)], axis=-1)
    offers = jnp.pad(offers, ((0, 0), (0, 1), (0, 0))).at[:, count].set(whole[:, None])
    offers = collectives.all_gather_at_once(offers, GENERATE.vocab, dim=1)
    offers = offers.reshape(logits.shape[0], -1, count + 1, 2)
    whole = jax.nn.logsumexp(offers[:, :, count, 0], axis=1)
    offers = offers[:, :, :count].reshape(logits.shape[0], -1, 2)
    best, places = _top(offers[:, :, 0], min(CANDIDATES, offers.shape[1]))
    ids = jnp.take_along_axis(offers[:, :, 1].astype(jnp.int32), places, axis=1)
    return Candidates(best, ids, whole)


def _top(values: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """The greatest `count` of `values` [rows, any] and their places, both [rows, count], greatest first.

    Without barriers they are cut out of a sort of all values, which takes far longer. XLA stops at one around both.
    """
    best, places = lax.top_k(values, count)
    return lax.optimization_barrier(best), lax.optimization_barrier(places)


def choose(found: Candidates, sampling: Sampling, positions: jax.Array) -> Chosen:
    """What each row chooses of its candidates for the token at `positions`."""
    order = jnp.arange(found.ids.shape[1])
    scaled = found.logits / jnp.maximum(sampling.temperature, 1e-6)[:, None]
    probabilities = jax.nn.softmax(scaled, axis=-1)
    before = jnp.cumsum(probabilities, axis=-1) - probabilities
    limit = jnp.where(sampling.top_k > 0, sampling.top_k, order.size)[:, None]
    likely = (before < sampling.top_p[:, None]) & (probabilities >= sampling.min_p[:, None] * probabilities[:, :1])
    allowed = (order < limit) & likely | (order == 0)
    draw = jnp.argmax(jnp.where(allowed, scaled + _noise(sampling.seed, positions, order.size), -jnp.inf), axis=-1)
    place = jnp.where(sampling.temperature > 0, draw, 0)[:, None]
    logprobs, told = found.logits - found.whole[:, None], min(TOLD, order.size)
    best = found.logits[:, 0]
    return Chosen(
        jnp.where(jnp.isfinite(best), jnp.take_along_axis(found.ids, place, axis=1)[:, 0], NO_TOKEN),
        jnp.take_along_axis(logprobs, place, axis=1)[:, 0],
        found.ids[:, :told],
        logprobs[:, :told],
    )


def _noise(seeds: jax.Array, positions: jax.Array, count: int) -> jax.Array:
    """Gumbel noise float32[rows, count]."""

    def row(seed: jax.Array, position: jax.Array) -> jax.Array:
        return jax.random.gumbel(jax.random.fold_in(jax.random.key(seed), position), (count,))

    return jax.vmap(row)(seeds, positions)
