# Rendered from plan.yaml (sha256 51f530f9). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The collectives that the steps are made of, and local cuts by rank; used inside shard_map only."""

from math import prod

import jax
from jax import lax

from .sharding import Axes


def all_reduce(x: jax.Array, axes: Axes) -> jax.Array:
    """The sum of `x` over the chips along `axes`, on each of them: one collective."""
    return lax.psum(x, axes)


def all_gather_at_once(x: jax.Array, axes: Axes, dim: int = 0) -> jax.Array:
    """The blocks of `x` along `axes`, joined on `dim` in rank order: one collective."""
    return lax.all_gather(x, axes, axis=dim, tiled=True)


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
