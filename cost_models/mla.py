"""Multi-head latent attention: one latent vector per token instead of keys and values of every head.

The cache holds `latent` + `rope` elements per token and layer, whatever the heads. Absorbed, the projections back to
keys and values move to the queries and outputs, and each head attends to the latent itself: few bytes, more operations.
Expanded, keys and values are made of the latent first, which is cheaper for a prompt (DeepSeek-V2, arXiv 2405.04434
§ 2.1).
"""

from dataclasses import dataclass

from cost_models.chips import Chip
from cost_models.dtypes import array_bytes
from cost_models.matmul import compute_s, hbm_s
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack


@dataclass(frozen=True, slots=True)
class Latent:
    """Sizes of latent attention: the latent and shared rotary part cached, and what a head makes of them."""

    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int

    @property
    def cached_dim(self) -> int:
        """Elements cached per token and layer."""
        return self.latent_dim + self.rope_dim

    def head_parameters(self, q_heads: float) -> float:
        """Weights that make keys and values of the latent, in all heads of the chip: N * c * (d_nope + d_v)."""
        return q_heads * self.latent_dim * (self.nope_dim + self.value_dim)


def latent_cache_bytes(tokens: int, layers: int, latent: Latent, dtype: str) -> int:
    """Bytes of the cache: S * L * (c + d_rope) * b_kv; there is no head axis that could be sharded."""
    return array_bytes(tokens * layers * latent.cached_dim, dtype)


def absorbed_attention(
    sequences: float,
    context_tokens: float,
    q_heads: float,
    latent: Latent,
    *,
    activation_bytes_per_element: float,
    weight_bytes_per_element: float,
    kv_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    query_tokens: float = 1,
) -> Roofline:
    """Roofline of T `query_tokens` of each sequence attending to S cached latents, with the projections moved outside.

    flops = 2 * B * T * S * N * (2 * c + d_rope) + 2 * B * T * N * c * (d_nope + d_v)
    bytes = b_kv * B * S * (c + d_rope) + b_a * B * T * N * (2 * c + d_rope) + b_w * N * c * (d_nope + d_v)
    """
    queries = sequences * query_tokens
    scored = q_heads * (2 * latent.latent_dim + latent.rope_dim)
    parameters = latent.head_parameters(q_heads)
    flops = 2 * queries * context_tokens * scored + 2 * queries * parameters
    moved_bytes = kv_bytes_per_element * sequences * context_tokens * latent.cached_dim
    moved_bytes += activation_bytes_per_element * queries * scored + weight_bytes_per_element * parameters
    return Roofline(compute_s(flops, compute_dtype, chip, stack), hbm_s(moved_bytes, chip, stack))


def expanded_attention(
    query_tokens: float,
    kv_tokens: float,
    q_heads: float,
    latent: Latent,
    *,
    activation_bytes_per_element: float,
    weight_bytes_per_element: float,
    kv_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    causal: bool = True,
    sequences: float = 1,
) -> Roofline:
    """Roofline of T query tokens, the last of S, attending to keys and values made of S latents and kept in HBM.

    flops = 2 * B * S * N * c * (d_nope + d_v) + 2 * B * pairs * N * (d_nope + d_rope + d_v)
    bytes = b_kv * B * S * (c + d_rope), then N heads' keys and values written and read, queries in and outputs out
    """
    pairs = query_tokens * kv_tokens - (query_tokens * query_tokens / 2 if causal else 0)
    query_dim, made_dim = latent.nope_dim + latent.rope_dim, latent.nope_dim + latent.value_dim
    parameters = latent.head_parameters(q_heads)
    flops = 2 * sequences * (kv_tokens * parameters + pairs * q_heads * (query_dim + latent.value_dim))
    activations = sequences * q_heads * (2 * kv_tokens * made_dim + query_tokens * (query_dim + latent.value_dim))
    moved_bytes = kv_bytes_per_element * sequences * kv_tokens * latent.cached_dim
    moved_bytes += activation_bytes_per_element * activations + weight_bytes_per_element * parameters
    return Roofline(compute_s(flops, compute_dtype, chip, stack), hbm_s(moved_bytes, chip, stack))
