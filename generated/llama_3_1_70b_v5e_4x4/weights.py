# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The weights: shapes, dtypes and layouts of the stored arrays, declared once.

Query heads are stored KV shard by KV shard (those of its KV heads, then zero heads up to an equal share); keys and
values alternate head by head. Zero padding changes no result.
Every int8 array comes with float32 scales, one per output channel.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from .config import WEIGHTS, Config
from .sharding import COPIED_ATTENTION, COPIED_MLP, GENERATE, Rules, partition


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    """One layer's arrays, or with a leading dimension those of all layers."""

    attention_norm: Any  # [d_model]
    w_q: Any  # [q_heads, head_dim, d_model]
    w_kv: Any  # [2 * kv_heads, head_dim, d_model], k0 v0 k1 v1 ...
    w_o: Any  # [q_heads, head_dim, d_model]
    mlp_norm: Any  # [d_model]
    w_in: Any  # [2, d_model, d_ff], gate and up
    w_down: Any  # [d_ff, d_model]
    w_q_scale: Any  # [q_heads, head_dim]
    w_kv_scale: Any  # [2 * kv_heads, head_dim]
    w_o_scale: Any  # [d_model]
    w_in_scale: Any  # [2, d_ff]
    w_down_scale: Any  # [d_model]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Copies:
    """Second copies of arrays of all layers, as in Layer, which prefill reads in their place."""

    w_q: Any
    w_kv: Any
    w_o: Any
    w_q_scale: Any
    w_kv_scale: Any
    w_o_scale: Any
    w_in: Any
    w_down: Any
    w_in_scale: Any
    w_down_scale: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weights:
    """All arrays of the model."""

    embedding: Any  # [vocab, d_model]
    embedding_scale: Any  # [vocab]
    layers: Layer
    prefill_layers: Copies
    final_norm: Any  # [d_model]
    lm_head: Any  # [vocab, d_model]
    lm_head_scale: Any  # [vocab]

    def layer(self, index: jax.Array) -> Layer:
        """The arrays of layer `index`."""
        layer: Layer = jax.tree.map(lambda of_all: lax.dynamic_index_in_dim(of_all, index, keepdims=False), self.layers)
        return layer

    def prefill_layer(self, index: jax.Array) -> Layer:
        """The arrays of layer `index` as prefill reads them."""
        of_one = partial(lax.dynamic_index_in_dim, index=index, keepdims=False)
        return replace(self.layer(index), **vars(jax.tree.map(of_one, self.prefill_layers)))


def _array(mesh: Mesh, rules: Rules, dtype: Any, *dims: tuple[int, str | None]) -> jax.ShapeDtypeStruct:
    """An array whose dimensions have these sizes and logical axes, cut by `rules`."""
    layout = NamedSharding(mesh, partition(rules, *(axis for _, axis in dims)))
    return jax.ShapeDtypeStruct(tuple(size for size, _ in dims), dtype, sharding=layout)


def _matrices(config: Config, mesh: Mesh, rules: Rules) -> dict[str, jax.ShapeDtypeStruct]:
    """The arrays of all layers, but for the norms."""
    array = partial(_array, mesh, rules)
    layers, head_dim, pair = (config.layers, None), (config.head_dim, None), (2, None)
    d_model, d_ff = (config.d_model, "d_model"), (config.d_ff_stored, "d_ff")
    q_heads, kv = (config.q_heads_stored, "q_heads"), (2 * config.kv_heads_stored, "kv_heads")
    return {
        "w_q": array(WEIGHTS, layers, q_heads, head_dim, d_model),
        "w_kv": array(WEIGHTS, layers, kv, head_dim, d_model),
        "w_o": array(WEIGHTS, layers, q_heads, head_dim, d_model),
        "w_in": array(WEIGHTS, layers, pair, d_model, d_ff),
        "w_down": array(WEIGHTS, layers, d_ff, d_model),
        "w_q_scale": array(jnp.float32, layers, q_heads, head_dim),
        "w_kv_scale": array(jnp.float32, layers, kv, head_dim),
        "w_o_scale": array(jnp.float32, layers, d_model),
        "w_in_scale": array(jnp.float32, layers, pair, d_ff),
        "w_down_scale": array(jnp.float32, layers, d_model),
    }


def abstract_weights(config: Config, mesh: Mesh) -> Weights:
    """Shape, dtype and sharding of every stored array, without its values."""
    array = partial(_array, mesh, GENERATE)
    layers, vocab, whole = (config.layers, None), (config.vocab_stored, "vocab"), (config.d_model, None)
    attention = _matrices(config.for_prefill, mesh, COPIED_ATTENTION)
    mlp = _matrices(config.for_prefill, mesh, COPIED_MLP)
    return Weights(
        embedding=array(WEIGHTS, vocab, whole),
        embedding_scale=array(jnp.float32, vocab),
        layers=Layer(
            attention_norm=array(jnp.float32, layers, whole),
            mlp_norm=array(jnp.float32, layers, whole),
            **_matrices(config, mesh, GENERATE),
        ),
        prefill_layers=Copies(
            w_q=attention["w_q"],
            w_kv=attention["w_kv"],
            w_o=attention["w_o"],
            w_q_scale=attention["w_q_scale"],
            w_kv_scale=attention["w_kv_scale"],
            w_o_scale=attention["w_o_scale"],
            w_in=mlp["w_in"],
            w_down=mlp["w_down"],
            w_in_scale=mlp["w_in_scale"],
            w_down_scale=mlp["w_down_scale"],
        ),
        final_norm=array(jnp.float32, whole),
        lm_head=array(WEIGHTS, vocab, whole),
        lm_head_scale=array(jnp.float32, vocab),
    )


def layouts(abstract: Any) -> Any:
    """The partition spec of every array in a tree of abstract arrays, as shard_map takes them."""
    return jax.tree.map(lambda array: array.sharding.spec, abstract)
