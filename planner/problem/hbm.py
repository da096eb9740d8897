"""Bytes per chip of everything a plan keeps in HBM, by block, as the rendered package allocates it."""

from math import ceil

from planner.problem.costs import LOGIT_BYTES
from planner.problem.rules import GenerateRules, PrefillRules, Ways, common, prompt_axes, without
from planner.problem.sizes import Sizes

NORM_BYTES = 4
PREFILL_LIVE_RESIDUALS = 4


def attention_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """w_q, w_kv and w_o of all layers on one chip, with their scales."""
    heads = sizes.heads(rules, ways)
    width = sizes.d_model / ways(rules.d_model)
    rows = (2 * heads.q_local + 2 * heads.kv_local) * sizes.head_dim
    scales = (heads.q_local + 2 * heads.kv_local) * sizes.head_dim + width
    return ceil(sizes.layers * (rows * width * sizes.weight_bytes + scales * sizes.scale_bytes))


def mlp_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """w_in and w_down of all layers on one chip, with their scales."""
    width = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(rules.d_ff)) / ways(rules.d_ff)
    scales = 2 * d_ff + width
    return ceil(sizes.layers * (3 * d_ff * width * sizes.weight_bytes + scales * sizes.scale_bytes))


def vocab_weights_bytes(rules: GenerateRules, sizes: Sizes, ways: Ways) -> int:
    """The embedding, the head where it is not tied, and the norms (whole on every chip)."""
    rows = sizes.padded_vocab(ways(rules.vocab)) / ways(rules.vocab)
    tables = 1 if sizes.tied else 2
    norms = (2 * sizes.layers + 1) * sizes.d_model * NORM_BYTES
    return ceil(tables * rows * (sizes.d_model * sizes.weight_bytes + sizes.scale_bytes) + norms)


def kv_cache_bytes(rules: GenerateRules, batch: int, context: int, page_tokens: int, sizes: Sizes, ways: Ways) -> int:
    """The paged cache on one chip: the pages of its slots and one scratch page, for every layer."""
    heads = sizes.heads(rules, ways)
    slots = batch // ways(rules.rows + rules.batch)
    pages = slots * ceil(ceil(context / page_tokens) / ways(rules.kv_tokens)) + 1
    page = page_tokens * sizes.stored_kv_rows(heads.kv_local) * sizes.stored_head_dim * sizes.kv_bytes
    return ceil(sizes.layers * pages * page)


def prefill_attention_bytes(
    stored: GenerateRules, rules: PrefillRules, tokens: int, sizes: Sizes, ways: Ways, prompts: int = 1
) -> int:
    """What prefill holds for attention: keys and values of all layers, q and o, one layer's gathered weights."""
    heads = sizes.heads(stored, ways)
    q_heads, kv_heads = heads.q_padded // ways(rules.q_heads), heads.kv_padded // ways(rules.kv_heads)
    own, whole = without(rules.tokens, rules.q_heads), prompts * tokens
    held = whole / ways(prompt_axes(own, prompts, ways))
    kept = sizes.layers * held * sizes.stored_kv_rows(kv_heads) * sizes.stored_head_dim * sizes.kv_bytes
    live = 2 * whole / ways(own) * (q_heads + kv_heads) * sizes.head_dim * sizes.activation_bytes
    gathered = 0.0
    if without(stored.q_heads + stored.d_model, rules.q_heads + rules.d_model):
        width = sizes.d_model / ways(rules.d_model)
        gathered = (2 * q_heads + 2 * kv_heads) * sizes.head_dim * width * sizes.weight_bytes
    return ceil(kept + live + gathered)


def prefill_mlp_bytes(
    stored: GenerateRules, rules: PrefillRules, tokens: int, sizes: Sizes, ways: Ways, prompts: int = 1
) -> int:
    """What prefill holds for the MLP: gate, up and hidden rows, one layer's gathered weights, the residual stream."""
    d_ff = sizes.padded_d_ff(ways(stored.d_ff)) / ways(rules.d_ff)
    width = sizes.d_model / ways(rules.d_model)
    rows = prompts * tokens / ways(without(rules.tokens, common(rules.tokens, rules.d_ff)))
    live = rows * (3 * d_ff + PREFILL_LIVE_RESIDUALS * width) * sizes.activation_bytes
    gathered = 0.0
    if without(stored.d_ff + stored.d_model, rules.d_ff + rules.d_model):
        gathered = 3 * d_ff * width * sizes.weight_bytes
    return ceil(live + gathered)


def prefill_vocab_bytes(tokens: int, sizes: Sizes, prompts: int = 1) -> int:
    """The looked-up prompts before they are cut: every chip holds all their rows for a moment."""
    return ceil(prompts * tokens * sizes.d_model * sizes.activation_bytes)


def logits_bytes(rules: GenerateRules, batch: int, sizes: Sizes, ways: Ways) -> int:
    """Float32 logits of one generate step on one chip."""
    rows = batch / ways(without(rules.rows, rules.vocab))
    return ceil(rows * sizes.padded_vocab(ways(rules.vocab)) / ways(rules.vocab) * LOGIT_BYTES)
