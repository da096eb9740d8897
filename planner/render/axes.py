"""Arithmetic on tuples of mesh axes."""

from collections.abc import Mapping, Sequence
from math import prod

from planner.plan.schema import Plan

Axes = tuple[str, ...]


def axis_sizes(plan: Plan, phase: str) -> dict[str, int]:
    """Chips along each mesh axis of the slice that a phase runs on."""
    return {axis.name: axis.size for axis in plan.at(phase).mesh.axes}


def ways(axes: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Chips along `axes` together."""
    return prod(sizes[axis] for axis in axes)


def without(axes: Axes, removed: Axes) -> Axes:
    """Those of `axes` that are not in `removed`, in order."""
    return tuple(axis for axis in axes if axis not in removed)


def shared(axes: Axes, kept: Axes) -> Axes:
    """Those of `axes` that are in `kept`, in order."""
    return tuple(axis for axis in axes if axis in kept)
