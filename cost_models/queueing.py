"""Queues of requests that arrive at random: slots that are taken, prompts that wait, prefills that interrupt.

Arrivals are Poisson. Formulas are textbook ones: Erlang's C for slots, Kingman's mean for one server with general
service times, an exponential tail behind it, Poisson counts. What they are used for and how well they agree with
simulated fleets: docs/explanation/queues.md. Times are seconds, rates per second.
"""

from collections.abc import Iterable
from functools import cache
from math import exp, floor, log, sqrt
from statistics import NormalDist

from cost_models.lengths import Lognormal

TAIL = 0.05
SLOT_TAIL = 0.01
"""The part of requests that may find no slot: few of the 5 % that a p95 leaves, since prefills need those."""
STRATA = 40
NORMAL = NormalDist()


@cache
def erlang_c(servers: int, offered: float) -> float:
    """The chance that an arrival finds all servers busy, at a load of `offered` busy servers on average.

    B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1));  C = B / (1 - (a/n)(1 - B))     (Erlang 1917)
    """
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for busy in range(1, servers + 1):
        blocked = offered * blocked / (busy + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


@cache
def most_slot_utilization(slots: int) -> float:
    """The largest part of `slots` that may be taken on average while 99 % of arrivals still find one free."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if erlang_c(slots, middle * slots) <= SLOT_TAIL:
            low = middle
        else:
            high = middle
    return low


def wait_if_busy_s(rate: float, service_s: float, arrivals_spread: float, service_spread: float) -> float:
    """Seconds that those wait who find one server busy: T (c_a^2 + c_s^2) / (2 (1 - rho)), infinite at full load.

    Kingman 1961, exact for Poisson arrivals (c_a^2 = 1, Pollaczek and Khinchine); `rate` times `service_s` is rho.
    """
    busy = rate * service_s
    return service_s * (arrivals_spread + service_spread) / 2 / (1 - busy) if busy < 1 else float("inf")


def mean_wait_s(rate: float, service_s: float, arrivals_spread: float, service_spread: float) -> float:
    """Seconds that an arrival waits for one server on average: rho of them find it busy."""
    if service_s == 0:
        return 0.0
    return min(1.0, rate * service_s) * wait_if_busy_s(rate, service_s, arrivals_spread, service_spread)


def p95_wait_s(rate: float, service_s: float, arrivals_spread: float, service_spread: float) -> float:
    """Seconds that 95 % of arrivals wait at most.

    P(W > t) = rho exp(-t / W_busy): an exponential tail. At light load those who find the server busy wait for the rest
    of one service, even over its length where that is constant: then P(W > t) = rho (1 - t / T), the larger of the two.
    """
    busy = rate * service_s
    if busy <= TAIL:
        return 0.0
    tail = log(min(1.0, busy) / TAIL) * wait_if_busy_s(rate, service_s, arrivals_spread, service_spread)
    return max(tail, arrivals_spread * (service_s - TAIL / rate))


@cache
def gathering_p95(prompts: int) -> float:
    """What 95 % of requests wait at most until `prompts` of them are together, in mean times between arrivals.

    The k-th of them waits for P - k more: a sum of exponential times, the mixture of which is solved for its tail.
    """

    def later(waited: float) -> float:
        term, come, total = exp(-waited), 0.0, 0.0
        for others in range(prompts):
            total += come
            come += term
            term *= waited / (others + 1)
        return total / prompts

    low, high = 0.0, 2.0 * prompts + 4
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) > TAIL else (low, middle)
    return high if prompts > 1 else 0.0


def p95_of_sum(parts: Iterable[tuple[float, float]]) -> float:
    """What 95 % of sums of independent parts stay within, from the mean and the p95 of each part.

    Means add up, and so do the squares of what lies between mean and tail, as for normal variables.
    """
    known = list(parts)
    return sum(mean for mean, _ in known) + sqrt(sum(max(0.0, p95 - mean) ** 2 for mean, p95 in known))


@cache
def interruptions_p95(per_token: float, outputs: Lognormal, spread: float) -> float:
    """The prefills for each token of an answer that 95 % of requests stay within, where `per_token` come on average.

    Short answers vary more, so the p95 is that of all answers together, each with its own number of prefills. Their sum
    has `spread` times the variance of a Poisson count: it counts as a Poisson count of prefills that are `spread`
    times as long. P(N <= k) by the cube root of a chi-squared variable (Wilson and Hilferty 1931).
    """
    lengths = [outputs.at((stratum + 0.5) / STRATA) for stratum in range(STRATA)]

    def within(most: float) -> float:
        counts = ((length * per_token / spread, floor(most * length / spread + 1e-9)) for length in lengths)
        return sum(poisson_within(mean, count) for mean, count in counts) / STRATA

    low, high = 0.0, 2 * per_token + 10 * spread
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) >= 1 - TAIL else (middle, high)
    return high


def poisson_within(mean: float, count: int) -> float:
    """The chance that a Poisson variable is at most `count`, to within 0.01."""
    if mean < 1:
        term = total = exp(-mean)
        for number in range(1, min(count, 20) + 1):
            term *= mean / number
            total += term
        return total
    ninth = 1 / (9 * (count + 1))
    return 1 - NORMAL.cdf(((mean / (count + 1)) ** (1 / 3) - (1 - ninth)) / sqrt(ninth))
