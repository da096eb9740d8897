"""Queueing formulas against textbook values, exact sums, and queues played out."""

from fractions import Fraction
from math import exp, factorial, floor, lgamma, log

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.lengths import fitted
from cost_models.queueing import (
    erlang_c,
    gathering_p95,
    interruptions_p95,
    mean_wait_s,
    most_slot_utilization,
    p95_of_sum,
    p95_wait_s,
    poisson_within,
    wait_if_busy_s,
)

RATES, SECONDS = st.floats(0.01, 100), st.floats(1e-4, 100)
SPREADS = st.floats(0, 4)


def erlang_c_by_sums(servers: int, offered: int) -> float:
    """Erlang's C from its definition, in whole fractions."""
    busy = [Fraction(offered**count, factorial(count)) for count in range(servers)]
    full = Fraction(offered**servers, factorial(servers)) * Fraction(servers, servers - offered)
    return float(full / (sum(busy) + full))


def poisson_p95_by_sums(mean: int) -> int:
    """The 95th percentile of a Poisson variable, each of its chances by itself."""
    total = 0.0
    for count in range(3 * mean + 40):
        total += exp(count * log(mean) - mean - lgamma(count + 1))
        if total >= 0.95:
            return count
    raise AssertionError(mean)


def p95_of_md1(rho: float) -> float:
    """The exact 95th percentile of the wait in M/D/1, in services, by bisection of Erlang's distribution of it."""

    def within(waited: float) -> float:
        terms = (
            (rho * (count - waited)) ** count / factorial(count) * exp(-rho * (count - waited))
            for count in range(floor(waited) + 1)
        )
        return (1 - rho) * sum(terms)

    low, high = 0.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) >= 0.95 else (middle, high)
    return high


def waits(rho: float, arrivals_spread: float, service_spread: float) -> npt.NDArray[np.float64]:
    """Waits for one server, in mean services: gamma arrivals, lognormal services (Lindley's recursion)."""
    random, count, sigma = np.random.default_rng(1), 400_000, np.log(1 + service_spread) ** 0.5
    between = random.gamma(1 / arrivals_spread, arrivals_spread / rho, count)
    service = random.lognormal(-(sigma**2) / 2, sigma, count)
    level = np.concatenate([[0.0], np.cumsum(service[:-1] - between[1:])])
    return level - np.minimum.accumulate(level)


@pytest.mark.parametrize(
    ("servers", "offered", "expected"), [(1, 0.5, 0.5), (2, 1, 1 / 3), (3, 2, 4 / 9), (5, 4, 0.5541), (10, 8, 0.4092)]
)
def test_erlang_c_is_that_of_the_tables(servers: int, offered: float, expected: float) -> None:
    assert erlang_c(servers, offered) == pytest.approx(expected, abs=5e-5)


@given(st.integers(1, 60), st.data())
def test_erlang_c_is_its_definition(servers: int, data: st.DataObject) -> None:
    offered = data.draw(st.integers(0, servers - 1))
    assert erlang_c(servers, offered) == pytest.approx(erlang_c_by_sums(servers, offered), rel=1e-9)


def test_more_load_than_servers_leaves_none_free() -> None:
    assert erlang_c(4, 4) == erlang_c(4, 7.5) == 1


