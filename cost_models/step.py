"""Seconds of one transformer step under a layout, kept by cause. One code path for every stack, `book` included.

    T_step       = L * (T_blocks + t_layer) + T_logits + t_step
    T_block      = T_local + max(0, T_comm - ov * T_local)
    T_local      = T_matmul + T_attention + T_elementwise
    T_matmul     = max or sum of 2 * (rows + m0) * P / (e_m * C) and (weights + rows) / (e_h * W)
    T_attention  = KV bytes / (e_h * W) in generate, 4 * pairs * N * H / (e_att * C) in prefill
    T_comm       = per collective: launch + t_hop * hops + bytes / (e_i * bandwidth)

Which collectives a block needs is in `_block_transfers`; structure and constants: docs/cost-models.md.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from cost_models.attention import generate_attention, prefill_attention
from cost_models.chips import Chip
from cost_models.collectives import all_gather_s, all_to_all_s, latency_s
from cost_models.matmul import compute_s, elementwise, hbm_s, matmul
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links
from cost_models.transformer import Block, Layout, Numerics, Transformer, Work


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of a step by cause; the parts add up to the step, what is hidden behind another part is in neither."""

    weights_s: float = 0.0
    """Reading weights from HBM, and the rows that matmuls read and write beside them."""
    compute_s: float = 0.0
    """Operations that reading the weights does not hide; in prefill also those of attention."""
    kv_cache_s: float = 0.0
    """Attending to the KV cache in generate."""
    collective_bytes_s: float = 0.0
    collective_latency_s: float = 0.0
    """Hops and launches of collectives."""
    elementwise_s: float = 0.0
    """Activations that cross HBM outside matmuls."""
    fixed_s: float = 0.0
    """Per layer and per step, whatever the sizes."""

    @property
    def total_s(self) -> float:
        """Seconds of the step."""
        return self.local_s + self.collective_bytes_s + self.collective_latency_s + self.fixed_s

    @property
    def local_s(self) -> float:
        """Seconds of the parts that need no other chip: all but collectives and fixed costs."""
        return self.weights_s + self.compute_s + self.kv_cache_s + self.elementwise_s

    def __add__(self, other: "Step") -> "Step":
        return Step(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Step)))

    def __mul__(self, count: float) -> "Step":
        """The same step run `count` times."""
        return Step(*(getattr(self, each.name) * count for each in fields(Step)))

    __rmul__ = __mul__


def step(model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack = BOOK) -> Step:
    """The step of one replica, its replicas independent of each other.

    Stages of a pipeline work in turn, so a decode step is the sum of its stages; a prefill is cut into m pieces of
    `micro_batch` sequences and takes (m + stages - 1) / stages times the pass of one piece through all stages.
    """
    if layout.stages > 1 and work.phase == "prefill":
        pieces = math.ceil(work.sequences / layout.micro_batch)
        piece = _pass(model, replace(work, sequences=work.sequences / pieces), layout, numerics, chip, stack)
        return piece * ((pieces + layout.stages - 1) / layout.stages)
    return _pass(model, work, layout, numerics, chip, stack)


def fastest_step(
    model: Transformer, work: Work, layouts: Iterable[Layout], numerics: Numerics, chip: Chip, stack: Stack = BOOK
) -> Step:
    """The step under the fastest of `layouts`, the first of equal ones."""
    steps = [step(model, work, layout, numerics, chip, stack) for layout in layouts]
    return min(steps, key=lambda each: each.total_s)


def roofline_s(model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip) -> float:
    """Bare roofline of a step: all chips at peak, perfectly split, nothing between them.

    max(F / (N * C), (weights + KV cache) / (N * W_hbm))
    """
    layers = model.layers * sum(block.parameters for block in model.blocks)
    flops = 2 * work.tokens * layers + 2 * work.sequences * model.vocab * model.d_model
    pairs = work.query_tokens * work.context_tokens - (work.query_tokens**2 / 2 if work.phase == "prefill" else 0)
    flops += 4 * model.layers * work.sequences * pairs * model.q_width
    cache = work.sequences * work.context_tokens * model.layers * model.kv_width * numerics.kv_bytes
    moved = model.parameters * numerics.weight_bytes + (cache if work.phase == "generate" else 0)
    return max(compute_s(flops, numerics.compute, chip), hbm_s(moved, chip)) / (layout.chips * layout.stages)


