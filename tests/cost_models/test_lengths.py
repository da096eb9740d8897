"""Lengths have the spec's mean and p95."""

from math import exp
from random import Random
from statistics import NormalDist, fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.lengths import AS_PLANNED, fitted, reading


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


def test_equal_prompts_take_the_planned_time() -> None:
    assert reading(fitted(1000, 1000), (256, 512, 1024, 2048), 1024, 4) == AS_PLANNED


def test_prompts_beyond_the_mean_ones_bucket_take_longer_than_the_plan_says() -> None:
    found = reading(fitted(1024, 1536), (512, 1024, 2048), 1024, 1)
    assert found.mean == pytest.approx(1.45, abs=0.02)
    assert found.p95 == 2
    assert reading(fitted(1024, 1536), (512, 1024, 2048), 1024, 8).mean > 1.9


@given(st.integers(100, 4000), st.floats(1.1, 3.5), st.integers(1, 16))
def test_the_reading_is_that_of_drawn_prompts(mean: int, ratio: float, prompts: int) -> None:
    lengths, random, buckets = fitted(mean, mean * ratio), Random(1), (128, 256, 512, 1024, 2048, 4096, 6000)
    taken = []
    for _ in range(2000):
        longest = max(lengths.at(random.uniform(0.0005, 0.9995)) for _ in range(prompts))
        taken.append(next((bucket for bucket in buckets if bucket >= longest), buckets[-1]) / 1024)
    found = reading(lengths, buckets, 1024, prompts)
    assert fmean(taken) == pytest.approx(found.mean, rel=0.1)
    assert pvariance(taken) / fmean(taken) ** 2 == pytest.approx(found.spread, abs=0.15 + 0.2 * found.spread)
    assert sum(each <= found.p95 for each in taken) / 2000 > 0.93