@given(st.integers(1, 200), st.floats(0.01, 0.98), st.floats(0.01, 0.98))
def test_erlang_c_grows_with_load_and_falls_with_servers(servers: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert erlang_c(servers, low * servers) <= erlang_c(servers, high * servers) + 1e-12
    assert erlang_c(servers + 1, high * servers) <= erlang_c(servers, high * servers) + 1e-12


def test_one_slot_may_be_taken_a_hundredth_of_the_time() -> None:
    assert most_slot_utilization(1) == pytest.approx(0.01)


@given(st.integers(1, 1024))
def test_more_slots_may_be_fuller_and_99_percent_still_find_one(slots: int) -> None:
    most = most_slot_utilization(slots)
    assert most < most_slot_utilization(slots + 1) < 1
    assert erlang_c(slots, most * slots) <= 0.01
    assert erlang_c(slots, (most + 1e-6) * slots) > 0.01


@given(st.floats(0.01, 0.99), SECONDS)
def test_random_services_wait_as_in_mm1_and_constant_ones_half_as_long(busy: float, service_s: float) -> None:
    rate = busy / service_s
    assert mean_wait_s(rate, service_s, 1, 1) == pytest.approx(busy * service_s / (1 - busy))
    assert mean_wait_s(rate, service_s, 1, 0) == pytest.approx(busy * service_s / (1 - busy) / 2)


@given(st.floats(0.051, 0.99), SECONDS)
def test_the_tail_of_random_services_is_exactly_that_of_mm1(busy: float, service_s: float) -> None:
    waited = p95_wait_s(busy / service_s, service_s, 1, 1)
    assert busy * exp(-waited * (1 - busy) / service_s) == pytest.approx(0.05, rel=1e-6)


@given(RATES, SECONDS, SECONDS, SPREADS, SPREADS)
def test_waits_grow_with_service_and_rate(rate: float, one: float, other: float, come: float, take: float) -> None:
    low, high = sorted((one, other))
    for wait in (mean_wait_s, p95_wait_s):
        assert wait(rate, low, come, take) <= wait(rate, high, come, take) * (1 + 1e-9)
        assert wait(low, rate, come, take) <= wait(high, rate, come, take) * (1 + 1e-9)


@given(st.floats(0.01, 0.98), st.floats(0.01, 0.98), SPREADS, SPREADS)
def test_waits_are_convex_in_the_service(one: float, other: float, come: float, take: float) -> None:
    for wait in (mean_wait_s, p95_wait_s):
        middle, ends = wait(1, (one + other) / 2, come, take), wait(1, one, come, take) + wait(1, other, come, take)
        assert middle <= ends / 2 + 1e-9


@given(SECONDS, SPREADS, SPREADS)
def test_nobody_waits_for_nothing_and_everybody_for_ever_at_full_load(
    service_s: float, come: float, take: float
) -> None:
    assert mean_wait_s(3, 0, come, take) == p95_wait_s(3, 0, come, take) == 0
    assert wait_if_busy_s(1 / service_s, service_s * 1.001, come, take) == float("inf")
    assert mean_wait_s(1 / service_s, service_s * 1.001, come, take) == float("inf")
    assert p95_wait_s(1 / service_s, service_s * 1.001, come, take) == float("inf")


def test_a_twentieth_of_busy_time_leaves_95_percent_without_a_wait() -> None:
    assert p95_wait_s(0.05, 1, 1, 1) == 0 < p95_wait_s(0.051, 1, 1, 1)


@pytest.mark.parametrize("rho", [0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9])
def test_the_tail_of_constant_services_is_close_to_the_exact_one(rho: float) -> None:
    exact = p95_of_md1(rho)
    assert 0.85 * exact <= p95_wait_s(rho, 1, 1, 0) <= 1.2 * exact


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.8])
@pytest.mark.parametrize("service_spread", [0.1, 0.3, 1.0])
def test_the_tail_of_lognormal_services_is_close_to_queues_played_out(rho: float, service_spread: float) -> None:
    played = waits(rho, 1, service_spread)
    assert mean_wait_s(rho, 1, 1, service_spread) == pytest.approx(played.mean(), rel=0.1)
    assert p95_wait_s(rho, 1, 1, service_spread) == pytest.approx(np.quantile(played, 0.95), rel=0.15)


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("prompts", [2, 4, 8])
def test_batches_that_gather_arrive_more_evenly_and_wait_no_longer_than_said(rho: float, prompts: int) -> None:
    played = waits(rho, 1 / prompts, 0.1)
    assert played.mean() <= mean_wait_s(rho, 1, 1 / prompts, 0.1)
    assert np.quantile(played, 0.95) <= 1.05 * p95_wait_s(rho, 1, 1 / prompts, 0.1)


@given(st.floats(0.1, 400), st.data())
def test_poisson_chances_are_close_to_exact_sums(mean: float, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, int(2 * mean) + 5))
    exact = sum(exp(number * log(mean) - mean - lgamma(number + 1)) for number in range(count + 1))
    assert poisson_within(mean, count) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("prompts", [1, 2, 4, 16])
