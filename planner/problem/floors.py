"""Lower bounds on what any layout costs on a mesh, from sizes alone: a mesh is priced when no other's is lower.

On n chips, let a block's weights be cut w ways where it computes; w differs between blocks and phases, so every divisor
of n is tried. A chip then multiplies at least R * w / n rows with 1 / w of the weights, whatever is cut otherwise, and
where w > 1 rows travel: over Y of w = X * Y chips the residual stream, over X the hidden columns. The rows of one copy
of a mixture's experts meet at least those that they would draw at random. Weights that HBM can
only hold in more than w parts are gathered in prefill, axis by axis. Rows are charged at the rate of all links together
and for the fewest hops there and back, so that no layout is cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import floor, prod
from typing import TYPE_CHECKING

import numpy as np

from cost_models.attention import causal_pairs_in_window
from cost_models.collectives import bandwidth_bytes_per_s, latency_s, steps
from cost_models.matmul import compute_s, hbm_s
from cost_models.moe import Mixture, experts_touched
from cost_models.roofline import Roofline
from cost_models.torus import Links, merge_axes
from planner.problem.machine import Machine
from planner.problem.problem import NS, UNIT_BYTES, Floor, Ints

ROUNDING = 1e-9

if TYPE_CHECKING:
    from planner.problem.tables import Load


@dataclass(frozen=True)
class Shape:
    """Layers that are alike in one block: their weights, and the widths that their two matmuls make and read.

    Of a `mixture` a row meets k of E experts, and a step reads those that its rows meet; the widths are those of k.
    """

    layers: int
    parameters: float
    out_width: float
    in_width: float
    mixture: Mixture | None = None

    def met(self) -> float:
        """The part of the weights that one row meets."""
        return self.mixture.experts_per_token / self.mixture.experts if self.mixture else 1.0

    def read(self, rows: float) -> float:
        """The part of the weights that `rows` meet together."""
        if self.mixture is None:
            return 1.0
        return experts_touched(rows, self.mixture.experts, self.mixture.experts_per_token) / self.mixture.experts


def floor_of(machine: Machine, load: "Load", prompts: int, hbm_units: int | None) -> Floor:
    """The floor of prefills of `prompts`, and of a step of every batch, in so many units of HBM."""
    context, layers = load.mean_context, machine.sizes.layers
    fixed_s = machine.stack.step_s + layers * machine.stack.layer_s
    steps_s = [fixed_s + reads_floor_s(batch, context, machine) for batch in load.batches]
    return Floor(
        tuple(stored_floors(shape, load, prompts, machine, hbm_units) for shape in shapes(machine)),
        whole_ns(fixed_s + scores_floor_s(load.prompt, prompts, machine)),
        np.array([whole_ns(each) for each in steps_s], dtype=np.int64),
        np.array([hbm_floor(batch, load, machine) for batch in load.batches], dtype=np.int64),
    )


def stored_floors(
    shape: Shape, load: "Load", prompts: int, machine: Machine, hbm_units: int | None
) -> tuple[Ints, Ints]:
    """Nanoseconds of one block in all layers, for each number of ways that its weights may be stored in.

    Generate computes where they are stored; prefill too, or on fewer ways after a gather.
    """
    least, layers = stored_ways(shape, machine, hbm_units) * (1 - ROUNDING), shape.layers
    stored = [each for each in divisors(machine.slice.chips) if each >= least]
    prefill_s = [prefill_floor_s(shape, each, prompts * load.prompt, machine) for each in stored]
    steps_s = [[block_floor_s(shape, batch, each, 0.0, machine) for batch in load.batches] for each in stored]
    return (
        np.array([whole_ns(layers * each) for each in prefill_s], dtype=np.int64),
        np.array([[whole_ns(layers * each) for each in row] for row in steps_s], dtype=np.int64),
    )


def whole_ns(seconds: float) -> int:
    """Whole nanoseconds, rounded down."""
    return floor(seconds * NS)


def shapes(machine: Machine) -> tuple[Shape, ...]:
    """The weights of layers that are alike, block by block, without padding."""
    return (attention_shape(machine), *mlp_shapes(machine), *expert_shapes(machine))


def attention_shape(machine: Machine) -> Shape:
    """Attention. Keys and values may be made where they are kept, so they do not travel; of latent queries no more
    than the latent does."""
    sizes = machine.sizes
    parameters = sum(each.elements(sizes.q_heads, sizes.kv_heads, sizes.d_model) for each in sizes.matrices)
    made = sizes.q_made(sizes.q_heads)
    return Shape(sizes.layers, parameters, made, min(made, sizes.q_heads * sizes.out_dim))


def mlp_shapes(machine: Machine) -> list[Shape]:
    """The dense MLPs."""
    sizes = machine.sizes
    return [
        Shape(each.layers, (sizes.inputs + 1) * sizes.d_model * each.d_ff, sizes.inputs * each.d_ff, each.d_ff)
        for each in sizes.mlps
    ]


def expert_shapes(machine: Machine) -> list[Shape]:
    """The experts of a mixture."""
    sizes, mixture = machine.sizes, machine.sizes.mixture
    if mixture is None:
        return []
    parameters = mixture.experts * (sizes.inputs + 1) * sizes.d_model * mixture.d_ff
    width = mixture.experts_per_token * mixture.d_ff
    return [Shape(sizes.sparse_layers, parameters, sizes.inputs * width, width, mixture)]


def stored_ways(shape: Shape, machine: Machine, hbm_units: int | None) -> float:
    """The least ways that a block's weights must be cut where they are stored, all else being cut over all chips."""
    if hbm_units is None:
        return 1.0
    own = shape.layers * shape.parameters * machine.sizes.weight_bytes
    others = (weight_bytes(machine) - own) / machine.slice.chips
    return max(1.0, own / max(hbm_units * UNIT_BYTES - others, own / machine.slice.chips))


