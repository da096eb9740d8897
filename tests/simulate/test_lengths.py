"""Lengths have the spec's mean and p95."""

from itertools import islice
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.simulate.lengths import fitted, fractions, spread


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
    assert {fitted(64, 64).at(fraction) for fraction in (0.001, 0.5, 0.999)} == {64}


def test_a_small_sample_already_has_the_mean_and_the_tail() -> None:
    found = fitted(1024, 2048)
    lengths = [found.at(fraction) for fraction in spread(200, Random(1))]
    assert fmean(lengths) == pytest.approx(1024, rel=0.02)
    assert sum(length <= 2048 for length in lengths) == pytest.approx(190, abs=1)


def test_fractions_go_on_and_repeat_with_the_seed() -> None:
    first, second = (list(islice(fractions(7, Random(3)), 20)) for _ in range(2))
    assert first == second
    assert first[:7] != first[7:14]
    assert all(0 < fraction < 1 for fraction in first)
