# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The KV cache: flat arrays of pages for all layers and slots, and how keys and values enter them.

The pages of a layer are those of the chip's own slots, and one scratch page at the end: idle slots and chips that do
not own a token write there, so that writing needs no condition. Page tables say which pages a slot has: page ids count
through the pages of all slots, and those of a slot are among the pages of its chips. Pages are written in place, so
that a donated cache stays where it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from . import collectives, sharding
from .config import KV_CACHE, Config
from .sharding import GENERATE, PREFILL, partition


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """What one chip keeps of all layers."""

    pages: Any  # [layers * pages, page_tokens, 2 * kv_heads, head_dim]


PAGES = sharding.CACHED_SLOTS
LAYOUT = Cache(
    pages=P(PAGES, None, GENERATE.kv_heads or None, None),
)
PREFILLED = KV_CACHE  # dtype of a prompt's keys and values before they are inserted
PREFILLED_LAYOUT = partition(PREFILL, None, None, "kv_heads", None)


def slots_of_a_chip(config: Config, mesh: Mesh) -> int:
    """Slots of which a chip holds keys and values."""
    slots: int = config.batch // prod(mesh.shape[axis] for axis in sharding.CACHED_SLOTS)
    return slots


def pages_per_layer(config: Config, slots: int) -> int:
    """Pages of one layer on a chip that owns `slots` slots, the scratch page included."""
    return slots * config.pages_per_slot + 1


def abstract_cache(config: Config, mesh: Mesh) -> Cache:
    """Shape, dtype and sharding of the cache."""
    pages = config.layers * pages_per_layer(config, slots_of_a_chip(config, mesh))
    pages *= prod(mesh.shape[axis] for axis in PAGES)
    heads = 2 * config.kv_heads_stored

    def array(shape: tuple[int, ...], dtype: Any, layout: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, layout))

    return Cache(
        pages=array((pages, config.page_tokens, heads, config.head_dim), KV_CACHE, LAYOUT.pages),
    )


def kept(cache: Cache) -> Any:
    """Where the arrays of an abstract cache are, as jit takes it."""
    return jax.tree.map(lambda array: array.sharding, cache)


def abstract_prefilled(config: Config, mesh: Mesh, bucket: int) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of what prefill leaves, [layers, prompts * tokens, 2 * kv_heads, head_dim]."""
    shape = (config.layers, config.prompts * bucket, 2 * len(config.read_kv_heads), config.head_dim)
    return jax.ShapeDtypeStruct(shape, PREFILLED, sharding=NamedSharding(mesh, PREFILLED_LAYOUT))


def empty_cache(config: Config, mesh: Mesh) -> Cache:
    """A cache of zeros, made in place on the chips."""
    cache = abstract_cache(config, mesh)

    def zeros() -> Cache:
        made: Cache = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), cache)
        return made

    made: Cache = jax.jit(zeros, out_shardings=kept(cache))()
    return made


def own_tables(config: Config) -> np.ndarray:
    """Page ids int32[slots, pages_per_slot] with which every slot has pages of its own, in order."""
    return np.arange(config.batch * config.pages_per_slot, dtype=np.int32).reshape(config.batch, -1)


def checked_table(
    config: Config, mesh: Mesh, slot: int, pages: Sequence[int], others: Iterable[Sequence[int]]
) -> np.ndarray:
    """`pages` as the table of `slot`; ValueError where its chips lack a page, or one of the `others` has it."""
    table = np.asarray(pages, np.int64)
    if table.shape != (config.pages_per_slot,):
        raise ValueError(f"slot {slot} needs {config.pages_per_slot} page ids; given are {table.size}")
    slots = slots_of_a_chip(config, mesh)
    first = slot // slots * slots * config.pages_per_slot
    last = first + slots * config.pages_per_slot - 1
    if outside := [int(page) for page in table if not first <= page <= last]:
        raise ValueError(f"slot {slot} has pages {first} to {last} on its chips; {outside[0]} is none of them")
    taken = {int(page) for other in others for page in other}
    if len(set(table.tolist())) < table.size or taken.intersection(table.tolist()):
        raise ValueError(f"a page of slot {slot} is given twice, or another slot has it")
    return table.astype(np.int32)


def own_pages(config: Config, tables: jax.Array, slots: int) -> jax.Array:
    """Page ids `tables` as places in a layer of this chip, which owns `slots` slots; others' are out of range."""
    return tables - collectives.rank(sharding.CACHED_SLOTS) * slots * config.pages_per_slot