def _pass(model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack) -> Step:
    """One pass through all layers and the output head."""
    layer = Step(fixed_s=stack.layer_s)
    for block in model.blocks:
        layer += _block(block, model, work, layout, numerics, chip, stack)
    head = _matmul(work.sequences, model.d_model, model.vocab / layout.chips, numerics, chip, stack)
    return model.layers * layer + head + Step(fixed_s=stack.step_s)


def _block(
    block: Block, model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack
) -> Step:
    """One block of one layer on one chip: its matmuls, attention, what is between them, and its exposed collectives."""
    rows = work.tokens / layout.gathered_ways
    width, in_width = model.d_model / layout.feature_ways, block.in_width / layout.hidden_ways
    local = _matmul(rows, width, block.out_width / layout.hidden_ways, numerics, chip, stack)
    local += _matmul(rows, in_width, width, numerics, chip, stack)
    between = elementwise(rows, width + in_width, numerics.activation_bytes, chip, stack)
    local += Step(elementwise_s=between.hbm_s)
    if block.attends:
        local += _attention(model, work, layout, numerics, chip, stack)
    talk = _transfers(_block_transfers(block, model, rows, layout, numerics), layout, chip, stack)
    return local + talk * stack.exposed_fraction(local.local_s, talk.total_s)


def _matmul(rows: float, in_dim: float, out_dim: float, numerics: Numerics, chip: Chip, stack: Stack) -> Step:
    """`rows` tokens through one weight matmul of a chip; what the stack hides of its operations is in no part."""
    roof = matmul(
        rows,
        in_dim,
        out_dim,
        weight_bytes_per_element=numerics.weight_bytes * stack.weight_passes,
        activation_bytes_per_element=numerics.activation_bytes,
        compute_dtype=numerics.compute,
        chip=chip,
        stack=stack,
    )
    hidden_s = 0.0 if stack.overlap == "nothing" else min(roof.hbm_s, roof.compute_s)
    return Step(weights_s=roof.hbm_s, compute_s=roof.compute_s - hidden_s)


def _attention(model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack) -> Step:
    """Attention of one layer on one chip: causal in prefill; its sequences and its heads are spread over the chips."""
    ways = layout.kv_ways(model, work.sequences)
    copies = ways if layout.kv == "batch" else layout.gathered_ways
    shard = work.sequences / copies, model.q_heads * copies / layout.chips, model.kv_heads * copies / ways
    if work.phase == "prefill":
        roof = _prefill_attention(model, work, shard, numerics, chip, stack)
        return Step(compute_s=roof.total_s(stack.overlap))
    roof = _generate_attention(model, work, shard, numerics, chip, stack)
    return Step(kv_cache_s=roof.total_s(stack.overlap))


def _prefill_attention(
    model: Transformer, work: Work, shard: tuple[float, float, float], numerics: Numerics, chip: Chip, stack: Stack
) -> Roofline:
    """Prefill attention of a chip with `shard`: sequences, query heads and KV heads."""
    sequences, q_heads, kv_heads = shard
    return prefill_attention(
        work.query_tokens,
        work.context_tokens,
        q_heads,
        kv_heads,
        model.head_dim,
        activation_bytes_per_element=numerics.activation_bytes,
        kv_bytes_per_element=numerics.kv_bytes,
        compute_dtype=numerics.activations,
        chip=chip,
        stack=stack,
        sequences=sequences,
    )


