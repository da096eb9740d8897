"""Rooflines of attention on one chip, scores never written to HBM (a flash kernel), keys and values shared by groups.

Sequences B, query tokens T, key and value tokens S, query heads N, KV heads K, head size H; those of one chip's shard.

    flops = 4 * B * pairs * N * H     pairs = T * S, or the unmasked ones
    bytes = 2 * b_a * B * T * N * H + 2 * b_kv * B * S * K * H     (scaling-book, inference.md § What about attention)
"""

from cost_models.chips import Chip
from cost_models.matmul import compute_s, hbm_s
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack


def prefill_attention(
    query_tokens: float,
    kv_tokens: float,
    q_heads: float,
    kv_heads: float,
    head_dim: int,
    *,
    activation_bytes_per_element: float,
    kv_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    causal: bool = True,
    sequences: float = 1,
    window: float | None = None,
) -> Roofline:
    """Roofline of `query_tokens` T attending to `kv_tokens` S of the same prompt.

    With `causal` the kernel skips masked blocks and the queries are the last T of the S tokens: pairs = T * S - T^2/2.
    That is half of them when T = S, and the load of the last, slowest chip when a prompt is cut in pieces or when the
    first S - T tokens are a cached prefix. With a `window` no token attends to more than that many. The kernel has an
    efficiency of its own, `Stack.attention_efficiency`.
    """
    masked = query_tokens * query_tokens / 2 if causal else 0
    pairs = query_tokens * kv_tokens - masked
    if window is not None:
        pairs = min(pairs, causal_pairs_in_window(query_tokens, kv_tokens, window))
        kv_tokens = min(kv_tokens, query_tokens + window)
    flops = 4 * sequences * pairs * q_heads * head_dim
    moved_bytes = _moved_bytes(
        sequences * query_tokens * q_heads * head_dim,
        sequences * kv_tokens * kv_heads * head_dim,
        activation_bytes_per_element,
        kv_bytes_per_element,
    )
    math_s = compute_s(flops, compute_dtype, chip) / stack.attention_efficiency
    return Roofline(math_s, hbm_s(moved_bytes, chip, stack))


def generate_attention(
    sequences: float,
    context_tokens: float,
    q_heads: float,
    kv_heads: float,
    head_dim: int,
    *,
    activation_bytes_per_element: float,
    kv_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    page_tokens: int = 1,
    query_tokens: float = 1,
    window: float | None = None,
) -> Roofline:
    """Roofline of one new token of each of `sequences` B attending to `context_tokens` S, read in whole pages.

    T = 1: bytes per operation do not fall with B, so HBM binds (scaling-book, inference.md § What about attention).
    A step that verifies drafts has T `query_tokens` and reads the cache once. A `window` limits S, and reads one page
    more than it fills when it starts inside one. A stack may have a least time per cached token, a time per sequence,
    and kernels that read the keys of a group again for its query heads.
    """
    read_tokens = -(-context_tokens // page_tokens) * page_tokens
    if window is not None and window + query_tokens - 1 < context_tokens:
        context_tokens = window + query_tokens - 1
        read_tokens = min(read_tokens, (-(-context_tokens // page_tokens) + (page_tokens > 1)) * page_tokens)
    flops = 4 * sequences * query_tokens * context_tokens * q_heads * head_dim
    reads = 1 + stack.kv_group_reads * max(0, q_heads / kv_heads - 1)
    moved_bytes = _moved_bytes(
        sequences * query_tokens * q_heads * head_dim,
        sequences * read_tokens * kv_heads * head_dim * reads,
        activation_bytes_per_element,
        kv_bytes_per_element,
    )
    read_s = cache_read_s(moved_bytes, sequences * context_tokens, chip, stack)
    return Roofline(compute_s(flops, compute_dtype, chip, stack), read_s, fixed_s=sequences * stack.sequence_layer_s)


def cache_read_s(moved_bytes: float, cached_tokens: float, chip: Chip, stack: Stack) -> float:
    """Seconds to read `moved_bytes` of a cache that holds `cached_tokens`: at least the stack's time for each token."""
    return max(hbm_s(moved_bytes, chip, stack), cached_tokens * stack.cached_token_layer_s)


def causal_pairs_in_window(query_tokens: float, kv_tokens: float, window: float) -> float:
    """Pairs of the last T of S tokens with the at most W before each: the integral of min(position, W).

    T * S - T^2 / 2 when W >= S, T * W when the first query already sees W; between them a triangle up to W and the rest
    """
    first = kv_tokens - query_tokens
    rising = min(max(window - first, 0), query_tokens)
    return rising * (first + rising / 2) + (query_tokens - rising) * window


def _moved_bytes(query_elements: float, key_elements: float, activation_bytes: float, kv_bytes: float) -> float:
    """Queries in and outputs out, keys and values in."""
    return 2 * activation_bytes * query_elements + 2 * kv_bytes * key_elements
