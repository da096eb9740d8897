"""Seconds of the collectives over torus axes, or over one switched domain, in the book's notation.

Bytes are those of one group of the collective, already divided by the mesh axes outside it. X is the size of an axis,
w one link in one direction, W = 2w both directions of a wrapped axis, N the product of the sizes. A piece of an axis
has stride s: its s siblings share each link, w/s for each, and a hop crosses s links. Pass the axes through
`torus.merge_axes` first when several may lie on one torus axis.

    bandwidth of an axis   W when it wraps, w/s when it does not     (scaling-book, sharding.md § Case 2, Pop Quiz 2)
    hops of an axis        floor(X/2) when it wraps, (X - 1) * s     (§ A note on ICI latency)
    several axes           bandwidths add, hops add                  (§ AllGather over multiple axes)
    T                      launch + max(t_hop * hops, bytes / (sum of bandwidths * efficiency))

A stack may add the two terms instead of taking the larger, may count the exact V * (N - 1) / N on rings, and has the
corrections of Stack for steps through a switch, a slow ramp of rate with size, pairs and all-reduces.
"""

import math
from collections.abc import Sequence

from cost_models.chips import Chip
from cost_models.stacks import BOOK, Stack
from cost_models.stacks import stack as stack_named
from cost_models.torus import Links


