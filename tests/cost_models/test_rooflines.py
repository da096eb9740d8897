"""Rooflines, matmuls, attention and memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.attention import generate_attention, prefill_attention
from cost_models.bounds import crossover_rows
from cost_models.chips import Chip, chip, chips
from cost_models.dtypes import array_bytes, bytes_per_element, dtypes, scale_bytes
from cost_models.matmul import matmul, mxu_padded, weights_pass
from cost_models.memory import kv_page_bytes, max_sequences, min_chips, usable_hbm_bytes, weights_bytes
from cost_models.roofline import Roofline, sequence_s

V5E, V6E = chip("v5e"), chip("v6e")
BF16 = {"activation_bytes_per_element": 2, "kv_bytes_per_element": 2, "compute_dtype": "bf16", "chip": V5E}

seconds = st.floats(0, 1e3)
rooflines = st.builds(Roofline, seconds, seconds, seconds, seconds)
two_parts = st.builds(Roofline, seconds, seconds)
any_chip = st.sampled_from(chips())
any_dim = st.sampled_from([64, 576, 4096, 28672])


@given(rooflines)
def test_the_totals_are_ordered_by_how_much_overlaps(parts: Roofline) -> None:
    lower, default, upper = (parts.total_s(each) for each in ("everything", "compute_and_hbm", "nothing"))
    assert lower <= default <= upper * (1 + 1e-12)


@given(two_parts)
def test_two_parts_that_take_turns_last_at_most_twice_as_long(parts: Roofline) -> None:
    assert parts.total_s("everything") <= parts.total_s("nothing") <= 2 * parts.total_s("everything")


@given(rooflines, rooflines)
def test_one_region_is_never_slower_than_two_in_turn(first: Roofline, second: Roofline) -> None:
    assert (first + second).total_s() <= sequence_s([first, second]) * (1 + 1e-12)


@given(rooflines)
def test_the_binding_part_is_the_largest(parts: Roofline) -> None:
    assert getattr(parts, f"{parts.binds}_s") == max(parts.compute_s, parts.hbm_s, parts.ici_s, parts.fixed_s)


def test_a_collective_waits_by_default() -> None:
    assert Roofline(3, 2, 4, 1).total_s() == 3 + 4 + 1
    assert Roofline(3, 2, 4, 1).total_s("everything") == 4 + 1


def test_equal_parts_bind_in_a_fixed_order() -> None:
    assert Roofline(1, 1, 1, 1).binds == "compute"
    assert Roofline(0, 1, 1, 1).binds == "hbm"


def test_a_roofline_scales_with_its_count() -> None:
    assert 80 * Roofline(1, 2, 3, 4) == Roofline(80, 160, 240, 320) == Roofline(1, 2, 3, 4) * 80


@given(st.integers(1, 4096), any_dim, any_dim, any_chip, st.floats(1, 100))
def test_more_hbm_bandwidth_never_slows_a_matmul(rows: int, d: int, f: int, on: Chip, factor: float) -> None:
    sizes = {"weight_bytes_per_element": 1, "activation_bytes_per_element": 2, "compute_dtype": "bf16"}
    faster = replace(on, hbm_bytes_per_s=on.hbm_bytes_per_s * factor)
    assert matmul(rows, d, f, chip=faster, **sizes).total_s() <= matmul(rows, d, f, chip=on, **sizes).total_s()


@given(any_dim, any_dim, any_chip, st.sampled_from([1, 2]))
def test_compute_and_memory_meet_at_the_crossover(d: int, f: int, on: Chip, weight_bytes: int) -> None:
    sizes = {"weight_bytes_per_element": weight_bytes, "activation_bytes_per_element": 2, "compute_dtype": "bf16"}
    rows = crossover_rows(d, f, chip=on, **sizes)
    if rows == float("inf"):
        assert matmul(1e9, d, f, chip=on, **sizes).binds == "hbm"
    else:
        at_crossover = matmul(rows, d, f, chip=on, **sizes)
        assert at_crossover.compute_s == pytest.approx(at_crossover.hbm_s)


@given(st.integers(1, 512), any_dim, any_dim)
def test_activations_only_add_to_the_weights(rows: int, d: int, f: int) -> None:
    sizes = {"weight_bytes_per_element": 1, "compute_dtype": "int8", "chip": V5E}
    whole = matmul(rows, d, f, activation_bytes_per_element=2, **sizes)
    bare = weights_pass(rows, d * f, **sizes)
    assert whole.compute_s == bare.compute_s
    assert whole.hbm_s > bare.hbm_s


@pytest.mark.parametrize(("dim", "on", "padded"), [(1, V5E, 128), (128, V5E, 128), (130, V5E, 256), (130, V6E, 256)])
def test_a_weight_dimension_fills_the_matrix_unit(dim: int, on: Chip, padded: int) -> None:
    assert mxu_padded(dim, on) == padded


def test_a_cpu_pads_nothing() -> None:
    assert mxu_padded(577, chip("cpu")) == 577


def test_a_causal_prompt_computes_half_of_the_scores() -> None:
    causal, full = (prefill_attention(1024, 1024, 32, 8, 128, causal=each, **BF16) for each in (True, False))
    assert causal.compute_s == full.compute_s / 2
    assert causal.hbm_s == full.hbm_s


def test_the_last_piece_of_a_prompt_computes_nearly_all_of_its_scores() -> None:
    last = prefill_attention(256, 1024, 32, 8, 128, **BF16)
    full = prefill_attention(256, 1024, 32, 8, 128, causal=False, **BF16)
    assert last.compute_s == pytest.approx(full.compute_s * 7 / 8)


def test_query_groups_share_the_keys_they_read() -> None:
    grouped, multi_head = (generate_attention(64, 8192, 32, heads, 128, **BF16) for heads in (8, 32))
    assert multi_head.hbm_s == pytest.approx(4 * grouped.hbm_s, rel=0.01)
    assert multi_head.compute_s == grouped.compute_s


def test_generate_reads_whole_pages_but_scores_only_its_tokens() -> None:
    whole, exact = (generate_attention(1, tokens, 1, 1, 128, page_tokens=128, **BF16) for tokens in (130, 256))
    assert whole.hbm_s == exact.hbm_s
    assert whole.compute_s < exact.compute_s


@given(st.integers(1, 512), st.integers(512, 1 << 17), any_chip.filter(lambda each: each.kind == "tpu"))
def test_generate_attention_is_bound_by_hbm_on_a_tpu(sequences: int, context: int, on: Chip) -> None:
    assert generate_attention(sequences, context, 64, 8, 128, **{**BF16, "chip": on}).binds == "hbm"


def test_a_page_holds_keys_and_values() -> None:
    assert kv_page_bytes(128, 2, 128, "bf16") == 128 * 2 * 2 * 128 * 2


def test_quantised_weights_carry_a_scale_per_channel() -> None:
    assert weights_bytes(8192 * 1024, "int8", channels=1024) == 8192 * 1024 + 4 * 1024
    assert weights_bytes(8192 * 1024, "bf16", channels=1024) == 2 * 8192 * 1024


def test_a_reserve_is_kept_back() -> None:
    assert usable_hbm_bytes(V5E, 0.08) == 14_720_000_000


def test_weights_that_do_not_fit_leave_a_negative_number_of_sequences() -> None:
    assert max_sequences(16e9, 20e9, 1e9) == -4


def test_a_chip_more_is_needed_for_one_byte_more() -> None:
    assert (min_chips(32e9, 16e9), min_chips(32e9 + 1, 16e9)) == (2, 3)


def test_four_bits_are_half_a_byte_and_odd_arrays_round_up() -> None:
    assert bytes_per_element("int4") == 0.5
    assert array_bytes(3, "int4") == 2


def test_only_quantised_dtypes_have_scales() -> None:
    assert {dtype for dtype in dtypes() if scale_bytes(10, dtype)} == {"int8", "fp8", "int4", "fp4"}


def test_an_unknown_dtype_names_the_known_ones() -> None:
    with pytest.raises(LookupError, match='unknown dtype "bfloat16"; known are float32, bf16, int8'):
        bytes_per_element("bfloat16")
