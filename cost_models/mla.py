"""Multi-head latent attention: one latent vector per token instead of keys and values of every head.

The cache holds `latent` + `rope` elements per token and layer, whatever the heads. Absorbed, the projections back to
keys and values move to the queries and outputs, and each head attends to the latent itself: few bytes, more operations.
Expanded, keys and values are made of the latent first, which is cheaper for a prompt (DeepSeek-V2, arXiv 2405.04434
§ 2.1).
"""

from dataclasses import dataclass

from cost_models.attention import cache_read_s
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
    query_latent_dim: int = 0
    """Width of the latent that queries are made of; 0 makes them of the model width."""

    @property
    def cached_dim(self) -> int:
        """Elements cached per token and layer."""
        return self.latent_dim + self.rope_dim

    @property
    def query_head_dim(self) -> int:
        """Elements of one query of one head."""
        return self.nope_dim + self.rope_dim

    @property
    def made_dim(self) -> int:
        """Elements of keys and values that one head makes of a latent, the rotary part left out."""
        return self.nope_dim + self.value_dim


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
    kv_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    query_tokens: float = 1,
) -> Roofline:
    """Roofline of T `query_tokens` of each sequence attending to S cached latents, without the projections.

    flops = 2 * B * T * S * N * (2 * c + d_rope)
    bytes = b_kv * B * S * (c + d_rope) + b_a * B * T * N * (2 * c + d_rope)
    """
    queries = sequences * query_tokens
    scored = q_heads * (2 * latent.latent_dim + latent.rope_dim)
    moved_bytes = kv_bytes_per_element * sequences * context_tokens * latent.cached_dim
    moved_bytes += activation_bytes_per_element * queries * scored
    read_s = cache_read_s(moved_bytes, sequences * context_tokens, chip, stack)
    flops = 2 * queries * context_tokens * scored
    return Roofline(compute_s(flops, compute_dtype, chip, stack), read_s, fixed_s=sequences * stack.sequence_layer_s)


def expanded_attention(
    query_tokens: float,
    kv_tokens: float,
    q_heads: float,
    latent: Latent,
    *,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    causal: bool = True,
    sequences: float = 1,
) -> Roofline:
    """Roofline of T query tokens, the last of S, attending to S keys and values made of latents before.

    flops = 2 * B * pairs * N * (d_nope + d_rope + d_v)
    bytes = b_a * B * N * (S * (d_nope + d_v) + T * (d_nope + d_rope + d_v)) + the rotary part of S, shared by heads
    """
    pairs = query_tokens * kv_tokens - (query_tokens * query_tokens / 2 if causal else 0)
    attended_dim = latent.query_head_dim + latent.value_dim
    read = q_heads * (kv_tokens * latent.made_dim + query_tokens * attended_dim)
    moved_bytes = activation_bytes_per_element * sequences * (read + kv_tokens * latent.rope_dim)
    math_s = compute_s(2 * sequences * pairs * q_heads * attended_dim, compute_dtype, chip)
    return Roofline(math_s / stack.attention_efficiency, hbm_s(moved_bytes, chip, stack))
