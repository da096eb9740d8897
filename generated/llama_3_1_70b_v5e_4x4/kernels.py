# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""TPU kernels: attention over a paged cache whose tokens may lie on several chips or have scales, and its update.

Each page is [page_tokens, 2 * kv_heads * head_dim]: a token's k0 v0 k1 v1 ... side by side. Scales, where values are
int8, are [2 * kv_heads, page_tokens], one for each head of each token.
"""

from math import gcd

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention

RAGGED_PAGE = 128  # tokens, or the largest part of it that divides
RAGGED_QUERIES_PER_BLOCK = 128
RAGGED_KEYS_PER_BLOCK = 512
KERNEL_VMEM_BYTES = 67108864


def ragged_attention(q: jax.Array, kv: jax.Array, starts: jax.Array, first: jax.Array, *, tokens: int) -> jax.Array:
    """Causal attention [rows, q_heads, head_dim] of as many queries of each sequence, at `first`, `first` + 1, ...

    By jax's kernel for paged caches. `kv` [any tokens, 2 * kv_heads, head_dim] is read as pages: the keys and values of
    a sequence are the `tokens` from `starts` on.
    """
    page = gcd(RAGGED_PAGE, tokens)
    sequences, each = starts.shape[0], q.shape[0] // starts.shape[0]
    return ragged_paged_attention(
        q,
        kv.reshape(-1, page, *kv.shape[-2:]),
        jnp.full(sequences, first + each, jnp.int32),
        starts[:, None] // page + jnp.arange(tokens // page, dtype=jnp.int32),
        jnp.arange(sequences + 1, dtype=jnp.int32) * each,
        jnp.full(1, sequences, jnp.int32),
        sm_scale=q.shape[2] ** -0.5,
        num_kv_pages_per_block=min(max(1, RAGGED_KEYS_PER_BLOCK // page), tokens // page),
        num_queries_per_block=min(RAGGED_QUERIES_PER_BLOCK, each),
        vmem_limit_bytes=KERNEL_VMEM_BYTES,
    )
