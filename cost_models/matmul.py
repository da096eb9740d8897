"""Rooflines of matrix multiplications, x[B, D] . W[D, F] -> [B, F], on one chip.

C is the chip's peak for the compute dtype, W_hbm its HBM bandwidth, both times the stack's efficiency. Sizes are those
of one chip's shard.
"""

from cost_models.chips import Chip
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack


def matmul(
    rows: float,
    in_dim: float,
    out_dim: float,
    *,
    weight_bytes_per_element: float,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    experts: float = 1,
) -> Roofline:
    """Roofline of `rows` B activations of `in_dim` D through a weight of D x `out_dim` F.

    With `experts` e the rows are spread over as many such weights, which are all read.

    T_math = 2 * (B + e * m0) * D * F / C     (m0: `Stack.partial_overlap_tokens`)
    T_hbm  = (b_a * B * D + e * b_w * D * F + b_a * B * F) / W_hbm     (scaling-book, roofline.md § Matrix
    multiplication)
    """
    flops = 2 * (rows + experts * stack.partial_overlap_tokens) * in_dim * out_dim
    activations = activation_bytes_per_element * rows * (in_dim + out_dim)
    moved_bytes = activations + experts * weight_bytes_per_element * in_dim * out_dim
    return Roofline(compute_s(flops, compute_dtype, chip, stack), hbm_s(moved_bytes, chip, stack))


def weights_pass(
    rows: float,
    parameters: float,
    *,
    weight_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
) -> Roofline:
    """Roofline of `rows` B activations through `parameters` P weights, the activations' own bytes left out.

    T_math = 2 * (B + m0) * P / C, T_hbm = b_w * P / W_hbm     (scaling-book, inference.md § Theoretical estimates)
    """
    flops = 2 * (rows + stack.partial_overlap_tokens) * parameters
    weight_bytes = weight_bytes_per_element * parameters
    return Roofline(compute_s(flops, compute_dtype, chip, stack), hbm_s(weight_bytes, chip, stack))


def elementwise(rows: float, width: float, bytes_per_element: float, chip: Chip, stack: Stack = BOOK) -> Roofline:
    """Roofline of what happens to `rows` activations of `width` outside matmuls: norms, rotations, gates, sums.

    T_hbm = passes * B * width * b_a / W_hbm at the peak rate (form of the fit: `Stack.elementwise_passes`)
    """
    return Roofline(hbm_s=hbm_s(stack.elementwise_passes * rows * width * bytes_per_element, chip))


def compute_s(flops: float, compute_dtype: str, chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds of `flops` operations: flops / C."""
    return flops / (chip.flops_per_s(compute_dtype) * stack.mxu_efficiency)


def hbm_s(moved_bytes: float, chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to read or write `moved_bytes` of HBM: bytes / W_hbm."""
    return moved_bytes / (chip.hbm_bytes_per_s * stack.hbm_efficiency)


def mxu_padded(dim: int, chip: Chip) -> int:
    """`dim` as the matrix unit sees it: the next multiple of its edge (scaling-book, tpus.md § Key Takeaways)."""
    return -(-dim // chip.mxu_dim) * chip.mxu_dim
