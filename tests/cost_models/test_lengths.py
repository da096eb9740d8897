"""Lengths have the spec's mean and p95."""

from math import exp
from statistics import NormalDist, fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.lengths import fitted


@given(st.integers(8, 20_000), st.floats(1.0, 3.8))
def test_the_fit_has_the_mean_and_the_p95(mean: int, ratio: float) -> None:
    found = fitted(mean, mean * ratio)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.p95 == pytest.approx(mean * ratio, rel=1e-9)


def test_a_p95_out_of_reach_keeps_the_mean() -> None:
    found = fitted(100, 1000)
    assert found.mean == pytest.approx(100)
    assert found.p95 == pytest.approx(386.8, rel=1e-3)


def test_equal_mean_and_p95_make_every_length_the_same() -> None:
    found = fitted(64, 64)
    assert {found.at(fraction) for fraction in (0.001, 0.5, 0.999)} == {64}
    assert found.spread == 0
    assert [found.within(length) for length in (63, 64, 65)] == [0, 1, 1]


@given(st.integers(64, 20_000), st.floats(1.05, 3.8))
def test_the_part_within_the_p95_is_95_percent(mean: int, ratio: float) -> None:
    assert fitted(mean, mean * ratio).within(mean * ratio) == pytest.approx(0.95)


@pytest.mark.parametrize("ratio", [1.2, 1.5, 2.0, 2.5])
def test_the_spread_is_that_of_drawn_lengths(ratio: float) -> None:
    found = fitted(100_000, 100_000 * ratio)
    drawn = [found.at((place + 0.5) / 20_000) for place in range(20_000)]
    assert pvariance(drawn) / fmean(drawn) ** 2 == pytest.approx(found.spread, rel=0.03)


def test_a_wide_p95_gives_the_widest_spread() -> None:
    assert fitted(100, 1000).spread == pytest.approx(exp(NormalDist().inv_cdf(0.95) ** 2) - 1)
