"""What a transformer asks of its chips: shapes of a dense decoder, the work of one step, and where it is split.

Layers L, model width D, MLP width F, query heads N, KV heads K, head size H, vocabulary V, as in counting.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cost_models.counting import attention_parameters, mlp_parameters
from cost_models.dtypes import bytes_per_element
from cost_models.torus import Links

Phase = Literal["prefill", "generate"]
KvSharding = Literal["heads", "batch"]


@dataclass(frozen=True, slots=True)
class Transformer:
    """A dense decoder: `layers` equal layers and an output head; pad the heads before where the program pads them."""

    layers: int
    d_model: int
    d_ff: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int = 0
    """0 leaves the output head out."""
    gated: bool = True
    parallel_block: bool = False
    """Attention and MLP read the same input and are summed once, so that a layer is one block instead of two."""

    @property
    def q_width(self) -> int:
        """Elements of one token's queries: N * H."""
        return self.q_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of one token's keys and values: 2 * K * H."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def blocks(self) -> tuple["Block", ...]:
        """The parts of a layer that read the residual stream once and add to it once."""
        attention = Block(
            attention_parameters(self.d_model, self.q_heads, self.kv_heads, self.head_dim),
            self.q_width + self.kv_width,
            self.q_width,
            True,
        )
        mlp = Block(
            mlp_parameters(self.d_model, self.d_ff, gated=self.gated), (1 + self.gated) * self.d_ff, self.d_ff, False
        )
        return (attention + mlp,) if self.parallel_block else (attention, mlp)

    @property
    def parameters(self) -> int:
        """Weights of all layers and of the output head."""
        return self.layers * sum(block.parameters for block in self.blocks) + self.vocab * self.d_model


@dataclass(frozen=True, slots=True)
class Block:
    """Projections in, D to `out_width`, something between, and back from `in_width` to D."""

    parameters: int
    out_width: int
    in_width: int
    attends: bool

    def __add__(self, other: "Block") -> "Block":
        return Block(
            self.parameters + other.parameters,
            self.out_width + other.out_width,
            self.in_width + other.in_width,
            self.attends or other.attends,
        )


@dataclass(frozen=True, slots=True)
class Work:
    """One step of one replica: `sequences` B of `query_tokens` T new tokens that attend to `context_tokens` S."""

    phase: Phase
    sequences: float
    query_tokens: float
    context_tokens: float

    @property
    def tokens(self) -> float:
        """New tokens of the step: B * T."""
        return self.sequences * self.query_tokens


def prefill(sequences: float, prompt_tokens: float, cached_tokens: float = 0) -> Work:
    """The step that reads `prompt_tokens` of each sequence after `cached_tokens` that are in the cache."""
    return Work("prefill", sequences, prompt_tokens, prompt_tokens + cached_tokens)


def generate(sequences: float, context_tokens: float) -> Work:
    """The step that adds one token to each sequence, attending to `context_tokens`."""
    return Work("generate", sequences, 1, context_tokens)


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes of a step."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv_cache: str = "bf16"
    compute: str = "bf16"

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return bytes_per_element(self.weights)

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return bytes_per_element(self.activations)

    @property
    def kv_bytes(self) -> float:
        """Bytes of one element of the KV cache."""
        return bytes_per_element(self.kv_cache)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the weights of one replica lie. Every chip axis is in one of three places, or the replica has one chip.

    `hidden` splits F and the heads, `feature` splits D, and over `gathered` the weights are stored in parts but
    gathered for every layer, while the tokens are split there.

        1D weight-stationary    hidden = all axes
        2D weight-stationary    feature = X, hidden = YZ        (arXiv:2211.05102, section 3.2.2)
        weight-gathered         gathered = some or all axes     (section 3.2.3)
    """

    hidden: tuple[Links, ...] = ()
    feature: tuple[Links, ...] = ()
    gathered: tuple[Links, ...] = ()
    kv: KvSharding = "heads"
    nodes: int = 1
    """Nodes over which `hidden` is spread besides its axes, joined by a network."""
    network_bytes_per_s: float | None = None
    """Rate of one chip into that network; None takes the chip's own."""
    stages: int = 1
    """Pipeline stages, each with its share of the layers."""
    micro_batch: float = 16
    """Sequences of one piece of a prefill that passes through the stages."""

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
        """Parts of the tokens."""
        return _ways(self.gathered)

    @property
    def chips(self) -> int:
        """Chips that share one layer."""
        return self.hidden_ways * self.feature_ways * self.gathered_ways

    def kv_ways(self, model: Transformer, sequences: float) -> float:
        """Parts into which the KV cache that one step reads is split; the other chips hold copies."""
        if self.kv == "batch":
            return min(sequences, self.chips)
        return self.gathered_ways * min(model.kv_heads, self.chips // self.gathered_ways)


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


def weight_bytes_per_chip(model: Transformer, layout: Layout, numerics: Numerics) -> float:
    """Bytes of weights that one chip stores."""
    return model.parameters * numerics.weight_bytes / (layout.chips * layout.stages)


def kv_bytes_per_chip(model: Transformer, work: Work, layout: Layout, numerics: Numerics) -> float:
    """Bytes of KV cache that one chip stores for the context of the step."""
    token_bytes = model.layers * model.kv_width * numerics.kv_bytes
    ways = layout.kv_ways(model, work.sequences) * layout.stages
    return work.sequences * work.context_tokens * token_bytes / ways


def _ways(axes: Sequence[Links]) -> int:
    return math.prod(axis.size for axis in axes)
