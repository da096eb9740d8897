"""Bytes per chip of everything a plan keeps in HBM, by block, as the rendered package allocates it."""

from math import ceil

from planner.problem.chunks import steps_of
from planner.problem.costs import LOGIT_BYTES
from planner.problem.routed import expert_columns, routed
from planner.problem.rules import GenerateRules, PrefillRules, Rules, Ways, common, padded_width, prompt_axes, without
from planner.problem.sizes import Sizes

NORM_BYTES = 4
PREFILL_LIVE_RESIDUALS = 4


def attention_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """The projections of all layers on one chip, with their scales."""
    heads, width = sizes.heads(rules, ways), sizes.d_model / ways(rules.d_model)
    local = heads.q_local, heads.kv_local, width
    elements = sum(each.elements(*local) for each in sizes.matrices)
    scales = sum(each.scales(*local) for each in sizes.matrices)
    return ceil(sizes.layers * (elements * sizes.weight_bytes + scales * sizes.scale_bytes))


def mlp_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """w_in and w_down of all dense MLPs on one chip, with their scales."""
    width, found = sizes.d_model / ways(rules.d_model), 0.0
    for each in sizes.mlps:
        columns = padded_width(each.d_ff, ways(rules.d_ff)) / ways(rules.d_ff)
        elements, scales = (sizes.inputs + 1) * columns * width, sizes.inputs * columns + width
        found += each.layers * (elements * sizes.weight_bytes + scales * sizes.scale_bytes)
    return ceil(found)


def experts_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """The chip's experts of all sparse layers, with their scales, and the router."""
    width, columns = sizes.d_model / ways(rules.d_model), expert_columns(rules, rules, sizes, ways)
    experts = sizes.experts.experts / ways(rules.experts)
    elements = experts * (sizes.inputs + 1) * columns * width + sizes.experts.experts * width
    scales = experts * (sizes.inputs * columns + width)
    return ceil(sizes.sparse_layers * (elements * sizes.weight_bytes + scales * sizes.scale_bytes))


def vocab_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """The embedding, the head where it is not tied, and the norms (whole on every chip)."""
    rows = sizes.padded_vocab(ways(rules.vocab)) / ways(rules.vocab)
    tables = 1 if sizes.tied else 2
    norms = (2 * sizes.layers + 1) * sizes.d_model * NORM_BYTES
    return ceil(tables * rows * (sizes.d_model * sizes.weight_bytes + sizes.scale_bytes) + norms)


def kv_cache_bytes(rules: GenerateRules, batch: int, context: int, page_tokens: int, sizes: Sizes, ways: Ways) -> int:
    """The paged cache on one chip: the pages of its slots and one scratch page, for every layer.

    A layer with a window keeps the pages of its window, and one more, since the window may start inside one.
    """
    slots = batch // ways(rules.rows + rules.batch)
    page = sizes.page_bytes(sizes.heads(rules, ways).kv_local, page_tokens, bool(rules.kv_tokens))
    held = 0
    for kind in sizes.kinds:
        pages = ceil(context / page_tokens)
        if kind.window is not None:
            pages = min(pages, ceil(kind.window / page_tokens) + 1)
        held += kind.layers * (slots * ceil(pages / ways(rules.kv_tokens)) + 1)
    return ceil(held * page)


def prefill_attention_bytes(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    sizes: Sizes,
    ways: Ways,
    prompts: int = 1,
    chunk: int | None = None,
) -> int:
    """What prefill holds for attention: what all layers cache, q and o, one layer's keys, values, gathered weights.

    What is cached is that of the chip's own prompts, whole: a chunk attends to its prefix there, and latents are
    expanded of it.
    """
    heads, steps = sizes.heads(stored, ways), steps_of(tokens, chunk)
    q_heads, kv_heads = heads.q_padded // ways(rules.q_heads), heads.kv_padded // ways(rules.kv_heads)
    own, whole = without(rules.tokens, rules.q_heads), prompts * steps.tokens
    apart = prompts / ways(prompt_axes(own, prompts, ways))
    kept = apart * sizes.attended(steps.read) * sizes.stored_token(kv_heads) * sizes.prefilled_bytes
    live = prefill_live(q_heads, kv_heads, whole / ways(own), apart * steps.read, sizes) * sizes.activation_bytes
    gathered = 0.0
    if without(stored.q_heads + stored.d_model, rules.q_heads + rules.d_model):
        width = sizes.d_model / ways(rules.d_model)
        gathered = sum(each.elements(q_heads, kv_heads, width) for each in sizes.matrices) * sizes.weight_bytes
    return ceil(kept + live + gathered)