def token_places(
    config: Config, tables: jax.Array, positions: jax.Array, written: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(page within a layer, offset) of the tokens at `positions` [...] of slots with `tables` [..., pages_per_slot].

    Tokens that are not `written`, or that other chips hold, get the scratch page. `tables` are of this chip's slots.
    """
    nth = positions // config.page_tokens
    scratch = config.batch // collectives.ways(sharding.CACHED_SLOTS) * config.pages_per_slot
    pages = jnp.take_along_axis(tables, nth[..., None], axis=-1)[..., 0]
    written = written & (pages >= 0) & (pages < scratch)
    return jnp.where(written, pages, scratch), positions % config.page_tokens


def write_tokens(cache: Cache, pages: jax.Array, offsets: jax.Array, kv: jax.Array) -> Cache:
    """`cache` with `kv` [rows, 2 * kv_heads, head_dim] at (pages, offsets)."""
    values = kv.astype(cache.pages.dtype)
    return Cache(cache.pages.at[pages, offsets].set(values))


def _packed(kv: jax.Array) -> Cache:
    """`kv` [tokens, 2 * kv_heads, head_dim] as one page of the cache would have its tokens."""
    return Cache(kv.astype(KV_CACHE))


def _write_block(cache: Cache, page: jax.Array, offset: jax.Array, block: Cache) -> Cache:
    """`cache` with a packed `block` of tokens in one page, from `offset` on."""
    at = page, offset, 0, 0
    return Cache(lax.dynamic_update_slice(cache.pages, block.pages[None], at))


def _insert(
    config: Config,
    bucket: int,
    cache: Cache,
    kv: jax.Array,
    prompt: jax.Array,
    table: jax.Array,
    begin: jax.Array,
    length: jax.Array,
) -> Cache:
    slots = config.batch // collectives.ways(sharding.CACHED_SLOTS)
    table = own_pages(config, table, slots)
    pages = pages_per_layer(config, slots)
    tokens = gcd(bucket, config.page_tokens)  # of a block, which lies in one page
    blocks = bucket // tokens

    def write(index: jax.Array, cache: Cache) -> Cache:
        layer, first = index // blocks, index % blocks * tokens
        page, offset = token_places(config, table, first, (begin <= first) & (first < length))
        at = (layer, prompt * (kv.shape[1] // config.prompts) + first, 0, 0)
        block = lax.dynamic_slice(kv, at, (1, tokens, *kv.shape[2:]))[0]
        return _write_block(cache, layer * pages + page, offset, _packed(block))

    written: Cache = lax.fori_loop(0, config.layers * blocks, write, cache)
    return written


def lower_insert(config: Config, mesh: Mesh, bucket: int) -> Any:
    """The lowered step (cache, kv of prompts, nth prompt, its page table [pages_per_slot], begin, length) -> cache.

    Positions from `begin` to the prompt's length are written. The cache is donated. It needs no collective.
    """

    def whole(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=NamedSharding(mesh, P()))

    step = jax.shard_map(
        partial(_insert, config, bucket),
        mesh=mesh,
        in_specs=(LAYOUT, PREFILLED_LAYOUT, P(), P(), P(), P()),
        out_specs=LAYOUT,
        check_vma=False,
    )
    cache = abstract_cache(config, mesh)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=kept(cache))
    kv = abstract_prefilled(config, mesh, bucket)
    return jitted.lower(cache, kv, whole(), whole(config.pages_per_slot), whole(), whole())
