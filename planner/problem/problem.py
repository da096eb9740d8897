"""A problem for the solver: integer costs of every option of every block, for each mesh and batch that may be chosen.

Sets
    candidate   (mesh, prompts read together, their chunk, batch); the solver chooses one and proves the rest no better
    block       attention, mlp, vocab; one option each
    residual    the layout of the residual stream in which the options of a candidate must agree
Prices of an option
    prefill_ns      prompts of the planned bucket, all layers
    generate_ns     one step of the batch, all layers
    hbm             64 KiB units per chip, rounded up (capacity is rounded down)
    change          what differs from an earlier plan (`near.py`); absent, and then 0, where there is none

Prices are asked for when a candidate is opened. Until then it has a floor, below any sum of prices of its options.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd, lcm
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cost_models.lengths import AS_PLANNED, Reading
from cost_models.meshes import Mesh
from planner.problem.arrivals import Arrivals

UNIT_BYTES = 64 * 1024
NS = 1_000_000_000

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LimitName = Literal["hbm", "ttft", "tpot", "ttft_p95", "tpot_p95", "fleet_chips"]
GoalName = LimitName | Literal["cost", "throughput", "latency", "prefill", "generate", "change"]


@dataclass(frozen=True)
class Column:
    """Prices of all options of a block that depend on the batch, and which options are legal at it."""

    generate_ns: Ints
    hbm: Ints
    legal: Bools


@dataclass(frozen=True, eq=False)
class Block:
    """Options of one block on one mesh, one row each. `price` gives the column of a batch, by its index."""

    name: str
    options: Sequence[Any]
    residual: Ints
    prefill_ns: Ints
    price: Callable[[int], Column]
    change: Ints | None = None
    """[options, batches]"""
    _columns: dict[int, Column] = field(default_factory=dict, repr=False)

    def column(self, batch_index: int) -> Column:
        """The column of a batch, priced once."""
        if batch_index not in self._columns:
            self._columns[batch_index] = self.price(batch_index)
        return self._columns[batch_index]

    def changes(self, batch_index: int) -> Ints:
        """The change of every option at a batch."""
        return np.zeros_like(self.prefill_ns) if self.change is None else self.change[:, batch_index]

    def change_of(self, row: int, batch_index: int) -> int:
        """The change of one option at a batch."""
        return 0 if self.change is None else int(self.change[row, batch_index])


class Stored(NamedTuple):
    """Lower bounds on a block for each way of storing its weights."""

    prefill_ns: Ints
    """[ways]"""
    generate_ns: Ints
    """[ways, batches]"""
    fits: Bools
    """[ways, batches], those that HBM can hold beside the least of everything else; at least one for each batch."""


@dataclass(frozen=True)
class Floor:
    """Lower bounds on what any solution on a mesh costs.

    Each block has so many ways of storing its weights, and each a bound on its prefill and its step; what is left, and
    HBM, does not depend on them.
    """

    stored: tuple[Stored, ...]
    """One for each block whose weights may be stored in several ways."""
    prefill_ns: int
    generate_ns: Ints
    """[batches]"""
    hbm: Ints
    """[batches]"""

    def least(self, weights: "Weights", at: int) -> int:
        """A lower bound on a quantity at a batch."""
        found = weights.of(self.prefill_ns, int(self.generate_ns[at]), int(self.hbm[at]))
        for prefill_ns, generate_ns, fits in self.stored:
            costs = weights.prefill * prefill_ns + weights.generate * generate_ns[:, at]
            found += int(costs[fits[:, at]].min())
        return found


@dataclass(frozen=True, eq=False)
class MeshTable:
    """All block options on one mesh of one slice, `prompts` read together by a prefill, of `steps` chunks.

    Options agree on the residual stream when their index is equal. `source` is what the prices were made by.
    """

    slice: str
    chips: int
    mesh: Mesh
    prompts: int
    residuals: int
    floors: Callable[[int | None], Floor]
    """The floor of what fits in the HBM limit."""
    price: Callable[[], tuple[Block, ...]]
    source: Any = None
    reading: Reading = AS_PLANNED
    """What prefills take, in times of the planned one."""
    chunk: int | None = None
    """Tokens of each prompt that a step of prefill reads; None for whole prompts."""
    steps: int = 1
    """Steps that the planned bucket takes."""
    drafts: Any = None
    """What a generate step verifies, `drafts.Drafts`; None for plain steps."""
    tokens_per_step: Fraction = Fraction(1)
    """Tokens that a generate step adds to a sequence."""
    _floors: dict[int | None, Floor] = field(default_factory=dict, repr=False)

    def floor(self, hbm: int | None) -> Floor:
        """The floor under an HBM limit, computed once."""
        if hbm not in self._floors:
            self._floors[hbm] = self.floors(hbm)
        return self._floors[hbm]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, priced once."""
        return self.price()


