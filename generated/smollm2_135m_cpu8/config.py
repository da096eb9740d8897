# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Sizes and dtypes of smollm2-135m-cpu8, and of a tiny model under the same rules."""

from dataclasses import dataclass, replace

import jax.numpy as jnp

WEIGHTS = jnp.float32
ACTIVATIONS = jnp.float32
KV_CACHE = jnp.float32
NORM_EPS = 1e-05
ROPE_THETA = 100000.0
CANDIDATES = 63  # best tokens a chip offers to the sampler, and the sampler's choice among all of them
TOLD = 20  # likeliest tokens of which the sampler tells the log probabilities
QUERY_BLOCK = 128  # queries that prefill scores against all keys at a time
KEY_BLOCK = 64  # tokens of a slot that generate reads at a time
SLOT_BLOCK = 4  # slots that it reads together
PREDICTED_PREFILL_TOKENS = 128
PREDICTED_PREFILL_MS = 177
PREDICTED_GENERATE_MS = 91
PREDICTED_TTFT_MS = 268  # this and the next: means at the planned load
PREDICTED_TPOT_MS = 102


@dataclass(frozen=True)
class Config:
    """Sizes of a model and its service; `*_stored` count the zero padding that makes a dimension divide."""

    layers: int
    d_model: int
    d_ff: int
    d_ff_stored: int
    q_heads: int
    q_heads_stored: int
    kv_heads: int
    kv_heads_stored: int
    kv_shards: int
    head_dim: int
    vocab: int
    vocab_stored: int
    batch: int
    context: int
    page_tokens: int
    prompts: int
    buckets: tuple[int, ...]
    read_q_heads_stored: int  # these are of the arrays that prefill reads
    read_kv_heads: tuple[int, ...]  # KV head at each place; those beyond `kv_heads` are zeros
    read_kv_shards: int
    read_d_ff_stored: int

    @property
    def pages_per_slot(self) -> int:
        """Pages that hold one sequence of `context` tokens."""
        return -(-self.context // self.page_tokens)

    def bucket(self, tokens: int) -> int:
        """The padded length at which a prompt of `tokens` is read; ValueError when it is too long."""
        longest = min(self.buckets[-1], self.context - 1)
        if not 1 <= tokens <= longest:
            raise ValueError(f"the prompt has {tokens} tokens; this plan reads 1 to {longest}")
        return next(bucket for bucket in self.buckets if bucket >= tokens)

    @property
    def for_prefill(self) -> "Config":
        """The sizes of the arrays that prefill reads."""
        return replace(
            self,
            q_heads_stored=self.read_q_heads_stored,
            kv_heads_stored=len(self.read_kv_heads),
            kv_shards=self.read_kv_shards,
            d_ff_stored=self.read_d_ff_stored,
        )


MODEL = Config(
    layers=30,
    d_model=576,
    d_ff=1536,
    d_ff_stored=1536,
    q_heads=9,
    q_heads_stored=12,
    kv_heads=3,
    kv_heads_stored=4,
    kv_shards=4,
    head_dim=64,
    vocab=49152,
    vocab_stored=49152,
    batch=8,
    context=768,
    page_tokens=16,
    prompts=1,
    buckets=(16, 32, 64, 128, 256, 512, 768),
    read_q_heads_stored=12,
    read_kv_heads=(0, 1, 2, 3),
    read_kv_shards=4,
    read_d_ff_stored=1536,
)


TINY = Config(
    layers=2,
    d_model=64,
    d_ff=128,
    d_ff_stored=128,
    q_heads=9,
    q_heads_stored=12,
    kv_heads=3,
    kv_heads_stored=4,
    kv_shards=4,
    head_dim=64,
    vocab=512,
    vocab_stored=512,
    batch=8,
    context=256,
    page_tokens=16,
    prompts=1,
    buckets=(16, 32, 64, 128, 256),
    read_q_heads_stored=12,
    read_kv_heads=(0, 1, 2, 3),
    read_kv_shards=4,
    read_d_ff_stored=128,
)
