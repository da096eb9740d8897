"""The sizes of one model as the cost functions read them: plain numbers, bytes per element included."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from cost_models.blocks import AttentionKind
from cost_models.chips import chip
from cost_models.dtypes import bytes_per_element
from cost_models.mla import Latent
from cost_models.moe import Mixture
from planner.problem.kv_layout import INT8_BYTES, SCALE_BYTES, TPU_LANES, KvForm, kv_form, stored_rows
from planner.problem.rules import GenerateRules, Heads, Ways, padded_heads, padded_width, without

if TYPE_CHECKING:
    from planner.spec import Spec
    from planner.spec.model import Model

CANDIDATES, TOLD = 63, 20
"""Best tokens that a chip offers, and likeliest ones of which sampling tells the log probabilities."""


class Mlps(NamedTuple):
    """`layers` with a dense MLP of width `d_ff`: all of them, the first ones of a mixture, or its shared experts."""

    dimension: str
    """What its width is called where it is padded."""
    layers: int
    d_ff: int


class Matrix(NamedTuple):
    """A weight of attention: `whole` x `each`, with d_model for `whole` and heads times `each` where it has them."""

    name: str
    each: int
    heads: Literal["q", "kv"] | None = None
    whole: int | None = None
    """None: d_model."""
    out_is_d_model: bool = False

    def columns(self, q_heads: float, kv_heads: float) -> float:
        """Elements of the side that heads cut."""
        return self.each * (q_heads if self.heads == "q" else kv_heads if self.heads == "kv" else 1)

    def elements(self, q_heads: float, kv_heads: float, d_model: float) -> float:
        """Weights of so many heads, with a part of d_model."""
        return self.columns(q_heads, kv_heads) * (d_model if self.whole is None else self.whole)

    def scales(self, q_heads: float, kv_heads: float, d_model: float) -> float:
        """Scales of a quantised one: one for each output."""
        return d_model if self.out_is_d_model else self.columns(q_heads, kv_heads)


@dataclass(frozen=True)
class Sizes:
    """Model sizes in elements, dtypes in bytes per element; `scale_bytes` is 0 when weights are not quantised.

    Latent attention has one KV head, the latent that all query heads share.
    """

    layers: int
    d_model: int
    d_ff: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    weight_bytes: float
    scale_bytes: int
    activation_bytes: float
    kv_bytes: float
    compute_dtype: str
    lanes: int = 1
    """Width to which the minor dimension of a kept array is padded in HBM: 128 on a TPU."""
    gated: bool = True
    mixture: Mixture | None = None
    latent: Latent | None = None
    limited: AttentionKind | None = None
    """Layers that look back over a window or a chunk; the others attend to everything."""

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """The blocks of a step, in its order, the vocabulary last."""
        names = ["attention"]
        if self.mlps:
            names.append("mlp")
        if self.mixture:
            names.append("experts")
        return (*names, "vocab")

    @cached_property
    def mlps(self) -> tuple[Mlps, ...]:
        """The dense MLPs, by width."""
        if self.mixture is None:
            return (Mlps("d_ff", self.layers, self.d_ff),)
        found = (
            Mlps("d_ff", self.mixture.dense_layers, self.d_ff),
            Mlps("shared_d_ff", self.sparse_layers, self.mixture.shared_d_ff),
        )
        return tuple(each for each in found if each.layers and each.d_ff)

    @property
    def sparse_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.mixture.dense_layers if self.mixture else 0

    @property
    def inputs(self) -> int:
        """Matrices out of d_model of an MLP: gate and up, or up alone."""
        return 1 + self.gated

    @cached_property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Layers that attend alike."""
        if self.limited is None:
            return (AttentionKind(self.layers),)
        full = AttentionKind(self.layers - self.limited.layers)
        return (full, self.limited) if full.layers else (self.limited,)

    def attended(self, tokens: float) -> float:
        """Cached tokens of all layers together that one new token attends to, `tokens` after the first."""
        return sum(kind.layers * kind.context(tokens) for kind in self.kinds)

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The weights of one layer's attention, in the order in which they are used."""
        head, latent = self.head_dim, self.latent
        if latent is None:
            out = Matrix("w_o", head, "q", out_is_d_model=True)
            return Matrix("w_q", head, "q"), Matrix("w_kv", 2 * head, "kv"), out
        made_of = latent.query_latent_dim or None
        return (
            Matrix("w_latent", latent.query_latent_dim + latent.cached_dim),
            Matrix("w_q", latent.query_head_dim, "q", made_of),
            Matrix("w_kv", latent.made_dim, "q", latent.latent_dim),
            Matrix("w_o", latent.value_dim, "q", out_is_d_model=True),
        )

    def q_made(self, q_heads: float) -> float:
        """Elements of a row that queries take on leaving d_model: those of heads, or of the latent of queries."""
        if self.latent is None:
            return q_heads * self.head_dim
        return self.latent.query_latent_dim or q_heads * self.latent.query_head_dim

    def kv_made(self, kv_heads: float) -> float:
        """Elements of a row that keys and values take on leaving d_model: those of heads, or of the latent."""
        return 2 * kv_heads * self.head_dim if self.latent is None else self.latent.cached_dim

    @property
    def asked_dim(self) -> int:
        """Elements of one head's query where it meets the cache."""
        return self.head_dim if self.latent is None else self.latent.cached_dim

    @property
    def answered_dim(self) -> int:
        """Elements of one head's output where it leaves the cache."""
        return self.head_dim if self.latent is None else self.latent.latent_dim

    @property
    def out_dim(self) -> int:
        """Elements of one head that w_o reads."""
        return self.head_dim if self.latent is None else self.latent.value_dim

    @property
    def cached_dim(self) -> int:
        """Elements that one token leaves in one layer's cache, unpadded, all KV heads together."""
        return 2 * self.kv_heads * self.head_dim if self.latent is None else self.latent.cached_dim

    def kv_form(self, kv_heads: int, cut_tokens: bool) -> KvForm:
        """The form in which a chip keeps `kv_heads` heads."""
        return kv_form(kv_heads, self.head_dim, self.kv_bytes, self.activation_bytes, self.lanes, cut_tokens)

    def page_bytes(self, kv_heads: int, page_tokens: int, cut_tokens: bool) -> float:
        """Bytes of a page of one layer with `kv_heads` heads, padding and scales included."""
        if self.latent is not None:
            return page_tokens * self.stored_token(kv_heads) * self.kv_bytes
        return self.kv_form(kv_heads, cut_tokens).page_bytes(page_tokens)

    @property
    def prefilled_bytes(self) -> float:
        """Bytes of an element of a prompt's keys and values before they are inserted: there they are quantised."""
        return self.activation_bytes if self.kv_bytes == INT8_BYTES and self.latent is None else self.kv_bytes

    def stored_token(self, kv_heads: int) -> int:
        """Elements that one token takes of `kv_heads` heads apart, padding included."""
        if self.latent is not None:
            return padded_width(self.latent.cached_dim, self.lanes)
        return self.stored_kv_rows(kv_heads) * self.stored_head_dim

    @property
    def stored_head_dim(self) -> int:
        """Elements that a head of the KV cache takes."""
        return padded_width(self.head_dim, self.lanes)

    def kv_read_bytes(self, kv_heads: int, cut_tokens: bool) -> float:
        """Bytes of HBM that are read for one element of the KV cache, lane padding and scales included."""
        if self.latent is not None:
            return self.kv_bytes * self.stored_token(1) / self.cached_dim
        form, heads = self.kv_form(kv_heads, cut_tokens), 2 * kv_heads
        read = form.width / (heads * self.head_dim) if form.flat else form.width / self.head_dim
        return self.kv_bytes * read + (SCALE_BYTES / self.head_dim if form.scale_rows else 0)

    @property
    def least_kv_read_bytes(self) -> float:
        """As `kv_read_bytes`, however heads and tokens are cut."""
        if self.latent is not None:
            return self.kv_read_bytes(1, False)
        apart, together = (self.kv_form(1, cut) for cut in (False, True))
        return self.kv_bytes if apart.flat or together.flat else self.kv_read_bytes(1, False)

    def stored_kv_rows(self, kv_heads: int) -> int:
        """Rows that keys and values of `kv_heads` heads take in a page: on a TPU a power of two, or a multiple of 8."""
        return stored_rows(2 * kv_heads, self.lanes)

    def heads(self, rules: GenerateRules, ways: Ways) -> Heads:
        """Stored heads under a generate table."""
        return padded_heads(
            self.q_heads, self.kv_heads, ways(rules.kv_heads), ways(without(rules.q_heads, rules.kv_heads))
        )

    @property
    def experts(self) -> Mixture:
        """The experts of a model that has some."""
        assert self.mixture is not None, "a block of experts is built for mixtures only"
        return self.mixture

    def padded_vocab(self, ways: int) -> int:
        """Vocabulary rows as stored when they are cut `ways`."""
        return padded_width(self.vocab, ways)


