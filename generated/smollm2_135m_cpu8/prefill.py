# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The prefill step: reads one prompt, written as what one chip does.

The prompt is padded to a bucket of tokens. Shapes in comments are one chip's, in logical axes; own tokens are those
whose residual the chip holds.
"""

from dataclasses import dataclass
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
from .sharding import PREFILL, partition
from .weights import Layer, Weights, abstract_weights, layouts

Angles = tuple[jax.Array, jax.Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Choice:
    """How the first token of each prompt is chosen."""

    sampling: Sampling  # arrays [prompts]
    marks: Any  # [prompts, vocab]


CHOICE_LAYOUT = Choice(P(), partition(PREFILL, None, "vocab"))


@dataclass(frozen=True)
class Places:
    """Where the rows of attention are in the prompt."""

    queries: jax.Array  # positions of the queries that this chip attends with
    query_angles: Angles
    key_angles: Angles


def _places(config: Config, tokens: int) -> Places:
    positions = jnp.arange(tokens)
    keys = collectives.own_slice(positions, sharding.OWN_TOKENS)
    angles = model.rope_angles(config, keys)
    return Places(keys, angles, angles)


def _embed(weights: Weights, ids: jax.Array) -> jax.Array:
    """[own tokens, d_model]: the residual before the first layer."""
    with jax.named_scope("prefill.embedding.lookup"):
        x = model.embed(weights, ids)
        x = collectives.reduce_scatter_rows(x, sharding.EMBEDDING_TOKENS_0)
        return collectives.all_reduce(x, sharding.EMBEDDING_SUMMED)


def _project_qkv(w: Layer, h: jax.Array, places: Places) -> tuple[jax.Array, jax.Array]:
    """(q [own queries, q_heads, head_dim], kv [tokens, 2 * kv_heads, head_dim]) of `h` [rows, d_model]."""
    with jax.named_scope("prefill.attention.q"):
        q = model.project_heads(h, w.w_q)
        q = model.rope(q, places.query_angles)
    with jax.named_scope("prefill.attention.kv"):
        kv = model.project_heads(h, w.w_kv)
        kv = model.rope_keys(kv, places.key_angles)
    with jax.named_scope("prefill.attention.kv_tokens"):
        kv = collectives.all_gather(kv, sharding.OWN_TOKENS)
    return q, kv


def _attention(config: Config, w: Layer, x: jax.Array, places: Places) -> tuple[jax.Array, jax.Array]:
    """(the residual `x` [own tokens, d_model] after attention, the prompt's keys and values for the cache)."""
    with jax.named_scope("prefill.attention.norm"):
        h = model.rms_norm(x, w.attention_norm)
    q, kv = _project_qkv(w, h, places)
    with jax.named_scope("prefill.attention.kv_cache"):
        o = attention.causal_attention(q, kv, places.queries)
    with jax.named_scope("prefill.attention.out"):
        out = model.project("bnh,nhd->bd", o, w.w_o)
        out = collectives.all_reduce(out, sharding.ATTENTION_SUMMED)
    return x + out, kv.astype(kv_cache.PREFILLED)


def _mlp(w: Layer, x: jax.Array) -> jax.Array:
    """The residual `x` [own tokens, d_model] after the MLP."""
    with jax.named_scope("prefill.mlp.norm"):
        h = model.rms_norm(x, w.mlp_norm)
    with jax.named_scope("prefill.mlp.hidden"):
        hidden = model.project("bd,cdf->bcf", h, w.w_in)
        hidden = model.gated(hidden)
    with jax.named_scope("prefill.mlp.out"):
        out = model.project("bf,fd->bd", hidden, w.w_down)
        out = collectives.all_reduce(out, sharding.MLP_SUMMED)
    return x + out


def _first_tokens(weights: Weights, x: jax.Array, lengths: jax.Array, choice: Choice) -> Chosen:
    """The token [prompts] after each prompt's last one, from `x` [own tokens, d_model]."""
    with jax.named_scope("prefill.logits.last"):
        rows = lengths - 1
        rows = rows - collectives.rank(PREFILL.tokens) * x.shape[0]
        held = (rows >= 0) & (rows < x.shape[0])
        last = jnp.where(held[:, None], x[jnp.where(held, rows, 0)], 0)
        last = collectives.all_reduce(last, PREFILL.tokens)
    with jax.named_scope("prefill.logits.norm"):
        last = model.rms_norm(last, weights.final_norm)
    with jax.named_scope("prefill.logits"):
        logits = model.logits(weights, last)  # [prompts, vocab]
    with jax.named_scope("prefill.sampling.candidates"):
        logits = sampling.penalised(logits, choice.marks, choice.sampling)
        found = sampling.candidates(logits, True)
    with jax.named_scope("prefill.sampling"):
        return sampling.choose(found, choice.sampling, lengths)


def _step(
    config: Config, weights: Weights, ids: jax.Array, lengths: jax.Array, choice: Choice
) -> tuple[Chosen, jax.Array]:
    """(first token [1], keys and values [layers, tokens, 2 * kv_heads, head_dim]) of the prompt `ids` [tokens]."""
    x = _embed(weights, ids)
    places = _places(config, ids.shape[0])
    kv_heads = config.kv_heads_stored // collectives.ways(PREFILL.kv_heads)
    kv = jnp.zeros((config.layers, ids.shape[0], 2 * kv_heads, config.head_dim), kv_cache.PREFILLED)

    def layer(index: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, kv = carry
        w = weights.prefill_layer(index)
        x, layer_kv = _attention(config, w, x, places)
        return _mlp(w, x), lax.dynamic_update_index_in_dim(kv, layer_kv, index, 0)

    x, kv = lax.fori_loop(0, config.layers, layer, (x, kv))
    return _first_tokens(weights, x, lengths, choice), kv


def lower_prefill(config: Config, mesh: Mesh, bucket: int) -> Any:
    """The lowered step (weights, ids [bucket], length [1], choice [1]) -> (first token [1], keys and values)."""

    def whole(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P()))

    weights = abstract_weights(config, mesh)
    of_each = whole((config.prompts,), jnp.int32)
    marks = jax.ShapeDtypeStruct(
        (config.prompts, config.vocab_stored), sampling.MARKS, sharding=NamedSharding(mesh, CHOICE_LAYOUT.marks)
    )
    choice = Choice(sampling.abstract_sampling(partial(whole, (config.prompts,))), marks)
    step = jax.shard_map(
        partial(_step, config.for_prefill),
        mesh=mesh,
        in_specs=(layouts(weights), P(), P(), CHOICE_LAYOUT),
        out_specs=(P(), kv_cache.PREFILLED_LAYOUT),
        check_vma=False,
    )
    ids = whole((config.prompts * bucket,), jnp.int32)
    return jax.jit(step, keep_unused=True).lower(weights, ids, of_each, choice)
