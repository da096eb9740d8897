"""What a fleet of prefill slices and generate slices has to serve, and the exact consequences of its step times.

A prefill slice reads P prompts in T_p, a generate slice adds a token to each of B sequences in T_g, handing over a
prompt takes x, all in nanoseconds. n_p and n_g slices serve

    closed loop   X = min(n_p / max(T_p / P, x), n_g / max(out T_g / B, x))    requests a nanosecond, slots stay full
    arrivals      a given rate, with n_g such that slots stay free, n_p such that prompts do not wait too long

    TPOT = T_g        TTFT = filling + waiting + T_p + P x + T_g        the last for the next step to begin

Nothing that is minimised falls when a step takes longer, so bounds of steps give bounds of fleets; the bounds of the
two sides add up, so that a search sees which pairs are worth a look.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cost_models.lengths import Reading
from cost_models.queueing import most_slot_utilization
from planner.problem.arrivals import NS, Arrivals
from planner.problem.handover import Link
from planner.problem.problem import GoalName, Limits, Place

Floats = npt.NDArray[np.float64]
MOST_SLICES = 4096
"""The most slices of a pool: beyond it the next larger slice would be taken."""
FEW = 8
CHIP_NS = 1e15
"""What a chip of a fleet counts for where requests arrive at random: more than the goal can ever be."""


class PrefillSide(NamedTuple):
    """A slice that reads `prompts` together, in a time or in a bound on it; `reading` is what all prefills
    take, in times of the planned one."""

    chips: int
    prompts: int
    ns: float
    reading: Reading
    stages: int = 1

    @property
    def read_ns(self) -> float:
        """Nanoseconds between the ends of two prefills: stages of a pipeline read several at once."""
        return self.ns / self.stages


class GenerateSide(NamedTuple):
    """A slice that generates a batch of sequences, in a time or in a bound on it."""

    chips: int
    batch: int
    ns: float
    tokens_per_step: float = 1.0

    @property
    def token_ns(self) -> float:
        """Nanoseconds for each token of a sequence."""
        return self.ns / self.tokens_per_step


class Pair(NamedTuple):
    """A slice of either kind, and the link over which a prompt is handed over in `sent_ns`."""

    prefill: PrefillSide
    generate: GenerateSide
    link: Link
    sent_ns: float

    def chips(self, prefill_slices: int, slices: int) -> int:
        """Chips of so many slices of each kind."""
        return prefill_slices * self.prefill.chips + slices * self.generate.chips


class Choice(NamedTuple):
    """Numbers of slices for one pair, chips of the fleet, the goal, what they serve. `chips` is infinite for none."""

    chips: float
    goal: float
    prefill_slices: int
    slices: int
    per_ns: float
    ttft: float


NONE = Choice(float("inf"), float("inf"), 0, 0, 0.0, float("inf"))


@dataclass(frozen=True)
class Demand:
    """What is asked of a fleet: answers of so many tokens, under limits, at a rate or for so many clients at once."""

    output_tokens: float
    goal: GoalName
    limits: Limits
    concurrency: int
    fleet_chips: int | None
    arrivals: Arrivals | None = None

    def best(self, prefill: PrefillSide, generate: GenerateSide, link: Link, sent_bytes: float) -> Choice:
        """The best numbers of slices for a pair over a link."""
        if not np.isfinite(prefill.ns + generate.ns) or self.too_slow(generate.token_ns):
            return NONE
        pair = Pair(prefill, generate, link, link.ns_per_byte * sent_bytes)
        if self.arrivals is not None:
            found = [self.at_rate(pair, self.arrivals)]
        else:
            found = [
                self.closed_with(pair, reading, slices)
                for slices in self.counts(generate)
                for reading in self.feeding(pair, slices)
            ]
        within = [each for each in found if self.fits(each, link)]
        return min(within, key=lambda each: (self.value(each), each.chips), default=NONE)

    def value(self, choice: Choice) -> float:
        """What is minimised: the goal, and where requests arrive at random the chips of the fleet before it."""
        return (CHIP_NS * choice.chips if self.arrivals and self.goal == "cost" else 0.0) + choice.goal

    def prefill_bound(self, side: PrefillSide) -> float:
        """What a prefill slice adds to the value at least."""
        reads = side.read_ns / side.prompts
        if self.arrivals is not None and self.goal == "cost":
            slices = self.prefill_slices(side, 0.0, 0.0, self.arrivals)
            paid = CHIP_NS * side.chips * slices if slices <= MOST_SLICES else float("inf")
            return paid + self.reading_ns(side, self.arrivals)
        return self.share(side.chips, reads, {"latency": side.ns, "ttft": side.ns, "tpot": 0.0})

    def generate_bound(self, side: GenerateSide) -> float:
        """What a generate slice adds to the value at least."""
        if self.too_slow(side.token_ns):
            return float("inf")
        makes = self.output_tokens * side.token_ns / side.batch
        whole = side.ns + self.output_tokens * side.token_ns
        if self.arrivals is not None and self.goal == "cost":
            free = most_slot_utilization(side.batch) * side.batch
            slices = at_least(float(self.arrivals.per_s) / NS * self.output_tokens * side.token_ns / free)
            return CHIP_NS * side.chips * slices + whole
        return self.share(side.chips, makes, {"latency": whole, "ttft": side.ns, "tpot": side.token_ns})

    @staticmethod
    def reading_ns(side: PrefillSide, arrivals: Arrivals) -> float:
        """What a prompt takes on a slice of its own, from its arrival to the end of its prefill."""
        return float(arrivals.filling_ns(side.prompts)) + side.ns * float(side.reading.mean)

    def share(self, chips: int, request_ns: float, otherwise: dict[str, float]) -> float:
        """The share of a side in a closed loop: chip-nanoseconds of a request, or its part of the fleet's chips."""
        if self.goal == "cost":
            return chips * request_ns
        if self.goal == "throughput":
            return chips * request_ns / self.fleet_chips if self.fleet_chips else 0.0
        return otherwise[self.goal]

    def too_slow(self, token_ns: float) -> bool:
        """Whether a token breaks a limit on TPOT; all steps are alike, so its tail is its mean."""
        limits = (self.limits.tpot, self.limits.tpot_p95)
        return any(limit is not None and token_ns > limit for limit in limits)

    def fits(self, choice: Choice, link: Link) -> bool:
        """Whether a fleet may have so many chips, and keeps to where the link is."""
        most = [each for each in (self.fleet_chips, link.most_chips) if each is not None]
        alone = not link.one_each or (choice.prefill_slices, choice.slices) == (1, 1)
        return alone and all(choice.chips <= each for each in most)

    def counts(self, generate: GenerateSide) -> list[int]:
        """Numbers of generate slices that a closed loop may have: those whose slots its clients fill."""
        if self.goal == "latency":
            return [self.concurrency // generate.batch] if self.concurrency % generate.batch == 0 else []
        most = self.concurrency // generate.batch
        few = range(1, min(most, FEW) + 1)
        steps = {factor * 2**power for factor in (1, 3) for power in range(most.bit_length())}
        return sorted({*few, *(each for each in steps if each <= most)})

    def feeding(self, pair: Pair, slices: int) -> set[int]:
        """Numbers of prefill slices for so many generate slices: around what feeds them, no more than there may be.

        Clients of a closed loop fill the slots and the prefills; latency is asked for with all of them in slots.
        Up to there one more serves more requests for each chip, beyond it only adds chips.
        """
        prefill, generate, link, _ = pair
        reads, makes = self.request_ns(pair)
        fed = reads * slices / makes
        found = {max(1, int(np.floor(fed))), max(1, int(np.ceil(fed)))}
        rooms = [1 if link.one_each else MOST_SLICES]
        for most in (self.fleet_chips, link.most_chips):
            rooms += [] if most is None else [(most - slices * generate.chips) // prefill.chips]
        if self.goal != "latency":
            rooms.append((self.concurrency - slices * generate.batch) // (prefill.prompts * prefill.stages))
        room = min(rooms)
        return {min(each, room) for each in found} if room > 0 else set()

    def request_ns(self, pair: Pair) -> tuple[float, float]:
        """Nanoseconds of a prefill slice and of a generate slice for one request."""
        prefill, generate, _, sent_ns = pair
        reads = max(prefill.read_ns / prefill.prompts, sent_ns)
        return reads, max(self.output_tokens * generate.token_ns / generate.batch, sent_ns)

    def closed_with(self, pair: Pair, prefill_slices: int, slices: int) -> Choice:
        """A closed loop with these numbers of slices."""
        prefill, generate, _, sent_ns = pair
        reads, makes = self.request_ns(pair)
        between = max(reads / prefill_slices, makes / slices)
        filling = (prefill.prompts - 1) / 2 * between
        ttft = filling + prefill.ns + prefill.prompts * sent_ns + generate.ns
        if self.limits.ttft is not None and ttft > self.limits.ttft:
            return NONE
        chips = pair.chips(prefill_slices, slices)
        goals = {"cost": chips * between, "throughput": between}
        goals |= {"latency": ttft + self.output_tokens * generate.token_ns, "ttft": ttft, "tpot": generate.token_ns}
        return Choice(chips, goals[self.goal], prefill_slices, slices, 1 / between, ttft)

    def at_rate(self, pair: Pair, arrivals: Arrivals) -> Choice:
        """The fewest slices that a rate of arrivals needs."""
        prefill, generate, _, sent_ns = pair
        per_ns = float(arrivals.per_s) / NS
        free = most_slot_utilization(generate.batch) * generate.batch
        busy = float(arrivals.most_busy)
        slices = at_least(max(per_ns * self.output_tokens * generate.token_ns / free, per_ns * sent_ns / busy))
        waits = self.waiting_ns(prefill, arrivals)
        prefill_slices = self.prefill_slices(prefill, generate.ns, sent_ns, arrivals)
        if prefill_slices > MOST_SLICES or slices > MOST_SLICES:
            return NONE
        chips = pair.chips(prefill_slices, slices)
        later = prefill.prompts * sent_ns + generate.ns
        alone = self.reading_ns(prefill, arrivals) + later + self.output_tokens * generate.token_ns
        ttft = float(waits.mean[prefill_slices - 1]) + later
        goals = {"cost": alone, "ttft": ttft, "tpot": generate.token_ns}
        return Choice(chips, goals[self.goal], prefill_slices, slices, per_ns, ttft)

    def prefill_slices(self, side: PrefillSide, step_ns: float, sent_ns: float, arrivals: Arrivals) -> int:
        """The fewest prefill slices that keep up, whose links do, and whose prompts wait no longer than they may."""
        waits = self.waiting_ns(side, arrivals)
        spare = [
            (limit - step_ns - side.prompts * sent_ns, own)
            for limit, own in ((self.limits.ttft, waits.mean), (self.limits.ttft_p95, waits.p95))
            if limit is not None
        ]
        kept = [int(np.searchsorted(-own, -left)) + 1 for left, own in spare]
        sent = at_least(float(arrivals.per_s) / NS * sent_ns / float(arrivals.most_busy))
        return max([sent, waits.least, *kept])

    def waiting_ns(self, prefill: PrefillSide, arrivals: Arrivals) -> "Waits":
        """What a prompt takes until its prefill is done, for every number of prefill slices."""
        key = prefill, arrivals
        if key not in self._waits:
            self._waits[key] = Waits.of(prefill, arrivals)
        return self._waits[key]

    @cached_property
    def _waits(self) -> "dict[tuple[PrefillSide, Arrivals], Waits]":
        return {}


def at_least(slices: float) -> int:
    """Whole slices, one at least."""
    return max(1, int(np.ceil(slices)))


@dataclass(frozen=True)
class Waits:
    """Nanoseconds from a prompt's arrival to the end of its prefill, for 1, 2, … slices; infinite below the least."""

    mean: Floats
    p95: Floats
    least: int

    @classmethod
    def of(cls, prefill: PrefillSide, arrivals: Arrivals) -> "Waits":
        """The waits of a prefill slice."""
        read_ns, taken = prefill.read_ns, prefill.reading
        later_ns = prefill.ns - read_ns
        reads = read_ns * float(taken.mean) / prefill.prompts
        least = at_least(float(arrivals.per_s) / NS * reads / float(arrivals.most_busy))
        mean, p95 = np.full(MOST_SLICES, np.inf), np.full(MOST_SLICES, np.inf)
        for slices in numbers(least):
            at = Place(prefill.chips, prefill.prompts, 1, slices=slices, reading=taken)
            mean[slices - 1] = arrivals.to_first_token_ns(read_ns, at) + later_ns * float(taken.mean)
            p95[slices - 1] = arrivals.to_first_token_p95_ns(read_ns, at) + later_ns * float(taken.p95)
        return cls(np.minimum.accumulate(mean), np.minimum.accumulate(p95), least)


def numbers(least: int) -> list[int]:
    """Numbers of prefill slices that are tried: each from the least on, beyond 64 in steps that grow with them."""
    found = []
    slices = least
    while slices <= MOST_SLICES:
        found.append(slices)
        slices += max(1, slices // 64)
    return found
