"""Chips that JAX shows as several devices: what one device owns, and collectives that also cross the chip.

The devices of a TPU 7x chip are joined by a link faster than ICI and share its ICI links, so the axis over them has to
be the innermost of a mesh: what crosses it then leaves the ICI links alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from cost_models.chips import Chip
from cost_models.collectives import all_gather_s, all_reduce_s
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links, TorusAxis

DEVICE_AXIS = "device"


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
    """The axis over the devices of one chip; a layout of devices puts it where it puts torus axes."""
    return TorusAxis(DEVICE_AXIS, chip.devices_per_chip, wraps=False)


def phases(
    moved_bytes: float, axes: Sequence[Links], one: Chip, *, over_n: bool = False
) -> Iterator[tuple[float, Sequence[Links], Chip]]:
    """The collectives that make up one over `axes` of `one` device: bytes, axes, and the chip whose links they use.

    With the n devices of a chip among the axes each of them moves V / n over ICI, and V crosses the chip; of an
    all-to-all, whose bytes cross the chip once for each of the N chips, V / N.
    """
    inside = next((axis for axis in axes if axis.torus_axis == DEVICE_AXIS), None)
    outside = tuple(axis for axis in axes if axis is not inside)
    if outside:
        yield moved_bytes / (inside.size if inside else 1), outside, one
    if inside:
        crossing = moved_bytes / math.prod(axis.size for axis in outside) if over_n else moved_bytes
        yield crossing, (inside,), replace(one, ici_bytes_per_s=one.known("intra_chip_bytes_per_s"))


def device_gather_s(gathered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to gather V bytes over `axes` and the devices of each chip: each device its part over ICI, then inside.

    On one chip, T = V * (n - 1) / (n * W_chip)
    """
    return sum(all_gather_s(*phase, stack) for phase in _with_devices(gathered_bytes, axes, chip))


def device_reduce_scatter_s(scattered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum and scatter V bytes over the devices of each chip and `axes`: a gather reversed."""
    return device_gather_s(scattered_bytes, axes, chip, stack)


def device_all_reduce_s(operand_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum V bytes over the devices of each chip and `axes`; each device sums its part over ICI."""
    return sum(all_reduce_s(*phase, stack) for phase in _with_devices(operand_bytes, axes, chip))


def _with_devices(
    moved_bytes: float, axes: Sequence[Links], chip: Chip
) -> Iterator[tuple[float, Sequence[Links], Chip]]:
    """The phases over `axes` and the devices of each chip."""
    devices = (device_axis(chip),) if chip.devices_per_chip > 1 else ()
    return phases(moved_bytes, (*axes, *devices), device(chip))


def _part(rate: float | None, parts: int) -> float | None:
    return None if rate is None else rate / parts
