"""Chips that JAX shows as several devices: what one device owns, and collectives that also cross the chip.

The devices of a TPU 7x chip are joined by a link faster than ICI and share its ICI links, so the axis over them has to
be the innermost of a mesh: what crosses it then leaves the ICI links alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from cost_models.chips import Chip
from cost_models.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links, TorusAxis


def device(chip: Chip) -> Chip:
    """One device as a chip of its own: an equal part of peaks, memory, and links while its siblings use theirs."""
    parts = chip.devices_per_chip
    if parts == 1:
        return chip
    return replace(
        chip,
        peak_flops_per_s=MappingProxyType({dtype: rate / parts for dtype, rate in chip.peak_flops_per_s.items()}),
        hbm_bytes=chip.hbm_bytes // parts,
        hbm_bytes_per_s=chip.hbm_bytes_per_s / parts,
        ici_bytes_per_s=chip.ici_bytes_per_s / parts,
        cores_per_chip=None if chip.cores_per_chip is None else chip.cores_per_chip // parts,
        vmem_bytes=None if chip.vmem_bytes is None else chip.vmem_bytes // parts,
        vmem_bytes_per_s=_part(chip.vmem_bytes_per_s, parts),
        dcn_bytes_per_s=_part(chip.dcn_bytes_per_s, parts),
        pcie_bytes_per_s=_part(chip.pcie_bytes_per_s, parts),
        price_usd_per_chip_hour=_part(chip.price_usd_per_chip_hour, parts),
        devices_per_chip=1,
    )


def device_axis(chip: Chip) -> TorusAxis:
    """The axis over the devices of one chip."""
    return TorusAxis("device", chip.devices_per_chip, wraps=False)


def device_gather_s(gathered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to gather V bytes over `axes` and the devices of each chip: each device its part over ICI, then inside.

    On one chip, T = V * (n - 1) / (n * W_chip)
    """
    over_ici_s = all_gather_s(gathered_bytes, axes, chip, stack)
    return over_ici_s + all_gather_s(gathered_bytes, (device_axis(chip),), _inside(chip), stack)


def device_reduce_scatter_s(scattered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum and scatter V bytes over the devices of each chip and `axes`: a gather reversed."""
    inside_s = reduce_scatter_s(scattered_bytes, (device_axis(chip),), _inside(chip), stack)
    return inside_s + reduce_scatter_s(scattered_bytes, axes, chip, stack)


def device_all_reduce_s(operand_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum V bytes over the devices of each chip and `axes`; each device sums its part over ICI."""
    inside_s = all_reduce_s(operand_bytes, (device_axis(chip),), _inside(chip), stack)
    return inside_s + all_reduce_s(operand_bytes, axes, chip, stack)


def _inside(chip: Chip) -> Chip:
    """The chip with its internal link in the place of ICI."""
    if chip.devices_per_chip == 1:
        return chip
    return replace(chip, ici_bytes_per_s=chip.known("intra_chip_bytes_per_s"))


def _part(rate: float | None, parts: int) -> float | None:
    return None if rate is None else rate / parts
