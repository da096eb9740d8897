# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The generate step: one more token for every slot, written as what one chip does.

Shapes in comments are one chip's, in logical axes: slots are all of the batch, own slots the ones whose keys and values
the chip holds.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from . import attention, collectives, kv_cache, model, sampling, sharding
from .config import Config
from .sampling import Chosen, Sampling
from .sharding import GENERATE, partition
from .weights import Layer, Weights, abstract_weights, layouts


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Slots:
    """State of every slot; each array is [slots] but for two, and the same on all chips but for the marks."""

    tokens: Any  # the token to read next
    positions: Any  # its position
    live: Any  # whether the slot is in use
    sampling: Sampling
    tables: Any  # [slots, pages_per_slot] the ids of the slot's pages
    marks: Any  # [slots, vocab] what sampling knows of each token


LAYOUT = Slots(P(), P(), P(), P(), P(), partition(GENERATE, None, "vocab"))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OwnSlots:
    """What attention needs to know of the chip's own slots."""

    lengths: jax.Array  # [own slots] tokens that the chip holds, the new one among them; an idle slot has one
    tables: jax.Array  # [own slots, pages_per_slot] pages within a layer
    pages: jax.Array  # page of the new token within a layer
    offsets: jax.Array  # its place in the page
    angles: tuple[jax.Array, jax.Array]


def _own_slots(config: Config, slots: Slots) -> OwnSlots:
    state = slots.positions, slots.live, slots.tables
    positions, live, tables = (collectives.own_slice(each, sharding.CACHED_SLOTS) for each in state)
    tables = kv_cache.own_pages(config, tables, tables.shape[0])
    pages, offsets = kv_cache.token_places(config, tables, positions, live)
    lengths = jnp.where(live, jnp.minimum(positions, config.context - 1), 0) + 1
    # A slot without a page reads another, and chooses what nobody uses.
    return OwnSlots(lengths, jnp.maximum(tables, 0), pages, offsets, model.rope_angles(config, positions))


