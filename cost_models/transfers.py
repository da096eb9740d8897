"""Collectives of one block of a layer under a layout, and their seconds, hops and launches apart from bytes.

T rows, X parts of D, Y parts of F (arXiv:2211.05102, section 3.2); bytes are those of one group:

    all-gather in and reduce-scatter out       T D/X                  over the hidden axes
    reduce-scatter and all-gather between      T out/Y, T in/Y        over the feature axes
    cache by batch: all-to-all there and back  T (Q + KV), T O        over both
    cache by tokens: gather, merge             T (Q + KV), T (O + 2 N) over both: a maximum and a sum beside each head
    tokens to their experts and back           T_all D/X min(k, Z)    all-to-all over the expert axes, Z ways
    the layer's weights                        P / (X Y)              over the gathered axes
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cost_models.blocks import AttentionKind, Block
from cost_models.chips import Chip
from cost_models.collectives import all_gather_s, all_to_all_s, latency_s
from cost_models.devices import phases
from cost_models.moe import imbalance, ragged_fraction
from cost_models.networks import Level, call_s, tree_gather_s
from cost_models.placement import Layout, block_weight_bytes
from cost_models.stacks import Stack
from cost_models.torus import Links, merge_axes
from cost_models.transformer import Numerics, Transformer, Work


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective over `axes`: an all-gather (or reduce-scatter) of `moved_bytes`, or an all-to-all of them."""

    moved_bytes: float
    axes: tuple[Links, ...]
    all_to_all: bool = False
    crosses_nodes: bool = False


def block_transfers(
    block: Block, model: Transformer, work: Work, layout: Layout, numerics: Numerics, between: tuple[float, float]
) -> Iterator[Transfer]:
    """Collectives of one block; `between` are elements out of D and back to D on one chip, all rows together."""
    rows = work.tokens / layout.token_ways
    residual = rows * model.d_model / layout.feature_ways * numerics.activation_bytes
    yield Transfer(residual, layout.hidden, crosses_nodes=True)
    yield Transfer(residual, layout.hidden, crosses_nodes=True)
    if layout.feature:
        yield from (Transfer(elements * numerics.activation_bytes, layout.feature) for elements in between)
    if block.attention:
        yield from _to_cache(block.attention, model, work, layout, rows * numerics.activation_bytes)
    elif layout.experts:
        yield from _to_experts(block, model, work, layout, numerics)
    if layout.gathered:
        yield Transfer(block_weight_bytes(block, layout, numerics), layout.gathered)


def _to_cache(
    kind: AttentionKind, model: Transformer, work: Work, layout: Layout, row_bytes: float
) -> Iterator[Transfer]:
    """Queries, with new keys and values, to where the cache is, and outputs back; a latent is on every chip already."""
    queries, outputs = model.q_width, model.o_width
    made = 0 if model.latent or not kind.own_cache else model.kv_width
    if model.latent and work.phase == "generate":
        queries, outputs = model.q_heads * model.latent.cached_dim, model.q_heads * model.latent.latent_dim
    if layout.kv == "batch":
        yield Transfer(row_bytes * (queries + made), layout.stationary, all_to_all=True)
        yield Transfer(row_bytes * outputs, layout.stationary, all_to_all=True)
    elif layout.kv == "sequence":
        yield Transfer(row_bytes * (queries + made), layout.stationary)
        yield Transfer(row_bytes * (outputs + 2 * model.q_heads), layout.stationary)


def _to_experts(block: Block, model: Transformer, work: Work, layout: Layout, numerics: Numerics) -> Iterator[Transfer]:
    """Tokens of a group to the chips of their experts, and back, as much as the busiest chip takes in."""
    routed = next((each for each in block.projections if each.experts > 1), None)
    if routed is None:
        return
    tokens, ways = work.tokens / layout.gathered_ways, layout.expert_ways // layout.whole_experts
    copies = ways * ragged_fraction(routed.experts_per_token / layout.whole_experts, ways)
    copies *= imbalance(tokens, routed.experts_per_token, layout.expert_ways)
    moved_bytes = tokens * model.d_model / layout.feature_ways * numerics.activation_bytes * copies
    yield Transfer(moved_bytes, layout.experts, all_to_all=True)
    yield Transfer(moved_bytes, layout.experts, all_to_all=True)


def transfers_s(transfers: Iterable[Transfer], layout: Layout, chip: Chip, stack: Stack) -> tuple[float, float]:
    """Seconds of the bytes of `transfers`, and of their hops and launches."""
    bytes_s = hops_s = 0.0
    for transfer in transfers:
        for moved_bytes, axes, links in _phases(transfer, layout, chip):
            price = all_to_all_s if transfer.all_to_all else all_gather_s
            total_s = price(moved_bytes, axes, links, stack)
            waiting_s = stack.collective_launch_s + _hops_s(total_s, axes, links, stack)
            hops_s += waiting_s
            bytes_s += max(0.0, total_s - waiting_s)
        if layout.nodes > 1 and transfer.crosses_nodes:
            total_s, waiting_s = _network_s(transfer.moved_bytes, layout, chip, stack)
            hops_s += waiting_s
            bytes_s += total_s - waiting_s
    return bytes_s, hops_s


def _phases(transfer: Transfer, layout: Layout, chip: Chip) -> Iterable[tuple[float, Sequence[Links], Chip]]:
    """What a transfer does over each kind of links; nothing where it has one chip."""
    axes = _merged(transfer.axes, layout)
    return phases(transfer.moved_bytes, axes, chip, over_n=transfer.all_to_all) if axes else ()


def _merged(axes: tuple[Links, ...], layout: Layout) -> tuple[Links, ...]:
    """The links that `axes` use: those of more than one chip, pieces of one torus axis joined."""
    used = tuple(axis for axis in axes if axis.size > 1)
    if layout.slice_ is None or len({axis.torus_axis for axis in used}) == len(used):
        return used
    return merge_axes(used, layout.slice_)


def _hops_s(total_s: float, axes: Sequence[Links], chip: Chip, stack: Stack) -> float:
    """The share of the hops in a collective of `total_s`; of a maximum all or nothing."""
    waiting_s = latency_s(axes, chip, stack)
    if stack.latency == "sum" or stack.collective_launch_s + waiting_s >= total_s:
        return waiting_s
    return 0.0


def _network_s(moved_bytes: float, layout: Layout, chip: Chip, stack: Stack) -> tuple[float, float]:
    """Seconds between nodes, each chip with its share of its node's bytes, and those of them whatever the bytes."""
    rate = layout.network_bytes_per_s if layout.network_bytes_per_s is not None else chip.dcn_bytes_per_s
    if rate is None:
        raise ValueError(f"{chip.name} has no rate between nodes; give the layout network_bytes_per_s")
    level = Level("network", layout.nodes, rate * (layout.hidden_ways // layout.nodes))
    return tree_gather_s(moved_bytes, (level,), stack), call_s((level,), stack)