def prefill_floor_s(shape: Shape, stored: int, rows: float, machine: Machine) -> float:
    """Seconds of one block of one layer in prefill, its weights stored in `stored` ways and perhaps gathered."""

    def computed_s(ways: int) -> float:
        gathered = (1 / ways - 1 / stored) * shape.parameters * machine.sizes.weight_bytes
        return block_floor_s(shape, rows, ways, gathered / gather_rate(machine), machine)

    return min(map(computed_s, divisors(stored)))


def block_floor_s(shape: Shape, rows: float, ways: int, gather_s: float, machine: Machine) -> float:
    """Seconds of one block of one layer whose weights are cut `ways` where it computes, after `gather_s` of gathers."""
    chips, stack, sizes = machine.slice.chips, machine.stack, machine.sizes
    own, share = rows * ways / chips, shape.parameters / ways
    read = shape.read(own)
    flops = 2 * (own * shape.met() + read * stack.partial_overlap_tokens) * share
    math_s = compute_s(flops, sizes.compute_dtype, machine.chip, stack)
    read_s = hbm_s(read * share * sizes.weight_bytes * stack.weight_passes, machine.chip, stack)
    width = rows / chips * (sizes.d_model + shape.in_width) * sizes.activation_bytes
    local_s = machine.total_s(Roofline(math_s, read_s)) + hbm_s(stack.elementwise_passes * width, machine.chip)
    talk_s = gather_s + exchange_floor_s(shape, own, ways, machine)
    return local_s + talk_s * stack.exposed_fraction(local_s, talk_s)


def exchange_floor_s(shape: Shape, own_rows: float, ways: int, machine: Machine) -> float:
    """Seconds of the collectives of a block over `ways` chips: the least over X * Y = `ways`.

    Rows may go to their experts by all-to-all, whose bytes are not charged here.
    """
    if ways == 1:
        return 0.0
    if shape.mixture:
        return machine.stack.collective_launch_s + 2 * hop_floor_s(ways, machine, all_to_all=True)
    d_model = machine.sizes.d_model

    def moved(x: int) -> float:
        y = ways // x
        residual = 2 * d_model / x * (1 - 1 / y)
        return own_rows * (residual + (shape.out_width + shape.in_width) / y * (1 - 1 / x))

    least = min(map(moved, divisors(ways))) * machine.sizes.activation_bytes
    bytes_s, hops_s = least / rate_floor(machine), 2 * hop_floor_s(ways, machine)
    both_s = bytes_s + hops_s if machine.stack.latency == "sum" else max(bytes_s, hops_s)
    return machine.stack.collective_launch_s + both_s


