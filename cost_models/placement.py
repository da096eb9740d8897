"""Where the weights, the tokens and the cache of a transformer lie on chips, and the bytes of one chip."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cost_models.blocks import Block, Projection, Role
from cost_models.torus import Links, Slice
from cost_models.transformer import Numerics, Transformer, Work

KvSharding = Literal["heads", "batch", "sequence"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the weights of one replica lie. Every chip axis is in one of four places, or the replica has one chip.

    `hidden` splits F and the heads, `feature` splits D, and over `gathered` the weights are stored in parts but
    gathered for every layer, while the tokens are split there. Over `experts` the tokens are split as well and every
    chip has its own experts and a copy of all else.

        1D weight-stationary    hidden = all axes
        2D weight-stationary    feature = X, hidden = YZ        (arXiv:2211.05102, section 3.2.2)
        weight-gathered         gathered = some or all axes     (section 3.2.3)
        expert parallelism      experts = all axes              (two all-to-alls: tokens to their experts and back)
    """

    hidden: tuple[Links, ...] = ()
    feature: tuple[Links, ...] = ()
    gathered: tuple[Links, ...] = ()
    kv: KvSharding = "heads"
    """What is cut over `hidden` and `feature`: KV heads, as far as there are, sequences, or (generate) tokens."""
    nodes: int = 1
    """Nodes over which `hidden` is spread besides its axes, joined by a network."""
    network_bytes_per_s: float | None = None
    """Rate of one chip into that network; None takes the chip's own."""
    stages: int = 1
    """Pipeline stages, each with its share of the layers."""
    micro_batch: float = 16
    """Sequences of one piece of a prefill that passes through the stages."""
    experts: tuple[Links, ...] = ()
    whole_experts: int = 1
    """Parts of `hidden` that hold different experts; the rest of it splits each expert's F."""
    slice_: Slice | None = None
    """The slice that the axes are of; needed where pieces of one torus axis meet in a collective."""

    def __post_init__(self) -> None:
        if self.hidden_ways % self.whole_experts:
            raise ValueError(f"{self.hidden_ways} ways do not make up {self.whole_experts} parts of whole experts")
        if self.nodes > 1 and self.experts:
            raise ValueError("experts over several nodes are not priced: give the layout one node")

    @property
    def hidden_ways(self) -> int:
        """Parts of F."""
        return self.nodes * _ways(self.hidden)

    @property
    def feature_ways(self) -> int:
        """Parts of D."""
        return _ways(self.feature)

    @property
    def gathered_ways(self) -> int:
        """Parts in which weights are stored beyond those that compute."""
        return _ways(self.gathered)

    @property
    def token_ways(self) -> int:
        """Parts of the tokens."""
        return self.gathered_ways * _ways(self.experts)

    @property
    def expert_ways(self) -> int:
        """Chips with different experts."""
        return self.whole_experts * _ways(self.experts)

    @property
    def stationary(self) -> tuple[Links, ...]:
        """Axes over which chips share tokens."""
        return (*self.feature, *self.hidden)

    @property
    def chips(self) -> int:
        """Chips that share one layer."""
        return self.hidden_ways * self.feature_ways * self.token_ways

    def kv_ways(self, model: Transformer, sequences: float) -> float:
        """Parts into which the KV cache that one step reads is split; the other chips hold copies."""
        if self.kv == "batch":
            return min(sequences, self.chips)
        if self.kv == "sequence":
            return self.chips
        return self.token_ways * min(model.cut_heads, self.chips // self.token_ways)

    def _role_ways(self, routed: bool) -> dict[Role, int]:
        """Parts of a side by its role; of routed experts the rest of `hidden` splits F."""
        hidden = self.hidden_ways // self.whole_experts if routed else self.hidden_ways
        return {"model": self.feature_ways, "hidden": hidden, "whole": 1}

    def local_dims(self, projection: Projection) -> tuple[float, float]:
        """Width in and out of one chip's part of `projection`, once gathered."""
        ways = self._role_ways(projection.experts > 1)
        return projection.in_dim / ways[projection.in_role], projection.out_dim / ways[projection.out_role]

    def local_parameters(self, projection: Projection) -> float:
        """Weights of one chip's part of `projection`, once gathered."""
        in_dim, out_dim = self.local_dims(projection)
        return in_dim * out_dim * (projection.experts / self.expert_ways if projection.experts > 1 else 1)


def weight_stationary_2d(axes: Sequence[Links], kv: KvSharding = "heads") -> Iterator[Layout]:
    """The 2D layouts in which one axis splits D and the others split F; a single axis gives the 1D layout."""
    if len(axes) < 2:
        yield Layout(hidden=tuple(axes), kv=kv)
        return
    for place, axis in enumerate(axes):
        yield Layout(feature=(axis,), hidden=(*axes[:place], *axes[place + 1 :]), kv=kv)


def weight_gathered(axes: Sequence[Links], sequences: float, kv: KvSharding = "heads") -> Iterator[Layout]:
    """The layouts that gather weights over the first one, two, ... axes, as long as every chip there has a sequence."""
    for count in range(1, len(axes) + 1):
        if _ways(axes[:count]) <= sequences:
            yield Layout(gathered=tuple(axes[:count]), hidden=tuple(axes[count:]), kv=kv)


def block_weight_bytes(block: Block, layout: Layout, numerics: Numerics) -> float:
    """Bytes of one chip's weights of one layer of `block`, once gathered."""
    return sum(layout.local_parameters(each) * numerics.projection_bytes(each) for each in block.projections)


def weight_bytes_per_chip(model: Transformer, layout: Layout, numerics: Numerics) -> float:
    """Bytes of weights that one chip stores."""
    layers = sum(block.layers * block_weight_bytes(block, layout, numerics) for block in model.blocks)
    head = model.vocab * model.d_model * numerics.weight_bytes / layout.chips
    return (layers / layout.gathered_ways + head) / layout.stages


def kv_bytes_per_chip(model: Transformer, work: Work, layout: Layout, numerics: Numerics) -> float:
    """Bytes of KV cache that one chip stores for the context of the step; a window holds no more than it sees."""
    kept = sum(each.layers * each.context(work.context_tokens) for each in model.attention_kinds if each.own_cache)
    ways = layout.kv_ways(model, work.sequences) * layout.stages
    return work.sequences * kept * model.kv_width * numerics.kv_bytes / ways


def _ways(axes: Sequence[Links]) -> int:
    ways = 1
    for axis in axes:
        ways *= axis.size
    return ways
