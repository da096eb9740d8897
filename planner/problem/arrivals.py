"""Requests that arrive at random: what keeps slots free, prefills in step and waits within limits, as linear rows.

A fleet of n slices shares the requests evenly, r of them a nanosecond for each. P prompts are read together, in T_p
for the planned bucket and T = m T_p on average over all buckets; a step of B slots takes T_g. Prefills stop generation,
so of the time 1 - r T / P is left to steps. With A = B - (P - 1) / 2 slots in use at most and `out` tokens an answer:

    slots      r (T / P + out T_g / A) <= u              u: the load at which 99 % find a slot free
    prefill    r T / P <= most_busy
    tpot       T_g + (r L / P) T <= L                    T_g / (1 - r T / P) <= L
    tpot_p95   T_g + x T <= L                            x: prefills for each token in L, with a chance of 95 %
    ttft       T_g + g(T) <= L                           g: waiting for a full prefill, for those before it, the prefill

Where a step adds e tokens to a sequence, T_g / e is the time of a token, and the last row has the whole step. That one
is convex in T: it is planned by the chords of g, which lie above it, so the limit is kept. The first bounds an
uneven load: while prompts come faster steps come slower, so slots fill up less evenly than they would alone, with a
variance of up to 1 / (1 - r T / P)^2 of the mean. By Hayward's approximation that may be
r out T_g / A <= (1 - r T / P) u(B (1 - r T / P)^2), and u - r T / P is just below it. Sources of the formulas:
`cost_models/queueing.py`, docs/explanation/queues.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING

from cost_models.lengths import Lognormal
from cost_models.queueing import (
    gathering_p95,
    interruptions_p95,
    mean_wait_s,
    most_slot_utilization,
    p95_of_sum,
    p95_wait_s,
)

if TYPE_CHECKING:
    from planner.problem.problem import Limits, Place

NS = 1_000_000_000
COEFFICIENT = 2**14
"""Rows are scaled to this: fine enough to round by, small enough for sums of nanoseconds in 64 bits."""
CHORDS = 12

Row = tuple[Fraction | float, Fraction | float, Fraction | float]
"""a, b, c of a T_p + b T_g <= c."""


@dataclass(frozen=True)
class Arrivals:
    """Requests a second over the whole fleet, the part of the time that prefill may take, how long answers are, and the
    chips that the fleet may have."""

    per_s: Fraction
    most_busy: Fraction
    outputs: Lognormal
    fleet_chips: int | None = None

    def whole_rows(self, limits: "Limits", output: Fraction, at: "Place") -> "tuple[WholeRow, ...]":
        """The rows in whole numbers; places that differ in chips alone share them."""
        return _whole_rows(self, limits, output, at._replace(chips=1))

    def most_slices(self, chips: int) -> int:
        """The largest number of slices of so many chips."""
        return MOST_SLICES if self.fleet_chips is None else self.fleet_chips // chips

    def prefills_per_ns(self, at: "Place") -> Fraction:
        """Prefills a slice begins in a nanosecond."""
        return self.per_s / NS / at.slices / at.prompts

    def rows(self, limits: "Limits", output: Fraction, at: "Place") -> Iterator[Row]:
        """Everything that a slice has to keep, but HBM."""
        read = self.prefills_per_ns(at) * at.reading.mean
        made = 1 / at.tokens_per_step
        yield self.slots_row(output, at)
        yield read, Fraction(0), self.most_busy
        if limits.tpot is not None:
            yield read * limits.tpot, made, Fraction(limits.tpot)
        if limits.tpot_p95 is not None:
            most = self.interruptions_p95(limits.tpot_p95, at)
            yield float(at.reading.mean) * most, made, Fraction(limits.tpot_p95)
        if limits.ttft is not None:
            yield from chords(lambda ns: self.to_first_token_ns(ns, at), limits.ttft, 1 / read)
        if limits.ttft_p95 is not None:
            yield from chords(lambda ns: self.to_first_token_p95_ns(ns, at), limits.ttft_p95, 1 / read)

    def slots_row(self, output: Fraction, at: "Place") -> tuple[Fraction, Fraction, Fraction]:
        """What keeps slots free: its left side halves when slices double."""
        prefills, active = self.prefills_per_ns(at), at.batch - Fraction(at.prompts - 1, 2)
        most = Fraction(floor(most_slot_utilization(at.batch) * 1000), 1000)
        return prefills * at.reading.mean, prefills * at.prompts * output / at.tokens_per_step / active, most

    def interruptions_p95(self, token_ns: float, at: "Place") -> float:
        """The prefills for each token that 95 % of answers stay within, where a token takes so long."""
        return interruptions_p95(self.rate(at) * token_ns, self.outputs, 1.0 + at.reading.spread)

    def to_first_token_ns(self, prefill_ns: float, at: "Place") -> float:
        """Mean nanoseconds to the first token without the step in progress: g(T_p)."""
        reads = prefill_ns * float(at.reading.mean)
        waits = mean_wait_s(self.rate(at), reads, 1.0, at.reading.spread)
        return (at.prompts - 1) / 2 * self.between_ns + reads + waits

    def to_first_token_p95_ns(self, prefill_ns: float, at: "Place") -> float:
        """What 95 % of requests stay within."""
        reads = prefill_ns * float(at.reading.mean)
        queue = self.rate(at), reads, 1.0, at.reading.spread
        return p95_of_sum(
            (
                ((at.prompts - 1) / 2 * self.between_ns, gathering_p95(at.prompts) * self.between_ns),
                (reads, prefill_ns * float(at.reading.p95)),
                (mean_wait_s(*queue), p95_wait_s(*queue)),
            )
        )

    def rate(self, at: "Place") -> float:
        """Prefills a slice begins in a nanosecond, as a float: the curves are asked for often."""
        return self.float_per_s / NS / at.slices / at.prompts

    def filling_ns(self, prompts: int) -> Fraction:
        """Mean nanoseconds until the other prompts of a prefill have come."""
        return Fraction(prompts - 1, 2) * NS / self.per_s

    @property
    def between_ns(self) -> float:
        """Nanoseconds between requests on average: a router of the fleet brings those together that are read together,
        so it does not depend on the number of slices."""
        return NS / self.float_per_s

    @cached_property
    def float_per_s(self) -> float:
        """The rate as a float."""
        return float(self.per_s)

    def least_slices(self, output: Fraction, at: "Place") -> tuple[Fraction, Fraction]:
        """Slices that a nanosecond of T_p and one of T_g take, by the slots alone."""
        read, made, most = self.slots_row(output, at._replace(slices=1))
        return read / most, made / most


MOST_SLICES = 100_000


def chords(curve: Callable[[float], float], limit: int, end: Fraction | float) -> Iterator[Row]:
    """Rows that keep T_g + curve(T_p) below a limit, for a convex curve that is infinite at `end`."""
    last = largest(curve, limit, float(end))
    yield Fraction(1), Fraction(0), last
    points = [last * (1 - (1 - place / CHORDS) ** 2) for place in range(CHORDS + 1)]
    for low, high in pairwise(points):
        if high > low >= 0:
            slope = (curve(high) - curve(low)) / (high - low)
            yield slope, Fraction(1), limit - curve(low) + slope * low


def largest(curve: Callable[[float], float], limit: int, end: float) -> float:
    """The largest T_p with curve(T_p) <= limit, below 0 where there is none."""
    if curve(0.0) > limit:
        return -1.0
    low, high = 0.0, min(end, float(limit))
    for _ in range(60):
        middle = (low + high) / 2
        if curve(middle) <= limit:
            low = middle
        else:
            high = middle
    return low


WholeRow = tuple[int, int, int]


@cache
def _whole_rows(arrivals: Arrivals, limits: "Limits", output: Fraction, at: "Place") -> tuple[WholeRow, ...]:
    return tuple(whole(row) for row in arrivals.rows(limits, output, at))


def whole(row: Row) -> WholeRow:
    """A row in whole numbers, its left side rounded up and its right side down."""
    a, b, c = row
    largest_of = max(a, b)
    return ceil(a / largest_of * COEFFICIENT), ceil(b / largest_of * COEFFICIENT), floor(c / largest_of * COEFFICIENT)
