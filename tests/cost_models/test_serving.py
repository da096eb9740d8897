"""Serving rates and money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.chips import UnknownNumber, chip, chips
from cost_models.serving import (
    chip_seconds_per_token,
    flops_per_usd,
    mfu,
    prefill_s,
    prefill_servers_per_generate_server,
    queries_per_s,
    sequences_finished_per_step,
    time_per_output_token_s,
    tokens_per_s,
    usd,
)

V5E = chip("v5e")


def test_a_prefill_runs_at_the_mfu_it_was_given() -> None:
    """0.91 s for 8192 tokens of a 70B model on sixteen v5e at 0.4 (applied-inference.md § prefill)."""
    seconds = prefill_s(8192, 70e9, 16, 0.4, "bf16", V5E)
    assert seconds == pytest.approx(0.91, rel=0.01)
    assert mfu(2 * 70e9 * 8192, 16 * seconds, "bf16", V5E) == pytest.approx(0.4)


@given(st.integers(1, 1024), st.floats(1e-3, 1), st.integers(1, 4096), st.floats(1e-3, 10))
def test_prefill_servers_refill_what_generate_servers_finish(
    sequences: int, step_s: float, output_tokens: int, prompt_s: float
) -> None:
    servers = prefill_servers_per_generate_server(prompt_s, sequences, step_s, output_tokens)
    filled_per_step = servers * step_s / prompt_s
    assert filled_per_step == pytest.approx(sequences_finished_per_step(sequences, output_tokens))


def test_rates_by_chip_are_rates_over_chips() -> None:
    assert tokens_per_s(32, 0.02, 8) == tokens_per_s(32, 0.02) / 8
    assert queries_per_s(32, 0.02, 512, 8) == pytest.approx(tokens_per_s(32, 0.02, 8) / 512)


def test_money_follows_chip_seconds() -> None:
    """64 chips for 28.5 ms and 64 tokens: 28.5 chip-ms a token, and at 1.20 dollars 9.50 for a million."""
    each = chip_seconds_per_token(64, 28.5e-3, 64)
    assert each == pytest.approx(28.5e-3)
    assert usd(1e6 * each, 1.20) == pytest.approx(9.50)


def test_a_speculative_step_brings_several_tokens() -> None:
    assert time_per_output_token_s(0.03, 3) == pytest.approx(0.01)


def test_prices_are_dated() -> None:
    for each in chips():
        if each.price_usd_per_chip_hour is not None:
            assert "20" in each.sources["price_usd_per_chip_hour"]


def test_a_chip_without_a_price_says_so() -> None:
    with pytest.raises(UnknownNumber, match="the catalogue has no price_usd_per_chip_hour for v4"):
        flops_per_usd("bf16", chip("v4"))
