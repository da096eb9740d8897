# Rendered from plan.yaml (sha256 df4d40ed). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The KV cache: one flat array of pages for all layers and slots, and how keys and values enter it.

Each chip holds [layers * pages, page_tokens, 2 * kv_heads, head_dim]. The pages of a layer are those of the chip's own
slots, slot by slot, and one scratch page at the end: idle slots and chips that do not own a slot write there, so that
writing needs no condition. Tokens are written one by one; that keeps a donated cache in place.
"""

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from . import collectives
from .config import KV_CACHE, Config
from .sharding import GENERATE, PREFILL, partition

LAYOUT = P(GENERATE.batch or None, None, GENERATE.kv_heads or None, None)
PREFILLED_LAYOUT = partition(PREFILL, None, None, "kv_heads", None)


def pages_per_layer(config: Config, slots: int) -> int:
    """Pages of one layer on a chip that owns `slots` slots, the scratch page included."""
    return slots * config.pages_per_slot + 1


def abstract_cache(config: Config, mesh: Mesh) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of the cache."""
    owners = prod(mesh.shape[axis] for axis in GENERATE.batch)
    pages = owners * config.layers * pages_per_layer(config, config.batch // owners)
    shape = (pages, config.page_tokens, 2 * config.kv_heads_stored, config.head_dim)
    return jax.ShapeDtypeStruct(shape, KV_CACHE, sharding=NamedSharding(mesh, LAYOUT))


def abstract_prefilled(config: Config, mesh: Mesh, bucket: int) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of the keys and values of one prompt, [layers, tokens, 2 * kv_heads, head_dim]."""
    shape = (config.layers, bucket, 2 * config.kv_heads_stored, config.head_dim)
    return jax.ShapeDtypeStruct(shape, KV_CACHE, sharding=NamedSharding(mesh, PREFILLED_LAYOUT))


def empty_cache(config: Config, mesh: Mesh) -> jax.Array:
    """A cache of zeros, made in place on the chips."""
    cache = abstract_cache(config, mesh)
    return jax.jit(partial(jnp.zeros, cache.shape, cache.dtype), out_shardings=cache.sharding)()


def token_places(config: Config, positions: jax.Array, live: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(page within a layer, offset) of the token at `positions` of each own slot; idle slots get the scratch page."""
    slots = positions.shape[0]
    pages = jnp.arange(slots) * config.pages_per_slot + positions // config.page_tokens
    return jnp.where(live, pages, slots * config.pages_per_slot), positions % config.page_tokens


def write_tokens(cache: jax.Array, pages: jax.Array, offsets: jax.Array, kv: jax.Array) -> jax.Array:
    """`cache` with `kv` [..., 2 * kv_heads, head_dim] at (pages, offsets)."""
    return cache.at[pages, offsets].set(kv.astype(cache.dtype))


def _insert(config: Config, cache: jax.Array, kv: jax.Array, slot: jax.Array, length: jax.Array) -> jax.Array:
    slots = config.batch // collectives.ways(GENERATE.batch)
    slot = slot - collectives.rank(GENERATE.batch) * slots
    tokens = jnp.arange(kv.shape[1])
    written = (slot >= 0) & (slot < slots) & (tokens < length)
    pages = slot * config.pages_per_slot + tokens // config.page_tokens
    pages = jnp.where(written, pages, slots * config.pages_per_slot)
    layers = jnp.arange(config.layers)[:, None] * pages_per_layer(config, slots)
    return write_tokens(cache, layers + pages, tokens % config.page_tokens, kv)


def lower_insert(config: Config, mesh: Mesh, bucket: int) -> Any:
    """The lowered step (cache, prompt's kv, slot, length) -> cache; the cache is donated. It needs no collective."""
    whole = jax.ShapeDtypeStruct((), jnp.int32, sharding=NamedSharding(mesh, P()))
    layouts = (LAYOUT, PREFILLED_LAYOUT, P(), P())
    step = jax.shard_map(partial(_insert, config), mesh=mesh, in_specs=layouts, out_specs=LAYOUT, check_vma=False)
    cache, kv = abstract_cache(config, mesh), abstract_prefilled(config, mesh, bucket)
    return jax.jit(step, donate_argnums=0, out_shardings=cache.sharding).lower(cache, kv, whole, whole)
