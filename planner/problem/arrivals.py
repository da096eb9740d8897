"""Requests that arrive at random: what keeps slots free, prefills in step and waits within limits, as linear rows.

A fleet of n slices shares the requests evenly, r of them a nanosecond for each. P prompts are read together, in T_p; a
step of B slots takes T_g. Prefills stop generation, so of the time 1 - r T_p / P is left to steps. With
A = B - (P - 1) / 2 slots in use at most and `out` tokens an answer:

    slots      r out T_g / (1 - r T_p / P) <= u A        u: the part that may be taken so that 95 % find a slot free
    prefill    r T_p / P <= most_busy
    tpot       out T_g + (r out L / P) T_p <= out L      T_g / (1 - r T_p / P) <= L
    tpot_p95   out T_g + q T_p <= out L                  q: prefills that come in out L, with a chance of 95 %
    ttft       T_g + g(T_p) <= L                         g: waiting for a full prefill, for those before it, the prefill

The last is convex in T_p: it is planned by the chords of g, which lie above it, so the limit is kept. Sources of the
formulas: `cost_models/queueing.py`, docs/explanation/queues.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING

from cost_models.queueing import mean_wait_s, most_slot_utilization, p95_wait_s, poisson_p95

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
    """Requests a second over the whole fleet, the part of the time that prefill may take, the squared coefficient of
    variation of prompt lengths, and the chips that the fleet may have."""

    per_s: Fraction
    most_busy: Fraction
    prompt_spread: float
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
        prefills = self.prefills_per_ns(at)
        yield self.slots_row(output, at)
        yield prefills, Fraction(0), self.most_busy
        if limits.tpot is not None:
            yield prefills * output * limits.tpot, output, output * limits.tpot
        if limits.tpot_p95 is not None:
            within = poisson_p95(float(prefills * output * limits.tpot_p95))
            yield Fraction(within), output, output * limits.tpot_p95
        if limits.ttft is not None:
            yield from chords(lambda ns: self.to_first_token_ns(ns, at), limits.ttft, 1 / prefills)
        if limits.ttft_p95 is not None:
            yield from chords(lambda ns: self.to_first_token_p95_ns(ns, at), limits.ttft_p95, 1 / prefills)

    def slots_row(self, output: Fraction, at: "Place") -> tuple[Fraction, Fraction, Fraction]:
        """What keeps slots free: its left side halves when slices double."""
        prefills, active = self.prefills_per_ns(at), at.batch - Fraction(at.prompts - 1, 2)
        taken = Fraction(floor(most_slot_utilization(at.batch) * 1000), 1000) * active
        return taken * prefills, prefills * at.prompts * output, taken

    def to_first_token_ns(self, prefill_ns: float, at: "Place") -> float:
        """Mean nanoseconds to the first token without the step in progress: g(T_p)."""
        waits = mean_wait_s(self.rate(at), prefill_ns, 1.0, self.prompt_spread)
        return self.filling_ns(at) + prefill_ns + waits

    def to_first_token_p95_ns(self, prefill_ns: float, at: "Place") -> float:
        """What 95 % of requests stay within, of a prompt of the 95th percentile."""
        waits = p95_wait_s(self.rate(at), prefill_ns, 1.0, self.prompt_spread)
        return 2 * self.filling_ns(at) + prefill_ns * float(at.stretch) + waits

    def rate(self, at: "Place") -> float:
        """Prefills a slice begins in a nanosecond, as a float: the curves are asked for often."""
        return self.float_per_s / NS / at.slices / at.prompts

    def filling_ns(self, at: "Place") -> float:
        """Mean nanoseconds until the other prompts of a prefill have come: a router of the fleet brings them together,
        so it does not depend on the number of slices."""
        return (at.prompts - 1) / 2 / (self.float_per_s / NS)

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
