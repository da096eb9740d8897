# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The collectives that the steps are made of, and local cuts by rank; used inside shard_map only."""

from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from .sharding import Axes

GATE_AND_UP = 2
TILE_ROWS = 16  # rows of a tile of bf16 in a TPU's memory


def all_reduce(x: jax.Array, axes: Axes) -> jax.Array:
    """The sum of `x` over the chips along `axes`, on each of them: one collective."""
    return lax.psum(x, axes)


def all_gather(x: jax.Array, axes: Axes, dim: int = 0) -> jax.Array:
    """The blocks of `x` along `axes`, joined on `dim` in rank order; one axis at a time, the minor one first."""
    for axis in reversed(axes):
        x = lax.all_gather(x, axis, axis=dim, tiled=True)
    return x


def all_gather_at_once(x: jax.Array, axes: Axes, dim: int = 0) -> jax.Array:
    """The blocks of `x` along `axes`, joined on `dim` in rank order: one collective."""
    return lax.all_gather(x, axes, axis=dim, tiled=True)


def reduce_scatter_rows(x: jax.Array, axes: Axes) -> jax.Array:
    """This chip's rows of the sum of `x` [rows, ..., columns] over `axes`; one axis at a time, the major one first.

    Rows of gate and up are scattered where a TPU has them in memory, next to columns, so that nothing is turned around
    for it, if that cuts no tile. Others are flat, and split on a leading dimension of their own. The compiler keeps
    these forms a reduce-scatter.
    """
    inner = x.shape[1:]
    if len(inner) > 1 and inner[0] == GATE_AND_UP and x.shape[0] // ways(axes) % TILE_ROWS == 0:
        stacked = jnp.moveaxis(x, 0, 1)
        for axis in axes:
            stacked = lax.psum_scatter(stacked, axis, scatter_dimension=1, tiled=True)
        return jnp.moveaxis(stacked, 1, 0)
    flat = x.reshape(x.shape[0], -1)
    for axis in axes:
        blocks = flat.reshape(lax.axis_size(axis), -1, flat.shape[1])
        flat = lax.psum_scatter(blocks, axis, scatter_dimension=0, tiled=False)
    return flat.reshape(-1, *inner)


def all_to_all(x: jax.Array, axes: Axes, split: int, concat: int) -> jax.Array:
    """`x` cut on dimension `split`, traded along `axes`, and joined on dimension `concat`: one collective."""
    return lax.all_to_all(x, axes, split_axis=split, concat_axis=concat, tiled=True)


def ways(axes: Axes) -> int:
    """Chips along `axes` together."""
    return prod(lax.axis_size(axis) for axis in axes)


def rank(axes: Axes) -> jax.Array:
    """This chip's place along `axes`, the first axis major."""
    return lax.axis_index(axes)


def own_slice(x: jax.Array, axes: Axes, dim: int = 0) -> jax.Array:
    """This chip's block when dimension `dim` of `x` is cut along `axes`."""
    size = x.shape[dim] // ways(axes)
    return lax.dynamic_slice_in_dim(x, rank(axes) * size, size, dim)
