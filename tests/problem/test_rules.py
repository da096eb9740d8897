"""Padding of heads and widths, in the cases that real models bring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.problem.rules import padded_heads, padded_width


@pytest.mark.parametrize(
    ("q_heads", "kv_heads", "kv_ways", "q_ways", "stored_q", "stored_kv"),
    [
        pytest.param(9, 3, 4, 1, 12, 4, id="SmolLM2, KV heads over 4 chips: whole KV groups are added"),
        pytest.param(9, 3, 1, 8, 16, 3, id="SmolLM2, query heads over 8 chips for a batch-sharded cache"),
        pytest.param(9, 3, 4, 2, 16, 4, id="SmolLM2, KV heads over 4 chips and each group's queries over 2"),
        pytest.param(71, 1, 1, 16, 80, 1, id="Falcon-7B, one KV head, queries over 16 chips"),
        pytest.param(48, 1, 1, 64, 64, 1, id="PaLM-540B, one KV head, 48 heads over 64 chips"),
        pytest.param(64, 8, 8, 2, 64, 8, id="Llama-70B divides"),
        pytest.param(40, 10, 4, 1, 48, 12, id="Phi-4, 10 KV heads over 4 chips"),
    ],
)
def test_heads_are_padded_by_kv_group(q_heads, kv_heads, kv_ways, q_ways, stored_q, stored_kv):
    heads = padded_heads(q_heads, kv_heads, kv_ways, q_ways)
    assert (heads.q_padded, heads.kv_padded) == (stored_q, stored_kv)


@given(st.integers(1, 16), st.integers(1, 16), st.integers(1, 16), st.integers(1, 16))
def test_padded_heads_hold_all_heads_and_divide(kv_heads, group, kv_ways, q_ways):
    heads = padded_heads(kv_heads * group, kv_heads, kv_ways, q_ways)
    assert heads.kv_padded >= kv_heads
    assert heads.kv_local * kv_ways == heads.kv_padded
    assert heads.q_local * q_ways * kv_ways == heads.q_padded
    assert heads.q_shard >= heads.kv_local * group
    assert heads.q_shard - heads.kv_local * group < q_ways


@given(st.integers(1, 10**6), st.integers(1, 512))
def test_a_padded_width_divides_and_wastes_less_than_one_part(width, ways):
    padded = padded_width(width, ways)
    assert padded % ways == 0
    assert width <= padded < width + ways
