"""The least that collectives over any set of a mesh's axes take: tables for floors, one entry for each set.

A set is the number whose bit i is the i-th mesh axis of more than one chip.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cost_models.collectives import bandwidth_bytes_per_s, latency_s, steps
from cost_models.stacks import Stack, stack
from cost_models.torus import MeshAxis, merge_axes
from planner.problem.machine import Machine
from planner.problem.problem import Ints

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinkFloors:
    """What the sets of axes of one mesh allow at most, with every correction of the stack."""

    machine: Machine

    @cached_property
    def sets(self) -> list[tuple[MeshAxis, ...]]:
        """The axes of every set."""
        axes = [axis for axis in self.machine.mesh if axis.size > 1]
        return [
            tuple(axis for place, axis in enumerate(axes) if number >> place & 1) for number in range(2 ** len(axes))
        ]

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that collectives are priced by."""
        own = self.machine.stack
        return (own,) if own.fallback is None else (own, stack(own.fallback))

    @cached_property
    def ways(self) -> Floats:
        """Chips of a group."""
        return np.array([self.machine.ways(tuple(axis.name for axis in axes)) for axes in self.sets], dtype=np.float64)

    def spread(self, wholes: Ints) -> Floats:
        """The most ways that the axes outside of a set can cut a whole number evenly, [sets, wholes]."""
        even = wholes % self.ways[:, None] == 0
        numbers = np.arange(len(self.sets))
        outside = numbers[:, None] & numbers == 0
        most: Floats = (outside[:, :, None] * (self.ways[:, None] * even)).max(axis=1)
        return most

    @cached_property
    def rate(self) -> Floats:
        """Bytes per second over all axes of a set at once; going axis by axis is no faster. 1 for the empty set."""
        chip = self.machine.chip
        merged = (merge_axes(axes, self.machine.slice) for axes in self.sets)
        rates = [bandwidth_bytes_per_s(axes, chip) if axes else 1.0 for axes in merged]
        return np.array(rates) * max(map(rate_correction, self.stacks))

    @cached_property
    def hops_s(self) -> Floats:
        """Seconds of the hops of one pass over the axes of a set, at once or one after the other."""
        return np.array([min(self.pass_s(axes, each) for each in self.stacks) for axes in self.sets])

    def pass_s(self, axes: tuple[MeshAxis, ...], on: Stack) -> float:
        """Seconds of the hops of one pass on one stack."""
        chip = self.machine.chip
        in_turn = sum(latency_s([axis], chip, on) for axis in axes)
        return min(in_turn, latency_s(merge_axes(axes, self.machine.slice), chip, on)) if axes else 0.0

    @cached_property
    def sent_hops_s(self) -> Floats:
        """The same of whatever takes the fewest hops: an all-to-all takes one hop through a switch."""
        chip = self.machine.chip
        if not chip.switched:
            return self.hops_s
        least = [
            min(latency_s(axes, chip, each) / steps(axes, chip, each) for each in self.stacks) if axes else 0.0
            for axes in self.sets
        ]
        return np.array(least)

    @cached_property
    def gather_rate(self) -> Floats:
        """Bytes per second over the fastest axis of a set: gathers go axis by axis. 1 for the empty set."""
        chip = self.machine.chip
        rates = [max((bandwidth_bytes_per_s([axis], chip) for axis in axes), default=1.0) for axes in self.sets]
        return np.array(rates) * max(map(rate_correction, self.stacks))

    @property
    def launch_s(self) -> float:
        """Seconds to launch a collective."""
        return min(each.collective_launch_s for each in self.stacks)

    @property
    def passes(self) -> int:
        """Passes of a reduction: there and back, unless one kernel fetches all operands."""
        return 1 if self.machine.stack.one_shot_bytes else 2

    def combined_s(self, bytes_s: Floats, hops_s: Floats) -> Floats:
        """Seconds of bytes and hops, as the stack combines them."""
        together: Floats = bytes_s + hops_s if self.machine.stack.latency == "sum" else np.maximum(bytes_s, hops_s)
        return together


def rate_correction(stack: Stack) -> float:
    """How much faster than the chip's links a collective can be."""
    return stack.ici_efficiency * max(1.0, stack.all_reduce_rate) * max(1.0, stack.pair_rate)