def _project_qkv(config: Config, w: Layer, h: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(q [own slots, q_heads, head_dim], kv [own slots, 2 * kv_heads, head_dim]) of `h` [slots, d_model].

    Queries are made for this chip's heads and all its neighbours' slots, then traded for all heads of its own slots.
    """
    with jax.named_scope("generate.attention.q"):
        q = model.project_heads(h, w.w_q, w.w_q_scale)
    with jax.named_scope("generate.attention.kv"):
        own = collectives.own_slice(h, sharding.EXCHANGED_SLOTS)
        kv = model.project_heads(own, w.w_kv, w.w_kv_scale)
    with jax.named_scope("generate.attention.q_to_batch"):
        q = collectives.all_to_all(q, sharding.EXCHANGED_SLOTS, split=0, concat=1)
    return q, kv


def _attention(
    config: Config, w: Layer, x: jax.Array, cache: kv_cache.Cache, first_page: jax.Array, own: OwnSlots
) -> tuple[jax.Array, kv_cache.Cache]:
    """(the residual `x` [slots, d_model] after attention, the cache with the new tokens' keys and values)."""
    with jax.named_scope("generate.attention.norm"):
        h = model.rms_norm(x, w.attention_norm)
    q, kv = _project_qkv(config, w, h)
    with jax.named_scope("generate.attention.kv_cache"):
        q, kv = model.rope(q, own.angles), model.rope_keys(kv, own.angles)
        cache = kv_cache.write_tokens(cache, first_page + own.pages, own.offsets, kv)
        o = attention.paged_attention(config, q, cache, first_page + own.tables, own.lengths)
    with jax.named_scope("generate.attention.o_to_heads"):
        o = collectives.all_to_all(o, sharding.EXCHANGED_SLOTS, split=1, concat=0)
    with jax.named_scope("generate.attention.out"):
        out = model.project("bnh,nhd->bd", o, w.w_o, w.w_o_scale)
        out = collectives.all_reduce(out, GENERATE.q_heads)
    return x + out, cache


def _mlp(w: Layer, x: jax.Array) -> jax.Array:
    """The residual `x` [slots, d_model] after the MLP."""
    with jax.named_scope("generate.mlp.norm"):
        h = model.rms_norm(x, w.mlp_norm)
    with jax.named_scope("generate.mlp.hidden"):
        hidden = model.project("bd,cdf->bcf", h, w.w_in, w.w_in_scale)
        hidden = model.gated(hidden)
    with jax.named_scope("generate.mlp.out"):
        out = model.project("bf,fd->bd", hidden, w.w_down, w.w_down_scale)
        out = collectives.all_reduce(out, GENERATE.d_ff)
    return x + out


def _penalised(slots: Slots, logits: jax.Array) -> jax.Array:
    """`logits` [slots, vocab] after penalties."""
    return sampling.penalised(logits, slots.marks, slots.sampling)


def _next_tokens(weights: Weights, x: jax.Array, slots: Slots, special: bool) -> tuple[Chosen, jax.Array]:
    """(what each slot chooses after `x` [slots, d_model], the slots' marks)."""
    with jax.named_scope("generate.logits.norm"):
        h = model.rms_norm(x, weights.final_norm)
    with jax.named_scope("generate.logits"):
        logits = model.logits(weights, h)  # [slots, vocab]
    with jax.named_scope("generate.sampling.candidates"):
        if special:
            slots = replace(slots, marks=sampling.marked(slots.marks, slots.tokens, slots.live))
            logits = _penalised(slots, logits)
        found = sampling.candidates(logits, special)
    with jax.named_scope("generate.sampling"):
        return sampling.choose(found, slots.sampling, slots.positions + 1), slots.marks


def _step(
    config: Config, special: bool, weights: Weights, cache: kv_cache.Cache, slots: Slots
) -> tuple[kv_cache.Cache, Slots, Chosen]:
    """(cache, slots, what they chose) after one more token for every live slot."""
    with jax.named_scope("generate.embedding.lookup"):
        x = model.embed(weights, slots.tokens)  # [slots, d_model]
        x = collectives.all_reduce(x, GENERATE.vocab)
    own = _own_slots(config, slots)
    pages = kv_cache.pages_per_layer(config, own.lengths.shape[0])

    def layer(index: jax.Array, carry: tuple[jax.Array, kv_cache.Cache]) -> tuple[jax.Array, kv_cache.Cache]:
        x, cache = carry
        w = weights.layer(index)
        x, cache = _attention(config, w, x, cache, index * pages, own)
        return _mlp(w, x), cache

    x, cache = lax.fori_loop(0, config.layers, layer, (x, cache))
    chosen, marks = _next_tokens(weights, x, slots, special)
    slots = replace(slots, tokens=chosen.tokens, positions=slots.positions + slots.live, marks=marks)
    return cache, slots, chosen


def abstract_slots(config: Config, mesh: Mesh) -> Slots:
    """Shape, dtype and sharding of the slots' state."""

    def array(dtype: Any, *of_each: int, layout: P = LAYOUT.tokens) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((config.batch, *of_each), dtype, sharding=NamedSharding(mesh, layout))

    return Slots(
        array(jnp.int32),
        array(jnp.int32),
        array(jnp.bool_),
        sampling.abstract_sampling(array),
        array(jnp.int32, config.pages_per_slot),
        array(sampling.MARKS, config.vocab_stored, layout=LAYOUT.marks),
    )


def empty_slots(config: Config, mesh: Mesh) -> Slots:
    """Slots that are all free, made in place on the chips, with pages of their own."""
    slots = abstract_slots(config, mesh)

    def empty() -> Slots:
        made: Slots = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), slots)
        return replace(made, tables=jnp.asarray(kv_cache.own_tables(config)))

    made: Slots = jax.jit(empty, out_shardings=jax.tree.map(lambda array: array.sharding, slots))()
    return made


def _steps(
    config: Config, special: bool, steps: int, weights: Weights, cache: kv_cache.Cache, slots: Slots
) -> tuple[kv_cache.Cache, Slots, Chosen]:
    """(cache, slots, what they chose [steps, slots, ...]) after so many steps."""

    def step(state: tuple[kv_cache.Cache, Slots], _: None) -> tuple[tuple[kv_cache.Cache, Slots], Chosen]:
        cache, slots, chosen = _step(config, special, weights, *state)
        return (cache, slots), chosen

    (cache, slots), chosen = lax.scan(step, (cache, slots), None, length=steps)
    return cache, slots, chosen


def lower_generate(config: Config, mesh: Mesh, steps: int = 0, special: bool = False) -> Any:
    """The lowered step (weights, cache, slots) -> (cache, slots, chosen); the cache and the slots are donated.

    With `steps`, so many of them in one program, and what was chosen is [steps, slots, ...]. Only a `special` one heeds
    marks and tells log probabilities.
    """
    weights, cache = abstract_weights(config, mesh), kv_cache.abstract_cache(config, mesh)
    slots = abstract_slots(config, mesh)
    step = jax.shard_map(
        partial(_steps, config, special, steps) if steps else partial(_step, config, special),
        mesh=mesh,
        in_specs=(layouts(weights), kv_cache.LAYOUT, LAYOUT),
        out_specs=(kv_cache.LAYOUT, LAYOUT, P()),
        check_vma=False,
    )
    held = kv_cache.kept(cache), jax.tree.map(lambda array: array.sharding, slots), NamedSharding(mesh, P())
    return jax.jit(step, donate_argnums=(1, 2), out_shardings=held).lower(weights, cache, slots)
