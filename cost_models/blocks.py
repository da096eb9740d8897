"""What a layer is made of: weight matrices by the sides that a layout cuts, and the ways in which layers attend.

Model width D, MLP width F, query heads N, KV heads K, head size H, as in counting.py; latent sizes as in mla.py.
"""

from dataclasses import dataclass
from typing import Literal

from cost_models.mla import Latent
from cost_models.moe import Mixture

Role = Literal["model", "hidden", "whole"]
"""Which axes of a layout cut a side of a weight: those of D, those of F and the heads, or none."""


@dataclass(frozen=True, slots=True)
class Projection:
    """One weight of `in_dim` x `out_dim`, or `experts` of them of which a token uses `experts_per_token`."""

    in_dim: int
    out_dim: int
    in_role: Role = "model"
    out_role: Role = "hidden"
    experts: int = 1
    experts_per_token: int = 1
    of_cache: bool = False
    """In prefill it is applied to every token of the context, cached ones too."""

    @property
    def parameters(self) -> int:
        """Weights of all experts."""
        return self.in_dim * self.out_dim * self.experts

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets."""
        return self.in_dim * self.out_dim * self.experts_per_token


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """`layers` of a model that attend alike: to all tokens or the last `window`, with a cache of their own or not."""

    layers: int
    window: int | None = None
    own_cache: bool = True
    """False where a layer reads the keys and values of an earlier one, and so has no weights that make them."""

    def context(self, tokens: float) -> float:
        """Tokens of a context that one new token attends to, and that a cache needs to hold."""
        return tokens if self.window is None else min(tokens, self.window)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of `layers` layers that reads the residual stream once and adds to it once."""

    layers: int
    projections: tuple[Projection, ...]
    attention: AttentionKind | None = None

    @property
    def parameters(self) -> int:
        """Weights of one layer."""
        return sum(each.parameters for each in self.projections)

    @property
    def active_parameters(self) -> int:
        """Weights of one layer that one token meets."""
        return sum(each.active_parameters for each in self.projections)

    def beside(self, other: "Block") -> "Block":
        """Both in one block: they read the same input and their outputs are summed at once."""
        return Block(self.layers, merged(self.projections + other.projections), self.attention or other.attention)


def attention_projections(d_model: int, q_width: int, kv_width: int) -> tuple[Projection, ...]:
    """Queries, keys and values out of D, N * H + 2 * K * H wide, and outputs back from N * H."""
    return Projection(d_model, q_width + kv_width), Projection(q_width, d_model, "hidden", "model")


def latent_projections(d_model: int, q_heads: int, latent: Latent, *, own_cache: bool) -> tuple[Projection, ...]:
    """Latents of queries and cache out of D, whole on every chip; heads out of latents; outputs back from N * d_v.

    D * (c_q + c + d_rope), c_q * N * (d_nope + d_rope), c * N * (d_nope + d_v), N * d_v * D (arXiv 2405.04434 § 2.1)
    """
    q_width = q_heads * latent.query_head_dim
    made = latent.cached_dim if own_cache else 0
    made_of = latent.query_latent_dim
    queries = Projection(made_of, q_width, "whole", "hidden") if made_of else Projection(d_model, q_width)
    down = Projection(d_model, made_of + made, "model", "whole")
    heads = Projection(latent.latent_dim, q_heads * latent.made_dim, "whole", "hidden", of_cache=True)
    return down, queries, heads, Projection(q_heads * latent.value_dim, d_model, "hidden", "model")


def mlp_projections(
    d_model: int, d_ff: int, *, gated: bool, experts: int = 1, experts_per_token: int = 1
) -> tuple[Projection, ...]:
    """F, and with a gate as much again, out of D, and back."""
    return (
        Projection(d_model, (1 + gated) * d_ff, "model", "hidden", experts, experts_per_token),
        Projection(d_ff, d_model, "hidden", "model", experts, experts_per_token),
    )


def sparse_projections(d_model: int, mixture: Mixture, *, gated: bool) -> tuple[Projection, ...]:
    """The router, whole on every chip, the routed experts, and the shared ones as one MLP."""
    routed = mlp_projections(
        d_model, mixture.d_ff, gated=gated, experts=mixture.experts, experts_per_token=mixture.experts_per_token
    )
    shared = mlp_projections(d_model, mixture.shared_d_ff, gated=gated) if mixture.shared_d_ff else ()
    return Projection(d_model, mixture.experts, "model", "whole"), *routed, *shared


def merged(projections: tuple[Projection, ...]) -> tuple[Projection, ...]:
    """Dense projections of one side, out of D or back, as one: a program concatenates them."""
    into = [each for each in projections if (each.in_role, each.out_role, each.experts) == ("model", "hidden", 1)]
    back = [each for each in projections if (each.in_role, each.out_role, each.experts) == ("hidden", "model", 1)]
    others = tuple(each for each in projections if each not in into and each not in back)
    one_in = Projection(into[0].in_dim, sum(each.out_dim for each in into))
    one_out = Projection(sum(each.in_dim for each in back), back[0].out_dim, "hidden", "model")
    return one_in, *others, one_out
