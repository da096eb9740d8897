# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Attention of one chip: causal over a whole prompt in prefill, over the pages of each slot in generate."""

from math import gcd

import jax
import jax.numpy as jnp
from jax import lax

from .config import KEY_BLOCK, QUERY_BLOCK, SLOT_BLOCK, Config
from .kv_cache import Cache

LOWEST = -0.7 * float(jnp.finfo(jnp.float32).max)  # a masked score; -inf would make NaN where all are masked
Running = tuple[jax.Array, jax.Array, jax.Array]  # weighted values so far, their weights' sum, the highest score


def causal_attention(q: jax.Array, kv: jax.Array, positions: jax.Array) -> jax.Array:
    """[rows, q_heads, head_dim] of queries at `positions` over `kv` [tokens, 2 * kv_heads, head_dim].

    Neighbouring query heads share a KV head. Queries are taken in blocks, so that no [tokens, tokens] array exists.
    """
    rows, heads, head_dim = q.shape
    k, v = kv[:, 0::2], kv[:, 1::2]
    block = gcd(rows, QUERY_BLOCK)
    keys_at = jnp.arange(kv.shape[0])

    def attend_block(queries: tuple[jax.Array, jax.Array]) -> jax.Array:
        q, positions = queries  # [block, kv_heads, group, head_dim], [block]
        visible = keys_at <= positions[:, None]
        scores = jnp.einsum("qkgh,tkh->kgqt", q, k, preferred_element_type=jnp.float32) * head_dim**-0.5
        weights = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        return jnp.einsum("kgqt,tkh->qkgh", weights.astype(v.dtype), v)

    blocks = q.reshape(rows // block, block, k.shape[1], -1, head_dim)
    return lax.map(attend_block, (blocks, positions.reshape(-1, block))).reshape(rows, heads, head_dim)


def plain_attention(
    config: Config, q: jax.Array, cache: Cache, tables: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(o float32[slots, q_heads, head_dim], log-sum-exp of the scores [slots, q_heads]) of one query a slot.

    Slot s attends to the first `lengths[s]` tokens of the pages that `tables[s]` names; with none, o is 0. Slots of
    like lengths are taken together, so that few read farther than their own.
    """
    order = jnp.argsort(lengths)
    together = gcd(order.size, SLOT_BLOCK)

    def sorted_blocks(array: jax.Array) -> jax.Array:
        return array[order].reshape(-1, together, *array.shape[1:])

    def attend(some: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        q, tables, lengths = some
        return _attend_slots(config, q, cache, tables, lengths)

    o, lse = lax.map(attend, (sorted_blocks(q), sorted_blocks(tables), sorted_blocks(lengths)))
    places = jnp.argsort(order)
    return o.reshape(q.shape)[places], lse.reshape(q.shape[:2])[places]


def _attend_slots(
    config: Config, q: jax.Array, cache: Cache, tables: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`plain_attention` of slots whose pages are read block by block, as far as the longest of them goes.

    What is found goes into a running softmax.
    """
    slots, heads, head_dim = q.shape
    combined = cache.pages.shape[2]
    grouped = q.reshape(slots, combined // 2, -1, head_dim)  # [slots, kv_heads, group, head_dim]
    block = max(1, KEY_BLOCK // config.page_tokens)

    def attend_block(index: jax.Array, found: Running) -> Running:
        pages = tables[:, jnp.minimum(index * block + jnp.arange(block), config.pages_per_slot - 1)]
        kv = cache.pages.reshape(cache.pages.shape[0], -1)[pages]  # as rows they are copied in one go
        kv = kv.reshape(slots, -1, combined, head_dim)  # [slots, tokens, 2 * kv_heads, head_dim]
        keys_at = index * block * config.page_tokens + jnp.arange(kv.shape[1])
        visible = keys_at < lengths[:, None, None, None]
        return _attend_more(grouped, kv, visible, found)

    zeros = jnp.zeros(grouped.shape, jnp.float32)
    nothing = zeros, zeros[..., :1], jnp.full_like(zeros[..., :1], LOWEST)
    blocks = (lengths.max() - 1) // (block * config.page_tokens) + 1
    o, total, peak = lax.fori_loop(0, blocks, attend_block, nothing)
    seen = total > 0
    o, lse = o / jnp.where(seen, total, 1), jnp.where(seen, peak + jnp.log(jnp.where(seen, total, 1)), -jnp.inf)
    return o.reshape(slots, heads, head_dim), lse.reshape(slots, heads)


def _attend_more(q: jax.Array, kv: jax.Array, visible: jax.Array, found: Running) -> Running:
    """`found` with the keys and values of one more block: what was summed before is rescaled to the new peak."""
    o, total, peak = found
    scores = jnp.einsum("bkgh,btkh->bkgt", q, kv[:, :, 0::2], preferred_element_type=jnp.float32)
    scores = jnp.where(visible, scores * q.shape[-1] ** -0.5, LOWEST)
    higher = jnp.maximum(peak, scores.max(axis=-1, keepdims=True))
    weights, kept = jnp.where(visible, jnp.exp(scores - higher), 0), jnp.exp(peak - higher)
    total = total * kept + weights.sum(axis=-1, keepdims=True)
    added = jnp.einsum("bkgt,btkh->bkgh", weights.astype(kv.dtype), kv[:, :, 1::2])
    return o * kept + added, total, higher


def paged_attention(config: Config, q: jax.Array, cache: Cache, tables: jax.Array, lengths: jax.Array) -> jax.Array:
    """[slots, q_heads, head_dim] of one query a slot, over the first `lengths` tokens of the pages in its table."""
    return plain_attention(config, q, cache, tables, lengths)[0].astype(q.dtype)
