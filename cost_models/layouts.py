"""Seconds over ICI that the layouts of a layer cost, built of the collectives they need.

Sizes are those of the whole layer; B rows of a step, D and F the widths, N heads of size H. Each function passes axes
on to `collectives`, so merge pieces of one torus axis before.
"""

import math
from collections.abc import Sequence

from cost_models.chips import Chip
from cost_models.collectives import all_gather_s, all_reduce_s, all_to_all_s, reduce_scatter_s
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links


def megatron_ici_s(
    rows: float, d_model: float, activation_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK
) -> float:
    """Seconds of a 1D weight-stationary block: an all-gather in, a reduce-scatter out.

    2 * b_a * B * D / (sum of bandwidths)     (scaling-book, training.md § Tensor Parallelism)
    """
    moved_bytes = activation_bytes * rows * d_model
    return all_gather_s(moved_bytes, axes, chip, stack) + reduce_scatter_s(moved_bytes, axes, chip, stack)


def two_d_ici_s(
    rows: float,
    d_model: int,
    d_ff: int,
    activation_bytes: float,
    d_model_axes: Sequence[Links],
    d_ff_axes: Sequence[Links],
    chip: Chip,
    stack: Stack = BOOK,
) -> float:
    """Seconds of a 2D weight-stationary MLP: gather and scatter over d_ff's axes, an all-reduce over d_model's.

    2 * B * D / (X * W) + 4 * B * F / (YZ * W) in bf16 on three rings     (inference.md § Worked Problem 7)
    """
    over_d_model = math.prod(axis.size for axis in d_model_axes)
    over_d_ff = math.prod(axis.size for axis in d_ff_axes)
    outer = megatron_ici_s(rows, d_model / over_d_model, activation_bytes, d_ff_axes, chip, stack)
    return outer + all_reduce_s(activation_bytes * rows * d_ff / over_d_ff, d_model_axes, chip, stack)


def kv_by_batch_ici_s(
    sequences: float,
    q_heads: float,
    head_dim: int,
    activation_bytes: float,
    axes: Sequence[Links],
    chip: Chip,
    stack: Stack = BOOK,
) -> float:
    """Seconds of a KV cache sharded by batch over `axes`: queries go to their sequences and outputs come back.

    Two all-to-alls of b_a * B * N * H, N heads of one shard of the others     (inference.md § Sharding the KV cache)
    """
    return 2 * all_to_all_s(activation_bytes * sequences * q_heads * head_dim, axes, chip, stack)


def kv_by_sequence_ici_s(
    sequences: float,
    q_heads: float,
    head_dim: int,
    activation_bytes: float,
    axes: Sequence[Links],
    chip: Chip,
    stack: Stack = BOOK,
) -> float:
    """Seconds of a KV cache sharded along its tokens: queries gathered, partial outputs merged with their softmax sums.

    All-gather of b_a * B * N * H, reduce-scatter of b_a * B * N * (H + 2): a running maximum and sum beside each head.
    """
    queries = activation_bytes * sequences * q_heads * head_dim
    partials = activation_bytes * sequences * q_heads * (head_dim + 2)
    return all_gather_s(queries, axes, chip, stack) + reduce_scatter_s(partials, axes, chip, stack)


def weight_gather_ici_s(
    parameters: float, weight_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK
) -> float:
    """Seconds to gather `parameters` weights before a large batch uses them, activations staying where they are."""
    return all_gather_s(weight_bytes * parameters, axes, chip, stack)
