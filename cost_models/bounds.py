"""Where one resource stops binding and another starts: the rules of thumb of the book, for any chip."""

import math
from collections.abc import Sequence

from cost_models.chips import Chip
from cost_models.collectives import bandwidth_bytes_per_s, hops
from cost_models.torus import Links


def hbm_intensity(chip: Chip, compute_dtype: str) -> float:
    """Operations per HBM byte below which memory binds: C / W_hbm (scaling-book, roofline.md)."""
    return chip.flops_per_s(compute_dtype) / chip.hbm_bytes_per_s


def ici_intensity(axes: Sequence[Links], chip: Chip, compute_dtype: str) -> float:
    """Operations per ICI byte below which `axes` bind: C / sum of bandwidths (scaling-book, sharding.md § Q4)."""
    return chip.flops_per_s(compute_dtype) / bandwidth_bytes_per_s(axes, chip)


def critical_rows(
    weight_bytes_per_element: float, compute_dtype: str, chip: Chip, *, experts: int = 1, experts_per_token: int = 1
) -> float:
    """Tokens per weight replica above which wide matmuls are compute-bound.

    B_crit = C * b_w / (2 * W_hbm) * E / k     (scaling-book, inference.md § Linear operations, transformers.md § Q8)
    """
    return hbm_intensity(chip, compute_dtype) * weight_bytes_per_element / 2 * experts / experts_per_token


def crossover_rows(
    in_dim: int,
    out_dim: int,
    *,
    weight_bytes_per_element: float,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
) -> float:
    """Tokens at which a D x F matmul takes as long in the matrix unit as in HBM; infinite when HBM always binds.

    B* = b_w * D * F / W_hbm / (2 * D * F / C - b_a * (D + F) / W_hbm)     (the equation of roofline.md § Question 3)
    """
    math_s = 2 * in_dim * out_dim / chip.flops_per_s(compute_dtype)
    activation_s = activation_bytes_per_element * (in_dim + out_dim) / chip.hbm_bytes_per_s
    if math_s <= activation_s:
        return math.inf
    return weight_bytes_per_element * in_dim * out_dim / chip.hbm_bytes_per_s / (math_s - activation_s)


def megatron_ways_before_ici(
    d_ff: int,
    axes: Sequence[Links],
    *,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    matmuls: int = 2,
) -> float:
    """Ways of tensor parallelism up to which a compute-bound MLP hides its collectives on `axes`.

    Y < (m * F / b_a) * (sum of bandwidths) / C     (scaling-book, training.md § Tensor Parallelism, with m = b_a = 2)
    """
    return matmuls * d_ff / activation_bytes_per_element / ici_intensity(axes, chip, compute_dtype)


def megatron_ways_before_ici_in_generate(
    d_ff: int,
    rows: float,
    axes: Sequence[Links],
    *,
    weight_bytes_per_element: float,
    activation_bytes_per_element: float,
    chip: Chip,
    matmuls: int = 2,
) -> float:
    """Ways of tensor parallelism up to which an HBM-bound MLP of `rows` B hides its collectives on `axes`, hops apart.

    Y < (m / 2) * (b_w / b_a) * F * (sum of bandwidths) / (B * W_hbm)     (scaling-book, inference.md § Generation)
    """
    bytes_ratio = weight_bytes_per_element / activation_bytes_per_element
    beta = chip.hbm_bytes_per_s / bandwidth_bytes_per_s(axes, chip)
    return matmuls / 2 * bytes_ratio * d_ff / (rows * beta)


def latency_bound_bytes(axes: Sequence[Links], chip: Chip) -> float:
    """Bytes of a gathered array below which its hops take longer than its bytes: t_hop * hops * (sum of bandwidths).

    On a ring of Y chips that is Y * w * t_hop (scaling-book, inference.md § Appendix C).
    """
    return chip.ici_hop_s * hops(axes, chip) * bandwidth_bytes_per_s(axes, chip)


def gathered_rows_per_chip_before_ici(
    d_ff: int, gather_axes: Sequence[Links], tensor_axes: Sequence[Links], *, compute_dtype: str, chip: Chip
) -> float:
    """Tokens per chip above which gathering weights over one set of axes, beside Megatron over another, is hidden.

    B / N > (C / W_x) * (C / W_y) / F, or C / W_x without tensor axes     (scaling-book, training.md § Mixed FSDP and
    Tensor Parallelism; a weight-gathered prefill is its forward pass)
    """
    gathered = ici_intensity(gather_axes, chip, compute_dtype)
    return gathered * ici_intensity(tensor_axes, chip, compute_dtype) / d_ff if tensor_axes else gathered


def best_2d_ways(chips: float, d_model: int, d_ff: int) -> tuple[float, float]:
    """Ways (X over d_model, YZ over d_ff) of the fastest 2D weight-stationary MLP on a 3D torus, before rounding.

    X = sqrt(N * D / (2 * F)), YZ = N / X     (scaling-book, inference.md § Worked Problem 7)
    """
    over_d_model = math.sqrt(chips * d_model / (2 * d_ff))
    return over_d_model, chips / over_d_model


def chips_where_2d_wins(d_model: int, d_ff: int, torus_dims: int = 3) -> float:
    """Chips above which the best 2D weight-stationary MLP talks less than a 1D one over every axis; all axes rings.

    18 * F / D on a 3D torus, where 4 * sqrt(2 * D * F / N) = 4 * D / 3     (inference.md § Worked Problem 7)
    16 * F / D on a 2D torus, where 8 * sqrt(D * F / N) = 4 * D / 2         (derived likewise)
    """
    return (18 if torus_dims == 3 else 16) * d_ff / d_model