@dataclass(frozen=True)
class Limits:
    """What a plan must keep: HBM units per chip, means and tails of TTFT and TPOT in nanoseconds. None: no limit."""

    hbm: int | None = None
    ttft: int | None = None
    tpot: int | None = None
    ttft_p95: int | None = None
    tpot_p95: int | None = None

    def named(self) -> dict[LimitName, int]:
        """The limits that are set, in the order in which a conflict names them."""
        pairs: tuple[tuple[LimitName, int | None], ...] = (
            ("hbm", self.hbm),
            ("ttft", self.ttft),
            ("tpot", self.tpot),
            ("ttft_p95", self.ttft_p95),
            ("tpot_p95", self.tpot_p95),
        )
        return {name: value for name, value in pairs if value is not None}

    def without(self, name: LimitName) -> "Limits":
        """These limits with one dropped."""
        return replace(self, **{name: None})


@dataclass(frozen=True, slots=True)
class Weights:
    """A linear quantity of a candidate, `scale` times a weighted sum of the four prices of its options."""

    prefill: int
    generate: int
    hbm: int = 0
    scale: Fraction = Fraction(1)
    change: int = 0

    def of(self, prefill_ns: int, generate_ns: int, hbm: int, change: int = 0) -> int:
        """The quantity, exactly, without the scale."""
        return self.prefill * prefill_ns + self.generate * generate_ns + self.hbm * hbm + self.change * change


LARGEST_WEIGHT = 2**22
"""Weights times nanoseconds stay exact in 64 bits for prefills of minutes."""