def _generate_attention(
    model: Transformer, work: Work, shard: tuple[float, float, float], numerics: Numerics, chip: Chip, stack: Stack
) -> Roofline:
    """Generate attention of a chip with `shard`: sequences, query heads and KV heads."""
    sequences, q_heads, kv_heads = shard
    return generate_attention(
        sequences,
        work.context_tokens,
        q_heads,
        kv_heads,
        model.head_dim,
        activation_bytes_per_element=numerics.activation_bytes,
        kv_bytes_per_element=numerics.kv_bytes,
        compute_dtype=numerics.activations,
        chip=chip,
        stack=stack,
    )


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A collective over `axes`: an all-gather (or reduce-scatter) of `moved_bytes`, or an all-to-all of them."""

    moved_bytes: float
    axes: tuple[Links, ...]
    all_to_all: bool = False
    crosses_nodes: bool = False


def _block_transfers(
    block: Block, model: Transformer, rows: float, layout: Layout, numerics: Numerics
) -> Iterator[_Transfer]:
    """Collectives of one block, in bytes of one group. T rows, X parts of D, Y parts of F (arXiv:2211.05102, 3.2).

    all-gather in and reduce-scatter out     T * D / X               over the hidden axes
    reduce-scatter and all-gather between    T * out / Y, T * in / Y  over the feature axes
    to batch-sharded attention and back      T * (Q + KV), T * Q     all-to-all over both
    the layer's weights                      P / (X * Y)             over the gathered axes
    """
    element = rows * numerics.activation_bytes
    residual = _Transfer(element * model.d_model / layout.feature_ways, layout.hidden, crosses_nodes=True)
    yield residual
    yield residual
    yield _Transfer(element * block.out_width / layout.hidden_ways, layout.feature)
    yield _Transfer(element * block.in_width / layout.hidden_ways, layout.feature)
    stationary = (*layout.feature, *layout.hidden)
    if block.attends and layout.kv == "batch":
        yield _Transfer(element * (model.q_width + model.kv_width), stationary, all_to_all=True)
        yield _Transfer(element * model.q_width, stationary, all_to_all=True)
    stored = block.parameters * numerics.weight_bytes / (layout.hidden_ways * layout.feature_ways)
    yield _Transfer(stored, layout.gathered)


def _transfers(transfers: Iterable[_Transfer], layout: Layout, chip: Chip, stack: Stack) -> Step:
    """Seconds of collectives, hops and launches apart from bytes."""
    bytes_s = hops_s = 0.0
    for transfer in transfers:
        axes = tuple(axis for axis in transfer.axes if axis.size > 1)
        if axes:
            price = all_to_all_s if transfer.all_to_all else all_gather_s
            total_s = price(transfer.moved_bytes, axes, chip, stack)
            waiting_s = stack.collective_launch_s + _hops_s(total_s, axes, chip, stack)
            hops_s += waiting_s
            bytes_s += max(0.0, total_s - waiting_s)
        if layout.nodes > 1 and transfer.crosses_nodes:
            hops_s += stack.network_call_s
            bytes_s += _network_s(transfer.moved_bytes, layout, chip, stack)
    return Step(collective_bytes_s=bytes_s, collective_latency_s=hops_s)


def _hops_s(total_s: float, axes: Sequence[Links], chip: Chip, stack: Stack) -> float:
    """The share of the hops in a collective of `total_s`; of a maximum all or nothing."""
    waiting_s = latency_s(axes, chip, stack)
    if stack.latency == "sum" or stack.collective_launch_s + waiting_s >= total_s:
        return waiting_s
    return 0.0


def _network_s(moved_bytes: float, layout: Layout, chip: Chip, stack: Stack) -> float:
    """Seconds between nodes: each chip carries its node's share, V / local * (nodes - 1) / nodes / W_network."""
    rate = layout.network_bytes_per_s if layout.network_bytes_per_s is not None else chip.dcn_bytes_per_s
    if rate is None:
        raise ValueError(f"{chip.name} has no rate between nodes; give the layout network_bytes_per_s")
    local = layout.hidden_ways // layout.nodes
    return moved_bytes / local * (1 - 1 / layout.nodes) / (rate * stack.network_efficiency)
