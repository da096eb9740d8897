"""Attention beyond the full one: windows, cached prefixes, drafts to verify, and latent caches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.attention import causal_pairs_in_window, generate_attention, prefill_attention
from cost_models.chips import chip
from cost_models.matmul import matmul
from cost_models.memory import kv_cache_bytes
from cost_models.mla import Latent, absorbed_attention, expanded_attention, latent_cache_bytes
from cost_models.roofline import Roofline
from cost_models.speculation import break_even_acceptance, expected_tokens, speculative_tpot_s, verified_rows

V5E = chip("v5e")
ATTENTION = {"activation_bytes_per_element": 2, "kv_bytes_per_element": 2, "compute_dtype": "bf16", "chip": V5E}
EXPANDED = {key: value for key, value in ATTENTION.items() if key != "kv_bytes_per_element"}
DEEPSEEK = Latent(latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)
WITHIN_ROUNDING = 1 + 1e-9

lengths = st.integers(1, 1 << 16)
windows = st.integers(1, 1 << 16)


@given(lengths, lengths, windows)
def test_a_window_is_never_more_than_full_attention(new: int, cached: int, window: int) -> None:
    full = prefill_attention(new, new + cached, 32, 8, 128, **ATTENTION)
    local = prefill_attention(new, new + cached, 32, 8, 128, window=window, **ATTENTION)
    assert local.compute_s <= full.compute_s
    assert local.hbm_s <= full.hbm_s


@given(lengths, windows, st.integers(1, 8), st.sampled_from([1, 16, 128]))
def test_a_window_never_reads_more_of_the_cache(context: int, window: int, queries: int, page: int) -> None:
    sizes = {**ATTENTION, "page_tokens": page, "query_tokens": queries}
    full = generate_attention(8, context, 32, 8, 128, **sizes)
    local = generate_attention(8, context, 32, 8, 128, window=window, **sizes)
    assert local.compute_s <= full.compute_s
    assert local.hbm_s <= full.hbm_s


@given(lengths, lengths, windows)
def test_the_pairs_of_a_window_are_those_counted_one_by_one(new: int, cached: int, window: int) -> None:
    new, cached, window = new % 64 + 1, cached % 64, window % 64 + 1
    counted = sum(min(position + 0.5, window) for position in range(cached, cached + new))
    assert causal_pairs_in_window(new, new + cached, window) == pytest.approx(counted)


def test_a_wide_window_is_no_window() -> None:
    full, wide = (prefill_attention(512, 2048, 32, 8, 128, window=each, **ATTENTION) for each in (None, 2048))
    assert wide == full


@given(lengths, lengths)
def test_a_cached_prefix_is_never_slower_than_computing_it(new: int, cached: int) -> None:
    whole = prefill_attention(new + cached, new + cached, 32, 8, 128, **ATTENTION)
    rest = prefill_attention(new, new + cached, 32, 8, 128, **ATTENTION)
    assert rest.compute_s <= whole.compute_s * WITHIN_ROUNDING
    assert rest.hbm_s <= whole.hbm_s * WITHIN_ROUNDING


@given(st.integers(1, 16), st.integers(1024, 1 << 16))
def test_verifying_reads_the_cache_once(drafts: int, context: int) -> None:
    verify = generate_attention(16, context, 32, 8, 128, query_tokens=drafts + 1, **ATTENTION)
    one = generate_attention(16, context, 32, 8, 128, **ATTENTION)
    assert verify.compute_s == pytest.approx((drafts + 1) * one.compute_s)
    assert one.hbm_s <= verify.hbm_s < (drafts + 1) * one.hbm_s


def test_nothing_drafted_is_a_plain_step() -> None:
    assert expected_tokens(0.8, 0) == 1
    assert verified_rows(32, 0) == 32
    assert speculative_tpot_s(0.02, 0.001, 0.8, 0) == 0.02


@given(st.floats(0, 1), st.integers(0, 8))
def test_a_verification_adds_between_one_token_and_all(acceptance: float, drafts: int) -> None:
    assert 1 <= expected_tokens(acceptance, drafts) <= drafts + 1


def test_drafting_pays_from_an_acceptance_on() -> None:
    least = break_even_acceptance(verify_s=0.022, draft_s=0.001, plain_s=0.020, drafted_tokens=4)
    assert 0 < least < 1
    assert speculative_tpot_s(0.022, 0.001, least, 4) == pytest.approx(0.020)
    assert break_even_acceptance(0.2, 0.001, 0.020, 4) == 1


def test_a_latent_cache_has_no_heads() -> None:
    """Bug log A3: (512 + 64) elements per token and layer, not two of every head."""
    assert latent_cache_bytes(1, 61, DEEPSEEK, "bf16") == 576 * 61 * 2
    assert latent_cache_bytes(1, 61, DEEPSEEK, "bf16") < kv_cache_bytes(1, 61, 128, 128, "bf16") / 50


def between_latents_and_heads(rows: int) -> Roofline:
    """Of S latents keys and values, or T queries and outputs of as many latents."""
    return matmul(rows, 512, 128 * DEEPSEEK.made_dim, weight_bytes_per_element=1, **EXPANDED)


@given(st.integers(1, 64), st.integers(2048, 1 << 17))
def test_generating_is_faster_absorbed(sequences: int, context: int) -> None:
    absorbed = absorbed_attention(sequences, context, 128, DEEPSEEK, **ATTENTION)
    absorbed += between_latents_and_heads(sequences)
    expanded = expanded_attention(1, context, 128, DEEPSEEK, sequences=sequences, **EXPANDED)
    expanded += between_latents_and_heads(sequences * context)
    assert absorbed.hbm_s < expanded.hbm_s
    assert absorbed.total_s() < expanded.total_s()


def test_a_prompt_is_faster_expanded() -> None:
    """Scores over 576 + 512 elements cost more than over 192 + 128 once there are many of them."""
    expanded = expanded_attention(8192, 8192, 128, DEEPSEEK, **EXPANDED)
    absorbed = absorbed_attention(1, 8192 / 2, 128, DEEPSEEK, query_tokens=8192, **ATTENTION)
    both = between_latents_and_heads(8192)
    assert (expanded + both).compute_s < (absorbed + both).compute_s / 2


def test_few_heads_of_a_shard_read_the_whole_latent() -> None:
    """Heads may be sharded, the cache may not: a sixteenth of the heads reads as much of it."""
    cache = {**ATTENTION, "activation_bytes_per_element": 0}
    all_heads, some = (absorbed_attention(64, 8192, heads, DEEPSEEK, **cache) for heads in (128, 8))
    assert some.hbm_s == all_heads.hbm_s
    assert some.compute_s == pytest.approx(all_heads.compute_s / 16)


@given(st.floats(0.1, 1), st.integers(1, 128), lengths)
def test_fewer_bytes_of_a_latent_are_never_slower(part: float, sequences: int, context: int) -> None:
    narrower = {**ATTENTION, "kv_bytes_per_element": 2 * part}
    wide = absorbed_attention(sequences, context, 128, DEEPSEEK, **ATTENTION)
    assert absorbed_attention(sequences, context, 128, DEEPSEEK, **narrower).total_s() <= wide.total_s()
