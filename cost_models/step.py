"""Seconds of one transformer step under a layout, kept by cause. One code path for every stack, `book` included.

    T_step       = sum of layers * T_block + L * t_layer + T_logits + t_step
    T_block      = T_local + max(0, T_comm - ov * T_local)
    T_local      = T_matmul + T_attention + T_elementwise
    T_matmul     = max or sum of 2 * (rows + m0) * P / (e_m * C) and (weights + rows) / (e_h * W)
    T_attention  = KV bytes / (e_h * W) in generate, 4 * pairs * N * H / (e_att * C) in prefill
    T_comm       = per collective: launch + t_hop * hops + bytes / (e_i * bandwidth)

Experts: rows and weights are those of the busiest chip. Collectives: transfers.py. Structure and constants:
docs/cost-models.md.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import NamedTuple

from cost_models.attended import attention_s
from cost_models.attention import causal_pairs_in_window
from cost_models.blocks import AttentionKind, Block, Projection
from cost_models.chips import Chip
from cost_models.matmul import compute_s, elementwise, hbm_s, matmul
from cost_models.moe import busiest_load, experts_touched
from cost_models.placement import Layout
from cost_models.stacks import BOOK, Stack
from cost_models.transfers import block_transfers, transfers_s
from cost_models.transformer import Numerics, Transformer, Work


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
        return Step(*(mine + others for mine, others in zip(_parts(self), _parts(other), strict=True)))

    def __mul__(self, count: float) -> "Step":
        """The same step run `count` times."""
        return Step(*(part * count for part in _parts(self)))

    __rmul__ = __mul__


_parts = attrgetter(*(each.name for each in fields(Step)))
"""The seconds of a step, in the order of its fields."""


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
    """Bare roofline of a step: all chips at peak, perfectly split, nothing between them; of experts those touched.

    max(F / (N * C), (weights + KV cache) / (N * W_hbm))
    """
    head = model.vocab * model.d_model
    flops = 2 * work.tokens * (model.active_parameters - head) + 2 * work.logit_rows * head
    pairs = sum(each.layers * _pairs(work, each) for each in model.attention_kinds)
    flops += 2 * work.sequences * pairs * (model.q_width + model.o_width)
    moved = head * numerics.weight_bytes + sum(
        block.layers * _touched(each, work.tokens) * each.in_dim * each.out_dim * numerics.projection_bytes(each)
        for block in model.blocks
        for each in block.projections
    )
    if work.phase == "generate":
        read = sum(each.layers * each.context(work.context_tokens) for each in model.attention_kinds)
        moved += work.sequences * read * model.kv_width * numerics.kv_bytes
    return max(compute_s(flops, numerics.compute, chip), hbm_s(moved, chip)) / (layout.chips * layout.stages)


def _pairs(work: Work, kind: AttentionKind) -> float:
    """Query and cached tokens of one sequence that meet in a layer."""
    if work.phase == "generate":
        return work.query_tokens * kind.context(work.context_tokens)
    pairs = work.query_tokens * work.context_tokens - work.query_tokens**2 / 2
    if kind.window is None:
        return pairs
    return min(pairs, causal_pairs_in_window(work.query_tokens, work.context_tokens, kind.window))


def _touched(projection: Projection, tokens: float) -> float:
    """Experts that `tokens` meet; the one weight of a dense projection."""
    if projection.experts == 1:
        return 1.0
    return experts_touched(tokens, projection.experts, projection.experts_per_token)


def _pass(model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack) -> Step:
    """One pass through all layers and the output head."""
    found = Step(fixed_s=stack.step_s + model.layers * stack.layer_s)
    for block in model.blocks:
        found += block.layers * _block(block, model, work, layout, numerics, chip, stack)
    head = _Shard(work.logit_rows, 1, model.d_model, model.vocab / layout.chips)
    return found + _matmul(Projection(model.d_model, model.vocab), head, numerics, chip, stack)


def _block(
    block: Block, model: Transformer, work: Work, layout: Layout, numerics: Numerics, chip: Chip, stack: Stack
) -> Step:
    """One block of one layer on one chip: its matmuls, attention, what is between them, and its exposed collectives."""
    local = Step()
    out_of_model = into_model = 0.0
    for projection in block.projections:
        shard = _shard(projection, work, layout)
        local += _matmul(projection, shard, numerics, chip, stack)
        if projection.in_role == "model":
            out_of_model += shard.rows * shard.out_dim
        else:
            into_model += shard.rows * shard.in_dim
    residual = work.tokens / layout.token_ways * model.d_model / layout.feature_ways
    local += Step(elementwise_s=elementwise(1, residual + into_model, numerics.activation_bytes, chip, stack).hbm_s)
    if block.attention:
        seconds = attention_s(block.attention, model, work, layout, numerics, chip, stack)
        local += Step(compute_s=seconds) if work.phase == "prefill" else Step(kv_cache_s=seconds)
    between = out_of_model, into_model
    bytes_s, hops_s = transfers_s(block_transfers(block, model, work, layout, numerics, between), layout, chip, stack)
    shown = stack.exposed_fraction(local.local_s, bytes_s + hops_s)
    return local + Step(collective_bytes_s=bytes_s * shown, collective_latency_s=hops_s * shown)


class _Shard(NamedTuple):
    """One chip's part of a projection: rows, weights that they are spread over, their width in and out."""

    rows: float
    experts: float
    in_dim: float
    out_dim: float


def _shard(projection: Projection, work: Work, layout: Layout) -> _Shard:
    """The part of the busiest chip."""
    dims = layout.local_dims(projection)
    if projection.experts > 1:
        tokens = work.tokens / layout.gathered_ways
        load = busiest_load(tokens, projection.experts, projection.experts_per_token, layout.expert_ways)
        return _Shard(*load, *dims)
    whole_context = projection.of_cache and work.phase == "prefill"
    tokens = work.sequences * work.context_tokens if whole_context else work.tokens
    return _Shard(tokens / layout.token_ways, 1.0, *dims)


def _matmul(projection: Projection, shard: _Shard, numerics: Numerics, chip: Chip, stack: Stack) -> Step:
    """Rows of a chip through its part of `projection`; what the stack hides of its operations is in no part."""
    roof = matmul(
        shard.rows,
        shard.in_dim,
        shard.out_dim,
        weight_bytes_per_element=numerics.projection_bytes(projection) * stack.weight_passes,
        activation_bytes_per_element=numerics.activation_bytes,
        compute_dtype=numerics.compute,
        chip=chip,
        stack=stack,
        experts=shard.experts,
    )
    hidden_s = 0.0 if stack.overlap == "nothing" else min(roof.hbm_s, roof.compute_s)
    return Step(weights_s=roof.hbm_s, compute_s=roof.compute_s - hidden_s)
