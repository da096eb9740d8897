"""Lower bounds on what any layout costs on a mesh, from sizes alone: a mesh is priced when no other's is lower.

On n chips, let a block's weights be cut w ways where it computes; w differs between blocks and phases, so every divisor
of n is tried. A chip then multiplies at least R * w / n rows with 1 / w of the weights, whatever is cut otherwise, and
where w > 1 rows travel: over Y of w = X * Y chips the residual stream, over X the hidden columns. Bytes are charged at
the rate of all links together and hops once, so that no layout is cheaper.
"""

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from cost_models.collectives import bandwidth_bytes_per_s, latency_s
from cost_models.matmul import compute_s, hbm_s
from cost_models.roofline import Roofline
from cost_models.torus import merge_axes
from planner.problem.machine import Machine
from planner.problem.problem import NS, UNIT_BYTES, Floor

if TYPE_CHECKING:
    from planner.problem.tables import Load


@dataclass(frozen=True)
class Shape:
    """One block of a layer: its weights, and the widths that its two matmuls make and read."""

    parameters: float
    out_width: float
    in_width: float


def floor_of(machine: Machine, load: "Load", prompts: int) -> Floor:
    """The floor of prefills of `prompts`, and of a step of every batch."""
    tokens = prompts * load.prompt
    prefill_s = blocks_floor_s(tokens, machine) + scores_floor_s(load.prompt, prompts, machine)
    generate = [
        blocks_floor_s(batch, machine) + reads_floor_s(batch, load.mean_context, machine) for batch in load.batches
    ]
    fixed_s = machine.stack.step_s + machine.sizes.layers * machine.stack.layer_s
    return Floor(
        floor((prefill_s + fixed_s) * NS),
        np.array([floor((each + fixed_s) * NS) for each in generate], dtype=np.int64),
        np.array([hbm_floor(batch, load, machine) for batch in load.batches], dtype=np.int64),
    )


def shapes(machine: Machine) -> tuple[Shape, Shape]:
    """Attention and MLP of one layer, without padding; keys and values may be made where they are kept, so they do not
    travel."""
    sizes = machine.sizes
    q_width, kv_width = sizes.q_heads * sizes.head_dim, 2 * sizes.kv_heads * sizes.head_dim
    return (
        Shape(sizes.d_model * (2 * q_width + kv_width), q_width, q_width),
        Shape(3 * sizes.d_model * sizes.d_ff, 2 * sizes.d_ff, sizes.d_ff),
    )


def blocks_floor_s(rows: float, machine: Machine) -> float:
    """Seconds of the matmuls of all layers, and of the rows that they exchange."""
    ways = divisors(machine.slice.chips)
    layer_s = sum(min(block_floor_s(shape, rows, w, machine) for w in ways) for shape in shapes(machine))
    return machine.sizes.layers * layer_s


def block_floor_s(shape: Shape, rows: float, ways: int, machine: Machine) -> float:
    """Seconds of one block of one layer whose weights are cut `ways` where it computes."""
    chips, stack, sizes = machine.slice.chips, machine.stack, machine.sizes
    own, share = rows * ways / chips, shape.parameters / ways
    flops = 2 * (own + stack.partial_overlap_tokens) * share
    math_s = compute_s(flops, sizes.compute_dtype, machine.chip, stack)
    read_s = hbm_s(share * sizes.weight_bytes * stack.weight_passes, machine.chip, stack)
    width = rows / chips * (sizes.d_model + shape.in_width) * sizes.activation_bytes
    local_s = machine.total_s(Roofline(math_s, read_s)) + hbm_s(stack.elementwise_passes * width, machine.chip)
    talk_s = exchange_floor_s(shape, own, ways, machine)
    return local_s + talk_s * stack.exposed_fraction(local_s, talk_s)


def exchange_floor_s(shape: Shape, own_rows: float, ways: int, machine: Machine) -> float:
    """Seconds of the collectives of a block over `ways` chips: the least over X * Y = `ways`."""
    if ways == 1:
        return 0.0
    axes = merge_axes(machine.mesh, machine.slice)
    rate = bandwidth_bytes_per_s(axes, machine.chip) * machine.stack.ici_efficiency * fastest(machine)
    d_model = machine.sizes.d_model

    def moved(x: int) -> float:
        y = ways // x
        residual = 2 * d_model / x * (1 - 1 / y)
        return own_rows * (residual + (shape.out_width + shape.in_width) / y * (1 - 1 / x))

    least = min(map(moved, divisors(ways))) * machine.sizes.activation_bytes
    return max(least / rate, machine.stack.collective_launch_s + hop_floor_s(machine))


def fastest(machine: Machine) -> float:
    """The most by which a stack's corrections raise the rate of a collective."""
    return max(1.0, machine.stack.all_reduce_rate, machine.stack.pair_rate)


def hop_floor_s(machine: Machine) -> float:
    """Seconds of the hops of the shortest collective of a mesh."""
    axes = [axis for axis in machine.mesh if axis.size > 1]
    return min((latency_s([axis], machine.chip, machine.stack) for axis in axes), default=0.0)


def scores_floor_s(prompt: int, prompts: int, machine: Machine) -> float:
    """Seconds of the scores of prefill attention, half of the pairs masked, spread over all chips."""
    sizes, chips = machine.sizes, machine.slice.chips
    flops = 2 * prompts * prompt * prompt * sizes.q_heads * sizes.head_dim * sizes.layers
    return compute_s(flops, sizes.compute_dtype, machine.chip) / machine.stack.attention_efficiency / chips


def reads_floor_s(batch: int, context: float, machine: Machine) -> float:
    """Seconds to read the KV cache of a step, spread over all chips."""
    sizes, chips = machine.sizes, machine.slice.chips
    elements = batch * context * 2 * sizes.kv_heads * sizes.head_dim * sizes.layers
    return hbm_s(elements * sizes.kv_bytes / chips, machine.chip, machine.stack)


def hbm_floor(batch: int, load: "Load", machine: Machine) -> int:
    """Units of 64 KiB per chip that weights and the KV cache take at least."""
    sizes = machine.sizes
    weights = sizes.layers * sum(shape.parameters for shape in shapes(machine))
    weights += (1 if sizes.tied else 2) * sizes.vocab * sizes.d_model
    cached = sizes.layers * batch * load.max_context * 2 * sizes.kv_heads * sizes.head_dim * sizes.kv_bytes
    return floor((weights * sizes.weight_bytes + cached) / machine.slice.chips / UNIT_BYTES)


def divisors(number: int) -> list[int]:
    """The divisors of a number, smallest first."""
    return [each for each in range(1, number + 1) if number % each == 0]
