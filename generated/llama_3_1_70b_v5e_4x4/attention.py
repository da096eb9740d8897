# Rendered from plan.yaml (sha256 4c93cc8a). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Attention of one chip: causal over a whole prompt in prefill, over the pages of each slot in generate."""

from functools import partial
from math import gcd

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention

from .config import KEY_BLOCK, QUERY_BLOCK, Config

KERNEL_PAGES_PER_BLOCK = 8
KERNEL_QUERIES_PER_BLOCK = 32
KERNEL_VMEM_BYTES = 64 * 1024 * 1024  # the default of 16 MiB is too little for several KV heads
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


def paged_attention(
    config: Config, q: jax.Array, cache: jax.Array, first_page: jax.Array, positions: jax.Array
) -> jax.Array:
    """[slots, q_heads, head_dim] of one query a slot at `positions`, over the slot's pages in one layer of `cache`.

    Pages are read block by block as far as the longest slot goes, with a running softmax.
    """
    slots, heads, head_dim = q.shape
    grouped = q.reshape(slots, cache.shape[2] // 2, -1, head_dim)  # [slots, kv_heads, group, head_dim]
    block = max(1, KEY_BLOCK // config.page_tokens)
    pages_at = first_page + jnp.arange(slots)[:, None] * config.pages_per_slot

    def attend_block(index: jax.Array, found: Running) -> Running:
        pages = jnp.minimum(index * block + jnp.arange(block), config.pages_per_slot - 1)
        kv = cache[pages_at + pages].reshape(slots, -1, *cache.shape[2:])  # [slots, tokens, 2 * kv_heads, head_dim]
        keys_at = index * block * config.page_tokens + jnp.arange(kv.shape[1])
        return _attend_more(grouped, kv, keys_at <= positions[:, None, None, None], found)

    zeros = jnp.zeros(grouped.shape, jnp.float32)
    nothing = zeros, zeros[..., :1], jnp.full_like(zeros[..., :1], -jnp.inf)
    blocks = positions.max() // (block * config.page_tokens) + 1
    o, total, _ = lax.fori_loop(0, blocks, attend_block, nothing)
    return (o / total).reshape(slots, heads, head_dim).astype(q.dtype)


def _attend_more(q: jax.Array, kv: jax.Array, visible: jax.Array, found: Running) -> Running:
    """`found` with the keys and values of one more block: what was summed before is rescaled to the new peak."""
    o, total, peak = found
    scores = jnp.einsum("bkgh,btkh->bkgt", q, kv[:, :, 0::2], preferred_element_type=jnp.float32)
    scores = jnp.where(visible, scores * q.shape[-1] ** -0.5, -jnp.inf)
    higher = jnp.maximum(peak, scores.max(axis=-1, keepdims=True))
    weights, kept = jnp.exp(scores - higher), jnp.exp(peak - higher)
    added = jnp.einsum("bkgt,btkh->bkgh", weights.astype(kv.dtype), kv[:, :, 1::2])
    return o * kept + added, total * kept + weights.sum(axis=-1, keepdims=True), higher


def kernel_attention(
    config: Config, q: jax.Array, cache: jax.Array, first_page: jax.Array, positions: jax.Array
) -> jax.Array:
    """`paged_attention` by jax's TPU kernel, which reads only the pages up to each slot's position."""
    slots = q.shape[0]
    pages = first_page + jnp.arange(slots * config.pages_per_slot, dtype=jnp.int32)
    return ragged_paged_attention(
        q,
        cache,
        positions + 1,
        pages.reshape(slots, config.pages_per_slot),
        jnp.arange(slots + 1, dtype=jnp.int32),
        jnp.full(1, slots, dtype=jnp.int32),
        sm_scale=config.head_dim**-0.5,
        num_kv_pages_per_block=min(KERNEL_PAGES_PER_BLOCK, config.pages_per_slot),
        num_queries_per_block=min(KERNEL_QUERIES_PER_BLOCK, slots),
        vmem_limit_bytes=KERNEL_VMEM_BYTES,
    )


def paged_attention_on_platform(
    config: Config, q: jax.Array, cache: jax.Array, first_page: jax.Array, positions: jax.Array
) -> jax.Array:
    """`kernel_attention` on a TPU, `paged_attention` elsewhere."""
    branches = {"tpu": partial(kernel_attention, config), "default": partial(paged_attention, config)}
    return lax.platform_dependent(q, cache, first_page, positions, **branches)
