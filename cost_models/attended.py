"""Attention of one layer on one chip of a layout: which sequences, heads and tokens are its own, and their seconds."""

from typing import Any, NamedTuple

from cost_models.attention import generate_attention, prefill_attention
from cost_models.blocks import AttentionKind
from cost_models.chips import Chip
from cost_models.mla import absorbed_attention, expanded_attention
from cost_models.placement import Layout
from cost_models.roofline import Roofline
from cost_models.stacks import Stack
from cost_models.transformer import Numerics, Transformer, Work


class Attended(NamedTuple):
    """One chip's part of attention: sequences, query heads, KV heads, and in how many parts their tokens are."""

    sequences: float
    q_heads: float
    kv_heads: float
    token_ways: int


def attended(model: Transformer, work: Work, layout: Layout) -> Attended:
    """Sequences and heads are spread over the chips; a cache split along its tokens leaves every head on each."""
    if layout.kv == "sequence":
        shared = layout.chips // layout.token_ways
        return Attended(work.sequences / layout.token_ways, model.q_heads, model.kv_heads, shared)
    ways = layout.kv_ways(model, work.sequences)
    copies = ways if layout.kv == "batch" else layout.token_ways
    kv_heads = model.cut_heads * copies / ways
    return Attended(work.sequences / copies, model.q_heads * copies / layout.chips, kv_heads, 1)


def attention_s(
    kind: AttentionKind,
    model: Transformer,
    work: Work,
    layout: Layout,
    numerics: Numerics,
    chip: Chip,
    stack: Stack,
) -> float:
    """Seconds of attention: causal in prefill, where latents are expanded; absorbed in generate."""
    part = attended(model, work, layout)
    common = {
        "activation_bytes_per_element": numerics.activation_bytes,
        "compute_dtype": numerics.activations,
        "chip": chip,
        "stack": stack,
    }
    if work.phase == "generate":
        return _generate(kind, model, work, part, numerics, common).total_s(stack.overlap)
    if layout.kv == "sequence":
        raise ValueError('a cache split along its tokens is priced in generate alone: give prefill kv="heads"')
    return _prefill(kind, model, work, part, numerics, common).total_s(stack.overlap)


def _generate(
    kind: AttentionKind, model: Transformer, work: Work, part: Attended, numerics: Numerics, common: dict[str, Any]
) -> Roofline:
    """Every part of a cache that is split along its tokens holds as many of a window."""
    context = kind.context(work.context_tokens) / part.token_ways
    common = {**common, "kv_bytes_per_element": numerics.kv_bytes, "query_tokens": work.query_tokens}
    if model.latent:
        return absorbed_attention(part.sequences, context, part.q_heads, model.latent, **common)
    return generate_attention(part.sequences, context, part.q_heads, part.kv_heads, model.head_dim, **common)


def _prefill(
    kind: AttentionKind, model: Transformer, work: Work, part: Attended, numerics: Numerics, common: dict[str, Any]
) -> Roofline:
    tokens = work.query_tokens, work.context_tokens
    common = {**common, "sequences": part.sequences}
    if model.latent:
        return expanded_attention(*tokens, part.q_heads, model.latent, **common)
    return prefill_attention(
        *tokens,
        part.q_heads,
        part.kv_heads,
        model.head_dim,
        kv_bytes_per_element=numerics.kv_bytes,
        window=kind.window,
        **common,
    )
