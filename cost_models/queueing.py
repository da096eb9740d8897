"""Queues of requests that arrive at random: slots that are taken, prompts that wait, prefills that interrupt.

Arrivals are Poisson. Formulas are textbook ones: Erlang's C for servers without a queue to speak of, Kingman's mean
for one server with general service times, and an exponential tail behind it. Times are seconds, rates per second.
"""

from functools import cache
from math import exp, log, sqrt

from cost_models.lengths import Z95, fitted

TAIL = 0.05


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
    """The largest part of `slots` that may be taken on average while 95 % of arrivals still find one free."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if erlang_c(slots, middle * slots) <= TAIL:
            low = middle
        else:
            high = middle
    return low


def spread_of(mean: float, p95: float) -> float:
    """The squared coefficient of variation of lengths of this mean and p95, as a lognormal has it."""
    return fitted(mean, p95).spread


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
def poisson_p95(mean: float) -> int:
    """The least count that a Poisson variable of this mean stays within 95 times in 100."""
    if mean > 500:
        return int(mean + Z95 * sqrt(mean) + 1)
    count, chance = 0, exp(-mean)
    total = chance
    while total < 1 - TAIL:
        count += 1
        chance *= mean / count
        total += chance
    return count