def test_gathering_takes_as_long_as_played_out(prompts: int) -> None:
    between = np.random.default_rng(0).exponential(size=(50_000, prompts))
    others = between[:, 1:].sum(axis=1, keepdims=True) - np.cumsum(
        np.concatenate([np.zeros((50_000, 1)), between[:, 1:]], axis=1), axis=1
    )
    assert gathering_p95(prompts) == pytest.approx(np.quantile(others, 0.95), rel=0.02, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=4))
def test_the_tail_of_a_sum_lies_between_the_sums_of_means_and_of_tails(parts: list[tuple[float, float]]) -> None:
    whole = [(mean, mean + more) for mean, more in parts]
    assert sum(mean for mean, _ in whole) <= p95_of_sum(whole) * (1 + 1e-9)
    assert p95_of_sum(whole) <= sum(tail for _, tail in whole) * (1 + 1e-9)
    assert p95_of_sum(whole[:1]) == pytest.approx(whole[0][1])


@given(st.floats(0, 0.98), st.floats(0, 0.98), st.sampled_from([0, 0.1, 0.3, 1, 3]), st.floats(1, 4))
def test_the_tail_of_reading_and_waiting_is_convex(one: float, other: float, spread: float, tail: float) -> None:
    def ttft(service: float) -> float:
        waits = mean_wait_s(1, service, 1, spread), p95_wait_s(1, service, 1, spread)
        return p95_of_sum([(0.5, 1.5), (service, tail * service), waits])

    assert ttft((one + other) / 2) <= (ttft(one) + ttft(other)) / 2 + 1e-9


def interruptions(per_token: float, ratio: float, spread: float) -> npt.NDArray[np.float64]:
    """Prefills for each token of drawn answers of 200 tokens on average: compound Poisson counts."""
    random, lengths = np.random.default_rng(3), fitted(200, 200 * ratio)
    found = []
    for fraction in random.uniform(0.0005, 0.9995, 4000):
        length, sigma = lengths.at(fraction), np.log(spread) ** 0.5
        sizes = random.lognormal(-(sigma**2) / 2, sigma, random.poisson(per_token * length))
        found.append(float(sizes.sum()) / length)
    return np.array(found)


@pytest.mark.parametrize("per_token", [0.02, 0.2, 1.0])
@pytest.mark.parametrize(("ratio", "spread"), [(1.0, 1.0), (2.0, 1.2), (3.5, 1.5)])
def test_interruptions_are_those_of_drawn_answers(per_token: float, ratio: float, spread: float) -> None:
    played = np.quantile(interruptions(per_token, ratio, spread), 0.95)
    assert interruptions_p95(per_token, fitted(200, 200 * ratio), spread) == pytest.approx(played, rel=0.07)


def test_equal_answers_are_interrupted_as_a_poisson_count_says() -> None:
    assert interruptions_p95(0.2, fitted(256, 256), 1.0) * 256 == pytest.approx(poisson_p95_by_sums(51), abs=1)


@given(st.floats(0.001, 3), st.floats(0.001, 3), st.floats(1, 3.5), st.floats(0.3, 3))
def test_more_prefills_interrupt_more(one: float, other: float, ratio: float, spread: float) -> None:
    low, high = sorted((one, other))
    lengths = fitted(200, 200 * ratio)
    assert interruptions_p95(low, lengths, spread) <= interruptions_p95(high, lengths, spread) + 1e-6


@given(st.integers(1, 600), st.floats(0, 0.9))
def test_slots_may_be_as_full_as_prefills_that_stop_steps_allow(slots: int, reading: float) -> None:
    """u(B) - rho is below (1 - rho) u(B / z), Hayward's bound for slots whose load is z times as uneven as alone."""
    alike = slots * (1 - reading) ** 2
    whole = floor(alike)
    most = [most_slot_utilization(each) if each else 0.0 for each in (whole, whole + 1)]
    between = most[0] + (alike - whole) * (most[1] - most[0])
    assert most_slot_utilization(slots) - reading <= (1 - reading) * between + 0.01