def rate_floor(machine: Machine) -> float:
    """Bytes per second that no collective exceeds: over all links at once."""
    return rate_over(merge_axes(machine.mesh, machine.slice), machine)


def gather_rate(machine: Machine) -> float:
    """Bytes per second that no gather of weights exceeds: they go axis by axis."""
    return max((rate_over([axis], machine) for axis in machine.mesh if axis.size > 1), default=1.0)


def rate_over(axes: Sequence[Links], machine: Machine) -> float:
    """Bytes per second over some axes, with every correction of the stack."""
    stack = machine.stack
    corrections = max(1.0, stack.all_reduce_rate) * max(1.0, stack.pair_rate)
    return bandwidth_bytes_per_s(axes, machine.chip) * stack.ici_efficiency * corrections


def hop_floor_s(ways: int, machine: Machine, all_to_all: bool = False) -> float:
    """Seconds of the hops of one pass over the mesh axes that make up `ways` chips: the least over all that can.

    Through a switch an all-to-all takes one hop, whatever the stack says of other collectives.
    """

    def passed_s(axis: Links) -> float:
        found = latency_s([axis], machine.chip, machine.stack)
        return found / steps([axis], machine.chip, machine.stack) if all_to_all and machine.chip.switched else found

    axes = [axis for axis in machine.mesh if axis.size > 1]
    sets = (chosen for count in range(1, len(axes) + 1) for chosen in combinations(axes, count))
    enough = (chosen for chosen in sets if prod(axis.size for axis in chosen) >= ways)
    return min(sum(passed_s(axis) for axis in chosen) for chosen in enough)


def scores_floor_s(prompt: int, prompts: int, machine: Machine) -> float:
    """Seconds of the scores of prefill attention, masked pairs left out, spread over all chips."""
    sizes, chips = machine.sizes, machine.slice.chips
    attended = 2 * sizes.head_dim if sizes.latent is None else sizes.latent.query_head_dim + sizes.latent.value_dim
    pairs = sum(kind.layers * least_pairs(prompt, kind.window) for kind in sizes.kinds)
    flops = 2 * prompts * pairs * sizes.q_heads * attended
    return compute_s(flops, sizes.compute_dtype, machine.chip) / machine.stack.attention_efficiency / chips


def least_pairs(prompt: int, window: int | None) -> float:
    """Tokens of a prompt and earlier ones that meet in a layer."""
    pairs = prompt * prompt / 2
    return pairs if window is None else min(pairs, causal_pairs_in_window(prompt, prompt, window))


def reads_floor_s(batch: int, context: float, machine: Machine) -> float:
    """Seconds to read the KV cache of a step, spread over all chips."""
    sizes, chips = machine.sizes, machine.slice.chips
    elements = batch * sizes.attended(context) * sizes.cached_dim
    return hbm_s(elements * sizes.kv_bytes / chips, machine.chip, machine.stack)


def weight_bytes(machine: Machine) -> float:
    """Bytes of all weights, without padding and scales."""
    sizes = machine.sizes
    layers = sum(shape.layers * shape.parameters for shape in shapes(machine))
    return (layers + (1 if sizes.tied else 2) * sizes.vocab * sizes.d_model) * sizes.weight_bytes


def hbm_floor(batch: int, load: "Load", machine: Machine) -> int:
    """Units of 64 KiB per chip that weights and the KV cache take at least."""
    sizes = machine.sizes
    cached = batch * sizes.attended(load.max_context) * sizes.cached_dim * sizes.kv_bytes
    return floor((weight_bytes(machine) + cached) / machine.slice.chips / UNIT_BYTES)


def divisors(number: int) -> list[int]:
    """The divisors of a number, smallest first."""
    return [each for each in range(1, number + 1) if number % each == 0]