def all_gather_s(gathered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds until every chip of the group holds all `gathered_bytes` V.

    rings            V / sum(W)                          (scaling-book, sharding.md § Case 2)
    with any line    V * (N - 1) / N / sum(bandwidth)    (§ Pop Quiz 2)
    one switch       V * (N - 1) / (N * W_gpu)           (gpus.md § Collectives at the node level)
    """
    ways = _ways(axes)
    if ways == 1:
        return 0.0
    return stack.collective_launch_s + _gather_s(gathered_bytes, axes, ways, chip, stack)


def reduce_scatter_s(scattered_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum operands of `scattered_bytes` over the group, each chip keeping its share: a gather reversed.

    T_RS = T_AG with V the bytes before scattering     (scaling-book, sharding.md § Case 3)
    """
    return all_gather_s(scattered_bytes, axes, chip, stack)


def all_reduce_s(operand_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to sum operands of `operand_bytes` over the group and leave every chip the sum.

    T_AR = T_RS + T_AG = 2 * T_AG, launched once     (scaling-book, sharding.md § Case 3)
    one shot: T_AG of V * N, up to the bytes for which the stack has such a kernel, beyond them its `fallback`
    """
    ways = _ways(axes)
    if ways == 1:
        return 0.0
    if operand_bytes <= stack.one_shot_bytes:
        return stack.collective_launch_s + _gather_s(operand_bytes * ways, axes, ways, chip, stack)
    if stack.fallback is not None:
        return all_reduce_s(operand_bytes, axes, chip, stack_named(stack.fallback))
    return stack.collective_launch_s + 2 * _gather_s(operand_bytes, axes, ways, chip, stack, stack.all_reduce_rate)


def all_to_all_s(global_bytes: float, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to move the sharding from one dimension to another; V = `global_bytes` counts all shards of the group.

        one axis         V / (4 * bandwidth)                     (scaling-book, sharding.md § AllToAll)
        several axes     V / (4 * N) * max(X_i / bandwidth_i)    (the same cut through the middle of each axis)
        one switch       V * (N - 1) / (N^2 * W_gpu)             (gpus.md § Collectives at the node level)

    Half of the bytes must cross the middle of an axis, half of those each way; a line has one link there, a ring two.
    """
    ways = _ways(axes)
    if ways == 1:
        return 0.0
    _check_links(axes)
    link = chip.ici_bytes_per_s * stack.ici_efficiency
    if chip.switched:
        bytes_s = global_bytes * (ways - 1) / (ways * ways * link) + _ramp_s(global_bytes / ways, ways, stack)
    else:
        longest = max(axis.size * (0.5 if axis.wraps else axis.stride) for axis in axes if axis.size > 1)
        bytes_s = global_bytes * longest / (4 * ways * link)
    return stack.collective_launch_s + _combined_s(hops(axes, chip), bytes_s, chip, stack)


def permute_s(shard_bytes: float, axis: Links, chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds for every chip along `axis` to send `shard_bytes` to the next one; on a line the last does not send.

    T = s * t_hop + V * s / w     (point to point the terms add: scaling-book, tpus.md § Question 5)
    """
    if axis.size == 1:
        return 0.0
    stride = 1 if chip.switched else axis.stride
    return stack.collective_launch_s + send_s(shard_bytes * stride, stride, 1, chip, stack)


def send_s(sent_bytes: float, hops: int, links: int, chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds to send `sent_bytes` from one chip to another `hops` away, leaving by `links` links at once.

    T = t_hop * hops + V / (links * w)     (scaling-book, tpus.md § Question 5)
    """
    return _hop_s(chip, stack) * hops + sent_bytes / (links * chip.ici_bytes_per_s * stack.ici_efficiency)


def hops(axes: Sequence[Links], chip: Chip) -> int:
    """Links the last shard crosses: floor(X/2) around a ring, (X - 1) * stride along a line, 1 through a switch."""
    if chip.switched:
        return 1
    return sum(axis.size // 2 if axis.wraps else (axis.size - 1) * axis.stride for axis in axes)


def steps(axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Hops that `stack` pays for: those of the torus; through a switch of N chips 1, log2(N) or N - 1."""
    if not chip.switched or stack.switch_steps == "one":
        return hops(axes, chip)
    ways = _ways(axes)
    return math.log2(ways) if stack.switch_steps == "log2" else ways - 1


def latency_s(axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> float:
    """Seconds of the hops of one pass over `axes`, its launch left out: t_hop * hops."""
    return _hop_s(chip, stack) * steps(axes, chip, stack)


def bandwidth_bytes_per_s(axes: Sequence[Links], chip: Chip) -> float:
    """Bytes per second into one chip over all `axes`: 2w for a ring, w / stride for a line, w from a switch."""
    if chip.switched:
        return chip.ici_bytes_per_s
    _check_links(axes)
    return chip.ici_bytes_per_s * sum(2 if axis.wraps else 1 / axis.stride for axis in axes if axis.size > 1)


def _ways(axes: Sequence[Links]) -> int:
    ways = 1
    for axis in axes:
        ways *= axis.size
    return ways


def _check_links(axes: Sequence[Links]) -> None:
    if len(axes) > 1 and len({axis.torus_axis for axis in axes}) < len(axes):
        raise ValueError(f"axes {', '.join(axis.torus_axis for axis in axes)} share links; merge them first")


def _moved_fraction(axes: Sequence[Links], ways: int, chip: Chip, stack: Stack) -> float:
    """Fraction of the gathered bytes that comes in over the links: (N - 1) / N, or all of them by the book's rings."""
    if stack.ring_factor == "asymptotic" and not chip.switched and all(axis.wraps for axis in axes if axis.size > 1):
        return 1.0
    return 1 - 1 / ways


def _gather_s(
    gathered_bytes: float, axes: Sequence[Links], ways: int, chip: Chip, stack: Stack, rate: float = 1.0
) -> float:
    """Seconds of the hops and bytes of one all-gather at `rate` times its bandwidth, its launch left out."""
    bytes_per_s = bandwidth_bytes_per_s(axes, chip) * stack.ici_efficiency * rate
    if ways == 2:
        bytes_per_s *= stack.pair_rate
    bytes_s = gathered_bytes * _moved_fraction(axes, ways, chip, stack) / bytes_per_s
    bytes_s += _ramp_s(gathered_bytes, ways, stack)
    return _combined_s(steps(axes, chip, stack), bytes_s, chip, stack)


def _ramp_s(gathered_bytes: float, ways: int, stack: Stack) -> float:
    """Seconds lost while the rate grows with the size: ramp * sqrt(megabytes on the wire)."""
    return stack.ramp_s * math.sqrt(gathered_bytes * (1 - 1 / ways) / 1e6) if stack.ramp_s else 0.0


def _combined_s(hops_crossed: float, bytes_s: float, chip: Chip, stack: Stack) -> float:
    latency_s = _hop_s(chip, stack) * hops_crossed
    return latency_s + bytes_s if stack.latency == "sum" else max(latency_s, bytes_s)


def _hop_s(chip: Chip, stack: Stack) -> float:
    return chip.ici_hop_s if stack.hop_s is None else stack.hop_s
