"""Fractions are drawn evenly, in an order of the seed."""

from itertools import islice
from random import Random
from statistics import fmean

import pytest

from cost_models.lengths import fitted
from planner.simulate.lengths import fractions, spread


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
