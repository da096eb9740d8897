"""Rates inside one chip: matrix units, vector lanes and on-chip memory. For kernels, and to check the peaks printed.

Numbers that chips.toml leaves out for a chip raise `UnknownNumber`.
"""

from cost_models.chips import Chip


def matrix_unit_flops_per_s(chip: Chip) -> float:
    """Operations of one systolic array of edge d, which finishes d * d multiply-adds a cycle.

    2 * d^2 * clock     (scaling-book, tpus.md § What Is a TPU)
    """
    return 2 * chip.mxu_dim**2 * chip.known("clock_hz")


def systolic_flops_per_s(chip: Chip) -> float:
    """Peak of a TPU chip by counting its systolic arrays; the printed bf16 peak within 1%."""
    return matrix_units(chip) * matrix_unit_flops_per_s(chip)


def matrix_units(chip: Chip) -> float:
    """Systolic arrays, or tensor cores, of the whole chip."""
    return chip.known("cores_per_chip") * chip.known("mxus_per_core")


def matrix_unit_flops_per_cycle(chip: Chip, compute_dtype: str) -> float:
    """Operations that one matrix unit finishes in a cycle at the printed peak (scaling-book, gpus.md § Tensor Core)."""
    return chip.flops_per_s(compute_dtype) / (matrix_units(chip) * chip.known("clock_hz"))


def vector_lanes(chip: Chip) -> float:
    """Elements that the vector units of the whole chip work on in one cycle (scaling-book, gpus.md § Quiz 1 Q1)."""
    return chip.known("cores_per_chip") * chip.known("vector_lanes_per_core")


def vector_flops_per_s(chip: Chip) -> float:
    """Operations of the vector units, one per lane and cycle (scaling-book, tpus.md § Appendix A; gpus.md § Quiz 1)."""
    return vector_lanes(chip) * chip.known("clock_hz")


def vector_intensity(chip: Chip) -> float:
    """Vector operations per HBM byte below which memory binds an elementwise kernel (scaling-book, roofline.md)."""
    return vector_flops_per_s(chip) / chip.hbm_bytes_per_s


def vmem_intensity(chip: Chip, compute_dtype: str) -> float:
    """Operations per byte below which on-chip memory binds (scaling-book, tpus.md § VMEM and arithmetic intensity)."""
    return chip.flops_per_s(compute_dtype) / chip.known("vmem_bytes_per_s")