def sizes_of(spec: "Spec") -> Sizes:
    """The sizes in a spec, as its chip stores them."""
    model = spec.model
    quantised = model.weights.chosen == "int8"
    return Sizes(
        layers=model.layers,
        d_model=model.d_model,
        d_ff=model.d_ff,
        q_heads=model.q_heads,
        kv_heads=1 if model.mla else model.kv_heads,
        head_dim=model.head_dim,
        vocab=model.vocab,
        tied=model.tied_embeddings,
        weight_bytes=bytes_per_element(model.weights.chosen),
        scale_bytes=SCALE_BYTES if quantised else 0,
        activation_bytes=bytes_per_element(model.activations.dtype),
        kv_bytes=bytes_per_element(model.kv_cache.chosen),
        compute_dtype=model.activations.dtype,
        lanes=TPU_LANES if chip(spec.hardware.chip).kind == "tpu" else 1,
        gated=model.gated_mlp,
        mixture=mixture_of(model),
        latent=latent_of(model),
        limited=limited_of(model),
    )


def mixture_of(model: "Model") -> Mixture | None:
    """The experts of a model; the shared ones are one MLP beside them."""
    moe = model.moe
    if moe is None:
        return None
    return Mixture(moe.experts, moe.experts_per_token, moe.d_ff, moe.shared_experts * moe.d_ff, moe.dense_layers)


def latent_of(model: "Model") -> Latent | None:
    """The latent attention of a model."""
    mla = model.mla
    if mla is None:
        return None
    return Latent(mla.kv_rank, mla.rope_head_dim, mla.nope_head_dim, mla.v_head_dim, mla.q_rank or 0)


def limited_of(model: "Model") -> AttentionKind | None:
    """The layers that look back over so many tokens; a chunk is taken for a window of its length."""
    window = model.sliding_window
    if window is None:
        return None
    full = model.layers // window.full_every if window.full_every else 0
    return AttentionKind(model.layers - full, window.tokens) if full < model.layers else None
