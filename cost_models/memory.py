"""Bytes that weights, KV cache and activations take, and what fits into HBM.

For the bytes of one chip give the sizes of its shard: nothing here divides by the chips of a mesh.
"""

import math
from collections.abc import Iterable

from cost_models.chips import Chip
from cost_models.dtypes import array_bytes, scale_bytes


def weights_bytes(elements: int, dtype: str, channels: int = 0) -> int:
    """Bytes of `elements` weights and, for a quantised dtype, of one float32 scale for each of `channels`."""
    return array_bytes(elements, dtype) + scale_bytes(channels, dtype)


def kv_cache_bytes(tokens: int, layers: int, kv_heads: int, head_dim: int, dtype: str, lanes: int = 1) -> int:
    """Bytes of keys and values of `tokens`: 2 * S * L * K * H * b_kv (scaling-book, transformers.md § KV caching).

    H is rounded up to whole `lanes`, 128 where the attention kernel needs them full. Scales are `kv_scale_bytes`.
    """
    padded_dim = -(-head_dim // lanes) * lanes
    return array_bytes(2 * tokens * layers * kv_heads * padded_dim, dtype)


def kv_scale_bytes(tokens: int, layers: int, kv_heads: int, dtype: str) -> int:
    """Bytes of the scales of a quantised cache: a float32 for the key and the value of each token, layer and head."""
    return scale_bytes(2 * tokens * layers * kv_heads, dtype)


def paged_tokens(lengths: Iterable[int], page_tokens: int) -> int:
    """Tokens that sequences of these `lengths` take, and that attention reads, in whole pages."""
    return sum(-(-length // page_tokens) * page_tokens for length in lengths)


def kv_page_bytes(page_tokens: int, kv_heads: int, head_dim: int, dtype: str, lanes: int = 1) -> int:
    """Bytes of one page of one layer: `page_tokens` keys and values of every KV head that the chip holds."""
    return kv_cache_bytes(page_tokens, 1, kv_heads, head_dim, dtype, lanes)


def activation_bytes(rows: int, width: int, dtype: str) -> int:
    """Bytes of one live activation of `rows` tokens: b_a * B * D (scaling-book, inference.md § What about memory)."""
    return array_bytes(rows * width, dtype)


def usable_hbm_bytes(chip: Chip, reserve: float) -> int:
    """HBM bytes of a chip less the fraction `reserve` that the compiler and the runtime keep."""
    return math.floor(chip.hbm_bytes * (1 - reserve))


def generate_bytes(sequences: float, sequence_bytes: float, weight_bytes: float = 0) -> float:
    """Bytes that a generate step keeps, and reads, on all chips: B * KV + P * b_w (inference.md § Theoretical)."""
    return sequences * sequence_bytes + weight_bytes


def kv_budget_bytes(chips: int, hbm_bytes: float, weight_bytes: float) -> float:
    """HBM of `chips` that the weights leave to the KV cache: N * HBM - P * b_w (applied-inference.md § topology)."""
    return chips * hbm_bytes - weight_bytes


def hbm_share(total_bytes: float, hbm_bytes: float) -> float:
    """`total_bytes` in HBMs of one chip, the number before `min_chips` rounds it up."""
    return total_bytes / hbm_bytes


def max_sequences(hbm_bytes: float, weight_bytes: float, sequence_bytes: float) -> int:
    """Sequences whose KV cache fits beside the weights: floor((HBM - P * b_w) / KV); negative when weights do not."""
    return math.floor((hbm_bytes - weight_bytes) / sequence_bytes)


def min_chips(total_bytes: float, hbm_bytes: float) -> int:
    """Chips whose HBM holds `total_bytes` that divide evenly: ceil(total / HBM)."""
    return math.ceil(hbm_share(total_bytes, hbm_bytes))
