"""A problem for the solver: integer costs of every option of every block, for each mesh and batch that may be chosen.

Sets
    candidate   (mesh and prompts read together, batch); the solver chooses one and proves the rest no better
    block       attention, mlp, vocab; one option each
    residual    the layout of the residual stream in which the options of a candidate must agree
Prices of an option
    prefill_ns      prompts of the planned bucket, all layers
    generate_ns     one step of the batch, all layers
    hbm             64 KiB units per chip, rounded up (capacity is rounded down)
    change          what differs from an earlier plan (`near.py`); absent, and then 0, where there is none

Prices are asked for when a candidate is opened. Until then it has a floor, below any sum of prices of its options.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd, lcm
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cost_models.meshes import Mesh

UNIT_BYTES = 64 * 1024
NS = 1_000_000_000

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
GoalName = Literal["cost", "throughput", "latency", "hbm", "ttft", "tpot", "change"]
LimitName = Literal["hbm", "ttft", "tpot"]


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
    """All block options on one mesh of one slice, `prompts` read together by a prefill.

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
    """What a plan must keep: HBM units per chip, and means of TTFT and TPOT in nanoseconds. None: no limit."""

    hbm: int | None = None
    ttft: int | None = None
    tpot: int | None = None

    def named(self) -> dict[LimitName, int]:
        """The limits that are set, in the order in which a conflict names them."""
        pairs: tuple[tuple[LimitName, int | None], ...] = (("hbm", self.hbm), ("ttft", self.ttft), ("tpot", self.tpot))
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


def whole_weights(prefill: Fraction, generate: Fraction) -> Weights:
    """The quantity `prefill * T_prefill + generate * T_generate` in the smallest whole weights."""
    whole = lcm(prefill.denominator, generate.denominator)
    a, b = int(prefill * whole), int(generate * whole)
    return Weights(a // gcd(a, b), b // gcd(a, b), scale=Fraction(gcd(a, b), whole))


class Place(NamedTuple):
    """What a candidate's times are weighed by: chips, prompts read together, sequences generated together."""

    chips: int
    prompts: int
    batch: int


@dataclass(frozen=True)
class Problem:
    """Everything the solver needs, and nothing that it must compute from physics.

    A request is read, with others that its prefill reads together, and then takes `output_tokens` generate steps,
    shared by the whole batch. Prefills of the interleaved mode stop generation, so a token waits for its step and for
    its share of the other slots' prefills.
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

    def goal_weights(self, goal: GoalName, at: Place) -> Weights:
        """What `goal` minimises, in nanoseconds of a request (64 KiB units for HBM), exactly. P prompts, B sequences.

        A slot whose sequence has ended waits for P - 1 others before the prefill that fills them, so that
        A = B - (P - 1) / 2 sequences are generated on average.

        throughput  slice-seconds a request                T_prefill / P + out * T_generate / A
        cost        chip-seconds a request                 chips * throughput
        tpot        times output tokens                    A * throughput
        ttft        the other prompts of the prefill arrive, the step in progress ends, the prompts are read
                                                           (P - 1) / 2 * throughput + T_generate + T_prefill
        latency     from a request's arrival to its end    ttft + tpot
        """
        waiting = Fraction(at.prompts - 1, 2)
        active = at.batch - waiting
        served = Fraction(1, at.prompts), self.output_tokens / active
        match goal:
            case "hbm":
                return Weights(0, 0, 1)
            case "change":
                return Weights(0, 0, change=1)
            case "ttft":
                return whole_weights(*(waiting * each + 1 for each in served))
            case "latency":
                return whole_weights(*((waiting + active) * each + 1 for each in served))
        factor = {"cost": Fraction(at.chips), "tpot": active}.get(goal, Fraction(1))
        return whole_weights(*(factor * each for each in served))

    def units(self, name: GoalName, value: Fraction) -> int:
        """A value of a goal in the unit of its limit, rounded up: 64 KiB; nanoseconds, TPOT for one token."""
        return ceil(value / self.output_tokens if name == "tpot" else value)

    def limit_rows(self, at: Place) -> list[tuple[Weights, int]]:
        """Each limit and ceiling as a quantity and its bound."""
        rows = list(self.named_rows(at).values())
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
            rows[name] = weights, floor(bound * (self.output_tokens if name == "tpot" else 1) / weights.scale)
        return rows