def whole_weights(prefill: Fraction, generate: Fraction) -> Weights:
    """The quantity `prefill * T_prefill + generate * T_generate` in the smallest whole weights.

    Where these are large, in the largest that are allowed, rounded up: less than a nanosecond is rounded up anyway.
    """
    whole = lcm(prefill.denominator, generate.denominator)
    a, b = int(prefill * whole), int(generate * whole)
    scale = Fraction(gcd(a, b), whole)
    weights = Weights(a // gcd(a, b), b // gcd(a, b), scale=scale)
    most = max(weights.prefill, weights.generate)
    if most <= LARGEST_WEIGHT:
        return weights
    unit = Fraction(most, LARGEST_WEIGHT)
    return Weights(ceil(weights.prefill / unit), ceil(weights.generate / unit), scale=scale * unit)


def steps_of_request(output_tokens: int, tokens_per_step: Fraction) -> Fraction:
    """Generate steps that make so many tokens, in quarters: goals are sums of nanoseconds in 64 bits, so their weights
    are kept small."""
    if tokens_per_step == 1:
        return Fraction(output_tokens)
    return Fraction(max(1, round(4 * output_tokens / tokens_per_step)), 4)


class Place(NamedTuple):
    """What a candidate's times are weighed by: chips, prompts read together, sequences generated together, how many
    slices share the requests, what prefills take in times of the planned one."""

    chips: int
    prompts: int
    batch: int
    between: int = 0
    """Generate steps between the chunks of a prefill, for which its slots and its prompts wait."""
    tokens_per_step: Fraction = Fraction(1)
    """Tokens that a generate step adds to a sequence."""
    slices: int = 1
    reading: Reading = AS_PLANNED

    @classmethod
    def of(cls, chips: int, prompts: int, batch: int, steps: int = 1, tokens: Fraction = Fraction(1)) -> "Place":
        """The place of prefills of `steps` chunks: a generate step after each but the last, if others are generated."""
        return cls(chips, prompts, batch, steps - 1 if batch > prompts else 0, tokens)


PER_TOKEN = ("tpot", "tpot_p95")
ALONE: Mapping[str, Callable[[Reading, Fraction], tuple[Fraction, Fraction]]] = {
    "ttft": lambda reading, steps: (reading.mean, Fraction(1)),
    "tpot": lambda reading, steps: (Fraction(0), steps),
    "ttft_p95": lambda reading, steps: (reading.p95, Fraction(1)),
    "tpot_p95": lambda reading, steps: (Fraction(0), steps),
}
"""Shares of T_prefill and T_generate in what a request takes when it has a slice to itself: the least there can be."""


@dataclass(frozen=True)
class Problem:
    """Everything the solver needs, and nothing that it must compute from physics.

    A request is read, with others that its prefill reads together, and then takes a generate step for each of its
    `output_tokens`, or fewer where steps add several, shared by the whole batch. Prefills of the interleaved mode stop
    generation, so a token waits for its step and for its share of the other slots' prefills. Between the chunks of a
    prefill a generate step runs.
    """

    meshes: tuple[MeshTable, ...]
    batches: tuple[int, ...]
    output_tokens: int
    goal: GoalName
    limits: Limits
    ceilings: tuple[tuple[GoalName, Fraction], ...] = ()
    """Goals that a solution must reach besides, each with the most it may be."""
    below: tuple[tuple[GoalName, Fraction], ...] = ()
    """Goals that a solution must keep strictly below a value."""
    arrivals: Arrivals | None = None
    """Requests that arrive at random, served by a fleet: the fewest chips first, then what a request takes."""

    @property
    def fleet(self) -> Arrivals | None:
        """The arrivals that take a fleet: those with a rate above 0."""
        return self.arrivals if self.arrivals and self.arrivals.per_s else None

    def goal_weights(self, goal: GoalName, at: Place) -> Weights:
        """What `goal` minimises, in nanoseconds of a request (64 KiB units for HBM), exactly. P prompts, B sequences.

        A slot whose sequence has ended waits for P - 1 others before the prefill that fills them, so that
        A = B - (P - 1) / 2 sequences are generated on average. The tokens of a request take s generate steps
        (`steps_of_request`). With n chunks and a generate step between any two, its slot is held for b = n - 1 more.

        With arrivals chips are paid for, used or not: after them comes what a request takes on a slice of its own,
        T_prefill on average over all buckets and (1 + s) * T_generate. Else

        throughput  slice-seconds a request                T_prefill / P + (s + b) * T_generate / A
        cost        chip-seconds a request                 chips * throughput
        tpot        times output tokens                    A * T_prefill / P + s * T_generate
        ttft        the other prompts of the prefill arrive, the step in progress ends, the prompts are read
                                                           (P - 1) / 2 * throughput + (1 + b) * T_generate + T_prefill
        latency     from a request's arrival to its end    ttft + tpot
        """
        waiting, steps = Fraction(at.prompts - 1, 2), steps_of_request(self.output_tokens, at.tokens_per_step)
        if self.arrivals is not None and goal in ALONE:
            return whole_weights(*ALONE[goal](at.reading, steps))
        if self.fleet is not None and goal == "cost":
            return whole_weights(at.reading.mean, 1 + steps)
        active = at.batch - waiting
        read, step = Fraction(1, at.prompts), (steps + at.between) / active
        first = waiting * read + 1, waiting * step + 1 + at.between
        match goal:
            case "hbm":
                return Weights(0, 0, 1)
            case "change":
                return Weights(0, 0, change=1)
            case "prefill":
                return Weights(1, 0)
            case "generate":
                return Weights(0, 1)
            case "ttft":
                return whole_weights(*first)
            case "tpot":
                return whole_weights(active * read, steps)
            case "latency":
                return whole_weights(first[0] + active * read, first[1] + steps)
            case "cost":
                return whole_weights(at.chips * read, at.chips * step)
        return whole_weights(read, step)

    def units(self, name: GoalName, value: Fraction) -> int:
        """A value of a goal in the unit of its limit, rounded up: 64 KiB; nanoseconds, TPOT for one token."""
        return ceil(value / self.output_tokens if name in PER_TOKEN else value)

    def limit_rows(self, at: Place) -> list[tuple[Weights, int]]:
        """Each limit and ceiling as a quantity and its bound; with arrivals what a slice must keep up with too."""
        rows = list(self.named_rows(at).values())
        if self.fleet is not None:
            loaded = self.fleet.whole_rows(self.limits, Fraction(self.output_tokens), at)
            rows += [(Weights(prefill, generate), bound) for prefill, generate, bound in loaded]
        for goal, most in self.ceilings:
            weights = self.goal_weights(goal, at)
            rows.append((weights, floor(most / weights.scale)))
        for goal, above in self.below:
            weights = self.goal_weights(goal, at)
            rows.append((weights, ceil(above / weights.scale) - 1))
        return rows

    def named_rows(self, at: Place) -> dict[LimitName, tuple[Weights, int]]:
        """Each limit as a quantity and its bound, by its name."""
        rows = {}
        for name, bound in self.limits.named().items():
            weights = self.goal_weights(name, at)
            rows[name] = weights, floor(bound * (self.output_tokens if name in PER_TOKEN else 1) / weights.scale)
        return rows
