"""The fit finds the constants that made the samples, whatever they are, and is not bent by a few bad ones."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.chips import chip
from cost_models.stacks import CPU
from planner.calibrate.fit import (
    Links,
    Sample,
    coefficients,
    fit_links,
    least_squares,
    predicted_s,
    typical_factor,
    with_links,
)

HOST = chip("cpu")
SHAPES = [
    (kind, ways, size)
    for ways in (2, 4, 8)
    for size in (256, 65_536, 1_048_576)
    for kind in ("all_gather", "all_reduce", "all_to_all")
]


def samples_of(links: Links) -> list[Sample]:
    constants = with_links(links, HOST, CPU)
    return [Sample(k, w, b, predicted_s(Sample(k, w, b, 0.0), *constants)) for k, w, b in SHAPES]


@settings(deadline=None, max_examples=25)
@given(st.floats(1e-6, 1e-3), st.floats(1e-6, 1e-3), st.floats(1e8, 1e11))
def test_the_constants_behind_exact_samples_are_found(launch_s: float, hop_s: float, bytes_per_s: float) -> None:
    found = fit_links(samples_of(Links(launch_s, hop_s, bytes_per_s)), HOST, CPU)
    assert found.launch_s == pytest.approx(launch_s, rel=1e-3)
    assert found.hop_s == pytest.approx(hop_s, rel=1e-3)
    assert found.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-2)


def test_a_few_disturbed_samples_do_not_bend_the_fit() -> None:
    true = Links(2e-5, 1e-5, 1e9)
    samples = samples_of(true)
    samples[4] = replace(samples[4], seconds=samples[4].seconds * 50)
    samples[15] = replace(samples[15], seconds=samples[15].seconds / 200)
    found = fit_links(samples, HOST, CPU)
    assert found.launch_s == pytest.approx(true.launch_s, rel=0.05)
    assert found.hop_s == pytest.approx(true.hop_s, rel=0.05)
    assert found.bytes_per_s == pytest.approx(true.bytes_per_s, rel=0.05)


def test_a_sample_is_the_sum_of_its_three_terms() -> None:
    links = Links(3e-5, 2e-5, 5e8)
    for sample in samples_of(links):
        launches, hops, seconds = coefficients(sample, HOST, CPU)
        total = launches * links.launch_s + hops * links.hop_s + seconds / links.bytes_per_s
        assert total == pytest.approx(sample.seconds)


def test_no_constant_is_negative() -> None:
    found = least_squares(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), np.array([3.0, 2.0, 1.0]))
    assert found.tolist() == [2.0, 0.0]


def test_links_without_a_byte_term_are_too_fast_to_tell() -> None:
    found = fit_links(samples_of(Links(1e-5, 1e-5, inf)), HOST, CPU)
    assert found.bytes_per_s > 1e13


def test_the_typical_factor_is_a_geometric_mean() -> None:
    links = Links(1e-5, 1e-5, 1e9)
    twice = [replace(sample, seconds=2 * sample.seconds) for sample in samples_of(links)]
    assert typical_factor(twice, *with_links(links, HOST, CPU)) == pytest.approx(2)