def prefill_live(q_heads: int, kv_heads: int, rows: float, read: float, sizes: Sizes) -> float:
    """Elements of queries and outputs of `rows`, and of keys and values; latents make those of all tokens `read`."""
    latent = sizes.latent
    if latent is None:
        return 2 * rows * (q_heads + kv_heads) * sizes.head_dim
    made = latent.query_latent_dim + latent.cached_dim + q_heads * (latent.query_head_dim + latent.value_dim)
    return rows * made + read * q_heads * latent.made_dim


def prefill_mlp_bytes(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    sizes: Sizes,
    ways: Ways,
    prompts: int = 1,
    chunk: int | None = None,
) -> int:
    """What prefill holds for an MLP: gate, up and hidden rows, one layer's gathered weights, and the residual stream,
    which is counted with the experts where there are some."""
    width = sizes.d_model / ways(rules.d_model)
    columns = max(padded_width(each.d_ff, ways(stored.d_ff)) / ways(rules.d_ff) for each in sizes.mlps)
    rows = prompts * steps_of(tokens, chunk).tokens / ways(without(rules.tokens, common(rules.tokens, rules.d_ff)))
    residuals = 0 if sizes.mixture else PREFILL_LIVE_RESIDUALS
    live = rows * ((sizes.inputs + 1) * columns + residuals * width) * sizes.activation_bytes
    gathered = 0.0
    if without(stored.d_ff + stored.d_model, rules.d_ff + rules.d_model):
        gathered = (sizes.inputs + 1) * columns * width * sizes.weight_bytes
    return ceil(live + gathered)


def prefill_experts_bytes(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    sizes: Sizes,
    ways: Ways,
    prompts: int = 1,
    chunk: int | None = None,
) -> int:
    """What prefill holds for experts: rows of the busiest in and out, gate, up and hidden, one layer's gathered
    weights, the residual stream."""
    width, columns = sizes.d_model / ways(rules.d_model), expert_columns(stored, rules, sizes, ways)
    has = routed(rules.tokens, rules, prompts * steps_of(tokens, chunk).tokens, sizes, ways)
    live = has.rows * ((sizes.inputs + 1) * columns + 2 * width) + has.gathered * PREFILL_LIVE_RESIDUALS * width
    gathered = 0.0
    if without(stored.experts + stored.expert_ff + stored.d_model, rules.experts + rules.expert_ff + rules.d_model):
        experts = sizes.experts.experts / ways(rules.experts)
        gathered = experts * (sizes.inputs + 1) * columns * width * sizes.weight_bytes
    return ceil(live * sizes.activation_bytes + gathered)


def prefill_vocab_bytes(tokens: int, sizes: Sizes, prompts: int = 1, chunk: int | None = None) -> int:
    """The looked-up rows of a step before they are cut: every chip holds all of them for a moment."""
    return ceil(prompts * steps_of(tokens, chunk).tokens * sizes.d_model * sizes.activation_bytes)


def logits_bytes(rules: GenerateRules, batch: int, sizes: Sizes, ways: Ways) -> int:
    """Float32 logits of one generate step of `batch` rows on one chip."""
    rows = batch / ways(without(rules.rows, rules.vocab))
    return ceil(rows * sizes.padded_vocab(ways(rules.vocab)) / ways(rules.vocab) * LOGIT_BYTES)


def block_weights_bytes(block: str, rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """The weights of one block on one chip."""
    by_block = {
        "attention": attention_weights_bytes,
        "mlp": mlp_weights_bytes,
        "experts": experts_weights_bytes,
        "vocab": vocab_weights_bytes,
    }
    return by_block[block](rules, sizes, ways)


def weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """All weights of one chip, stored once."""
    return sum(block_weights_bytes(name, rules, sizes, ways) for name in sizes.blocks)


def copies_bytes(rules: Rules, sizes: Sizes, ways: Ways) -> int:
    """The second copies of weights on one chip."""
    return sum(block_weights_bytes(name, stored, sizes, ways) for name, stored in rules.copies.items())


def prefill_bytes(
    rules: Rules, tokens: int, sizes: Sizes, ways: Ways, prompts: int = 1, chunk: int | None = None
) -> int:
    """What prefill holds on one chip besides weights."""
    by_block = {
        "attention": prefill_attention_bytes,
        "mlp": prefill_mlp_bytes,
        "experts": prefill_experts_bytes,
    }
    held = sum(
        by_block[name](rules.read(name), rules.prefill, tokens, sizes, ways, prompts, chunk)
        for name in sizes.blocks
        if name in by_block
    )
    return held + prefill_vocab_bytes(tokens, sizes, prompts, chunk)
