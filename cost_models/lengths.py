"""Token counts of requests: a lognormal that has the mean and the 95th percentile of the spec.

    mean = exp(mu + sigma^2 / 2)      p95 = exp(mu + z * sigma)      z = 1.6449, the normal's 95th percentile
    sigma = z - sqrt(z^2 - 2 * ln(p95 / mean))      mu = ln(mean) - sigma^2 / 2

No lognormal has a p95 above exp(z^2 / 2) = 3.87 means; beyond that the widest one with the right mean is taken, and
`p95` says what it reaches. p95 = mean makes every length the same.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

NORMAL = NormalDist()
Z95 = NORMAL.inv_cdf(0.95)
STEPS = 1024


@dataclass(frozen=True)
class Lognormal:
    """A distribution of lengths by the parameters of its logarithm."""

    mu: float
    sigma: float

    @property
    def mean(self) -> float:
        """The mean length."""
        return exp(self.mu + self.sigma**2 / 2)

    @property
    def p95(self) -> float:
        """The length that 95 % stay within."""
        return exp(self.mu + Z95 * self.sigma)

    @property
    def spread(self) -> float:
        """The squared coefficient of variation, variance over squared mean: exp(sigma^2) - 1."""
        return exp(self.sigma**2) - 1

    def within(self, length: float) -> float:
        """The part of requests whose length is at most `length`."""
        if not self.sigma:
            return float(length >= self.mean * (1 - 1e-9))
        return NORMAL.cdf((log(length) - self.mu) / self.sigma)

    def at(self, fraction: float) -> int:
        """The length that `fraction` of requests stay within, at least one token."""
        deviation = NORMAL.inv_cdf(fraction) if self.sigma else 0.0
        return max(1, round(exp(self.mu + self.sigma * deviation)))


class Reading(NamedTuple):
    """What prefills take, in times of the planned one: the mean, the p95, the squared coefficient of variation."""

    mean: Fraction
    p95: Fraction
    spread: float


AS_PLANNED = Reading(Fraction(1), Fraction(1), 0.0)
"""Prefills of prompts that are all in the bucket of the mean one."""


@cache
def reading(lengths: Lognormal, buckets: tuple[int, ...], planned: int, prompts: int) -> Reading:
    """The prefills of `prompts` together, each in the bucket of the longest of them, the last of which holds the rest.

    A prefill takes as long as its bucket has tokens; F(b)^P of them are in bucket b or a shorter one. Where half of the
    prompts do not fit the bucket of the mean one, the mean is one and a half, not one. It is rounded up to 1/1024.
    """
    within = [*(lengths.within(bucket) ** prompts for bucket in buckets[:-1]), 1.0]
    chances = [upper - lower for lower, upper in zip([0.0, *within], within, strict=False)]
    mean = sum(chance * bucket / planned for chance, bucket in zip(chances, buckets, strict=True))
    square = sum(chance * (bucket / planned) ** 2 for chance, bucket in zip(chances, buckets, strict=True))
    p95 = next(bucket for bucket, part in zip(buckets, within, strict=True) if part >= 0.95)
    return Reading(Fraction(ceil(mean * STEPS - 1e-6), STEPS), Fraction(p95, planned), max(0.0, square / mean**2 - 1))


def fitted(mean: float, p95: float) -> Lognormal:
    """The lognormal with this mean and this p95, or the widest with this mean."""
    room = Z95**2 - 2 * log(p95 / mean)
    sigma = Z95 - sqrt(max(0.0, room))
    return Lognormal(log(mean) - sigma**2 / 2, sigma)
