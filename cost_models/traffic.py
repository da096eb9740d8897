"""HBM traffic of what surrounds the matmuls: norms, residuals, KV append, dequantisation.

Each is bound by HBM on every chip of the catalogue, so a roofline here has no other part. What a compiler fuses into
its neighbour costs nothing of its own: call these for what is not fused.
"""

from cost_models.chips import Chip
from cost_models.matmul import hbm_s
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack


def elementwise(
    elements: float, element_bytes: float, chip: Chip, stack: Stack = BOOK, *, operands: int = 1
) -> Roofline:
    """Roofline of an operation that reads `operands` arrays of as many elements and writes one (roofline.md)."""
    return Roofline(hbm_s=hbm_s((operands + 1) * elements * element_bytes, chip, stack))


def norm(rows: float, d_model: int, element_bytes: float, chip: Chip, stack: Stack = BOOK) -> Roofline:
    """Roofline of a norm of B x D: the activation read and written, its D weights read. Row sums stay on chip."""
    return Roofline(hbm_s=hbm_s((2 * rows + 1) * d_model * element_bytes, chip, stack))


def residual(rows: float, d_model: int, element_bytes: float, chip: Chip, stack: Stack = BOOK) -> Roofline:
    """Roofline of adding a block's output to the residual stream: two arrays of B x D read, one written."""
    return elementwise(rows * d_model, element_bytes, chip, stack, operands=2)


def kv_append(
    tokens: float, kv_heads: float, head_dim: int, dtype_bytes: float, chip: Chip, stack: Stack = BOOK
) -> Roofline:
    """Roofline of one layer's new keys and values into the cache: computed values read, cache slots written."""
    return elementwise(2 * tokens * kv_heads * head_dim, dtype_bytes, chip, stack)


def dequantisation(
    parameters: float, stored_bytes: float, compute_bytes: float, chip: Chip, stack: Stack = BOOK
) -> Roofline:
    """Roofline of widening weights in HBM before the matmul reads them, the read of the stored weights left out.

    b_c written and b_c read for each parameter, nothing when both dtypes are one. A fused kernel widens on chip.
    """
    if stored_bytes == compute_bytes:
        return Roofline()
    return Roofline(hbm_s=hbm_s(2 * compute_bytes * parameters, chip, stack))
