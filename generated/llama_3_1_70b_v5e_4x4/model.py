# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The mathematics of a llama-type model on one chip's arrays; what chips exchange is in prefill.py and generate.py."""

from math import gcd, pi

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import collectives
from .config import ACTIVATIONS, NORM_EPS, ROPE_THETA, Config
from .sharding import GENERATE
from .weights import Weights

LOOK_UP_BLOCK = 64  # rows of the embedding table that are read together


def project(formula: str, x: jax.Array, weight: jax.Array, scale: jax.Array) -> jax.Array:
    """The product that `formula` names, of activations and an int8 weight with a scale per output channel."""
    product = jnp.einsum(formula, x, weight.astype(x.dtype), preferred_element_type=jnp.float32)
    return (product * scale).astype(x.dtype)


def project_heads(x: jax.Array, weight: jax.Array, scale: jax.Array) -> jax.Array:
    """[rows, heads, head_dim] of `x` [rows, d_model] and a weight [heads, head_dim, d_model]."""
    return project("bd,nhd->bnh", x, weight, scale)


def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """The rows [rows, d_model] of `table` at `ids`, a block at a time in two blocks or more.

    A TPU brings a table on chip whole when a program looks up all its rows at once, and does not for a loop.
    """
    block = gcd(ids.shape[0], max(1, ids.shape[0] // 2), LOOK_UP_BLOCK)
    return lax.map(lambda some: table[some], ids.reshape(-1, block)).reshape(ids.shape[0], -1)


def embed(weights: Weights, ids: jax.Array) -> jax.Array:
    """The embeddings [rows, d_model] of `ids` [rows]; zeros for ids that other chips hold."""
    held = weights.embedding.shape[0]
    local = ids - collectives.rank(GENERATE.vocab) * held
    mine = (local >= 0) & (local < held)
    local = jnp.where(mine, local, 0)
    rows = look_up(weights.embedding, local).astype(jnp.float32) * weights.embedding_scale[local][:, None]
    return jnp.where(mine[:, None], rows, 0).astype(ACTIVATIONS)


def _scaled(x: jax.Array, squares: jax.Array, d_model: int, weight: jax.Array) -> jax.Array:
    """`x` [rows, d_model] over its root mean square, times `weight`; `squares` is the sum over the whole d_model."""
    unit = x.astype(jnp.float32) * lax.rsqrt(squares / d_model + NORM_EPS)
    return (unit * weight).astype(x.dtype)


def _squares(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`x` [rows, d_model] normalised to unit mean square, times `weight`."""
    return _scaled(x, _squares(x), weight.shape[0], weight)


def gated(hidden: jax.Array) -> jax.Array:
    """silu(gate) * up [rows, d_ff] of `hidden` [rows, 2, d_ff]."""
    return jax.nn.silu(hidden[:, 0]) * hidden[:, 1]


def rope_frequencies(head_dim: int) -> np.ndarray:
    """Angle per position of each rotated pair, float32[head_dim / 2]."""
    frequencies = ROPE_THETA ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    # Llama 3.1: long wavelengths are stretched, short ones kept, those between are blended.
    turns = 8192 * frequencies / (2 * pi)
    low, high = 1.0, 4.0
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (frequencies * (kept + (1 - kept) / 8.0)).astype(np.float32)


def rope_angles(config: Config, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine, float32[rows, 1, head_dim / 2], for rows at `positions`."""
    angles = positions[:, None, None] * rope_frequencies(config.head_dim)
    return jnp.cos(angles), jnp.sin(angles)


def rope(x: jax.Array, angles: tuple[jax.Array, jax.Array]) -> jax.Array:
    """`x` [rows, heads, head_dim] rotated by position; the pairs are (i, i + head_dim / 2)."""
    cos, sin = angles
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def rope_keys(kv: jax.Array, angles: tuple[jax.Array, jax.Array]) -> jax.Array:
    """`kv` [rows, 2 * kv_heads, head_dim] with its keys rotated by position, its values as they are."""
    pairs = kv.reshape(kv.shape[0], -1, 2, kv.shape[2])
    keys = rope(pairs[:, :, 0], angles)
    return jnp.stack([keys, pairs[:, :, 1]], axis=2).reshape(kv.shape)


def logits(weights: Weights, x: jax.Array) -> jax.Array:
    """float32[rows, vocab of this chip] of normalised rows `x` [rows, d_model]."""
    matrix = weights.lm_head.astype(x.dtype)
    return jnp.einsum("bd,vd->bv", x, matrix, preferred_element_type=jnp.float32) * weights.lm_head_scale
