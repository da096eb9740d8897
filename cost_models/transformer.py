"""What a transformer asks of its chips: shapes of a decoder, the work of one step, its dtypes.

Layers L, model width D, MLP width F, query heads N, KV heads K, head size H, vocabulary V, as in counting.py.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cost_models.blocks import (
    AttentionKind,
    Block,
    Projection,
    attention_projections,
    latent_projections,
    mlp_projections,
    sparse_projections,
)
from cost_models.dtypes import bytes_per_element
from cost_models.mla import Latent
from cost_models.moe import Mixture

Phase = Literal["prefill", "generate"]


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder: `layers` layers and an output head; pad the heads before where the program pads them."""

    layers: int
    d_model: int
    d_ff: int
    """Width of dense MLPs."""
    q_heads: int
    kv_heads: int
    head_dim: int
    """Of latent attention that of a query, the rotary part with it."""
    vocab: int = 0
    """0 leaves the output head out."""
    gated: bool = True
    parallel_block: bool = False
    """Attention and MLP read the same input and are summed once, so that a layer is one block instead of two."""
    mixture: Mixture | None = None
    """Experts of all layers but the first dense ones; None where every MLP is dense."""
    latent: Latent | None = None
    """Sizes of latent attention; None caches keys and values of every KV head."""
    attention: tuple[AttentionKind, ...] = ()
    """Layers that attend alike; none given, every layer sees all tokens and has its own cache."""

    def __post_init__(self) -> None:
        if self.attention and sum(each.layers for each in self.attention) != self.layers:
            raise ValueError(f"{self.attention} do not add up to {self.layers} layers")
        if self.mixture and (self.parallel_block or self.mixture.dense_layers > self.layers):
            raise ValueError("a mixture needs serial blocks and no more dense layers than there are layers")
        if self.latent and any(each.window is not None for each in self.attention):
            raise ValueError("latent attention with a window is not priced: give its layers none")
        if self.latent and self.latent.query_head_dim != self.head_dim:
            raise ValueError(f"head_dim is {self.head_dim}, queries of {self.latent} have {self.latent.query_head_dim}")

    @property
    def q_width(self) -> int:
        """Elements of one token's queries: N * H."""
        return self.q_heads * self.head_dim

    @property
    def o_width(self) -> int:
        """Elements of one token's attention outputs: N * H, of latent attention N * d_v."""
        return self.q_heads * (self.latent.value_dim if self.latent else self.head_dim)

    @property
    def kv_width(self) -> int:
        """Elements cached for one token in one layer: 2 * K * H, or those of the latent."""
        return self.latent.cached_dim if self.latent else 2 * self.kv_heads * self.head_dim

    @property
    def cut_heads(self) -> int:
        """Heads by which the cache may be cut: K, or the one latent that all heads share."""
        return 1 if self.latent else self.kv_heads

    @property
    def attention_kinds(self) -> tuple[AttentionKind, ...]:
        """Layers that attend alike."""
        return self.attention or (AttentionKind(self.layers),)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The parts of layers that read the residual stream once and add to it once."""
        return _blocks(self)

    @property
    def parameters(self) -> int:
        """Weights of all layers and of the output head."""
        return sum(block.layers * block.parameters for block in self.blocks) + self.vocab * self.d_model

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets: k experts of E and all of the rest."""
        return sum(block.layers * block.active_parameters for block in self.blocks) + self.vocab * self.d_model


@lru_cache(maxsize=256)
def _blocks(model: Transformer) -> tuple[Block, ...]:
    attention = tuple(Block(kind.layers, _attention(model, kind), kind) for kind in model.attention_kinds)
    sparse_layers = model.layers - model.mixture.dense_layers if model.mixture else 0
    dense = Block(model.layers - sparse_layers, mlp_projections(model.d_model, model.d_ff, gated=model.gated))
    if model.parallel_block:
        return tuple(each.beside(dense) for each in attention)
    mlps = [dense]
    if model.mixture:
        mlps.append(Block(sparse_layers, sparse_projections(model.d_model, model.mixture, gated=model.gated)))
    return *attention, *(each for each in mlps if each.layers)


def _attention(model: Transformer, kind: AttentionKind) -> tuple[Projection, ...]:
    if model.latent:
        return latent_projections(model.d_model, model.q_heads, model.latent, own_cache=kind.own_cache)
    return attention_projections(model.d_model, model.q_width, model.kv_width if kind.own_cache else 0)


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

    @property
    def logit_rows(self) -> float:
        """Tokens whose successors are asked for: every one in generate, the last of each prompt in prefill."""
        return self.tokens if self.phase == "generate" else self.sequences


def prefill(sequences: float, prompt_tokens: float, cached_tokens: float = 0) -> Work:
    """The step that reads `prompt_tokens` of each sequence after `cached_tokens` that are in the cache."""
    return Work("prefill", sequences, prompt_tokens, prompt_tokens + cached_tokens)


def generate(sequences: float, context_tokens: float, query_tokens: float = 1) -> Work:
    """The step that adds a token to each sequence, or verifies `query_tokens`, attending to `context_tokens`."""
    return Work("generate", sequences, query_tokens, context_tokens)


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes of a step."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv_cache: str = "bf16"
    compute: str = "bf16"
    experts: str | None = None
    """Of the weights of routed experts; None where they are as all weights."""

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return bytes_per_element(self.weights)

    def projection_bytes(self, projection: Projection) -> float:
        """Bytes of one weight of `projection`."""
        return bytes_per_element(self.experts) if self.experts and projection.experts > 1 else self.weight_bytes

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return bytes_per_element(self.activations)

    @property
    def kv_bytes(self) -> float:
        """Bytes of one element of the KV cache."""
        return bytes_per_element(self.kv_cache)
