"""The names under which libtpu knows the slices of a plan."""

from typing import Any

from cost_models.chips import chip, parse_shape
from planner.errors import CannotRun
from planner.plan.schema import Plan

TOPOLOGY_NAMES = {"v4": "v4", "v5e": "v5e", "v5p": "v5p", "v6e": "v6e", "7x": "tpu7x"}
"""Chip of the catalogue -> name in a topology."""
ONE_DEVICE_A_CHIP = {"v4": "megacore"}
"""Chip configurations that show both cores of a chip as one device, as plans count them."""
HOST_SIDE = 2


def topology_of(plan: Plan) -> tuple[str, dict[str, Any]]:
    """Topology name of the plan's slice, and the options that describe its hosts and chips.

    Raises CannotRun for chips that the TPU compiler does not know.
    """
    name = TOPOLOGY_NAMES.get(plan.chip)
    if name is None:
        raise CannotRun(f"the TPU compiler knows no {plan.chip}; compile this plan with --target cpu")
    sides = parse_shape(plan.slice)
    assert sides is not None, plan.slice
    options: dict[str, Any] = {"chips_per_host_bounds": host_bounds(sides)}
    if plan.chip in ONE_DEVICE_A_CHIP:
        options["chip_config_name"] = ONE_DEVICE_A_CHIP[plan.chip]
    elif chip(plan.chip).devices_per_chip > 1:
        devices = chip(plan.chip).devices_per_chip
        raise CannotRun(
            f"jax shows a {plan.chip} chip as {devices} devices, and packages use one device a chip so far; "
            "compile this plan with --target cpu"
        )
    return f"{name}:{plan.slice}", options


def host_bounds(sides: tuple[int, ...]) -> list[int]:
    """Chips of a host along each side: two in the plane, where the side is even."""
    plane = [HOST_SIDE if side % HOST_SIDE == 0 else 1 for side in sides[:2]]
    return [*plane, 1]
