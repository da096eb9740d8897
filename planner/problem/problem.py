"""A finished problem: integer costs of every option of every block, for each mesh and batch that may be chosen.

Sets
    candidate   (mesh, batch); the solver chooses one and proves the rest no better
    block       attention, mlp, vocab; one option each
    residual    the layout of the residual stream in which the options of a candidate must agree
Prices of an option
    prefill_ns      one prompt of the planned bucket, all layers
    generate_ns     one step of the batch, all layers
    hbm             64 KiB units per chip, rounded up (capacity is rounded down)
    change          what differs from an earlier plan (`near.py`); absent, and then 0, where there is none
"""

from dataclasses import dataclass, replace
from math import lcm
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from planner.problem.meshes import Mesh

UNIT_BYTES = 64 * 1024
NS = 1_000_000_000

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
GoalName = Literal["cost", "throughput", "latency", "hbm", "ttft", "tpot", "change"]
LimitName = Literal["hbm", "ttft", "tpot"]


@dataclass(frozen=True)
class Block:
    """Options of one block on one mesh, one row each; the batch is the second index where there is one."""

    name: str
    options: tuple[Any, ...]
    residual: Ints
    prefill_ns: Ints
    generate_ns: Ints
    hbm: Ints
    legal: Bools
    change: Ints | None = None

    def changes(self, batch_index: int) -> Ints:
        """The change of every option at a batch."""
        return np.zeros_like(self.prefill_ns) if self.change is None else self.change[:, batch_index]

    def change_of(self, row: int, batch_index: int) -> int:
        """The change of one option at a batch."""
        return 0 if self.change is None else int(self.change[row, batch_index])


@dataclass(frozen=True)
class MeshTable:
    """All block options on one mesh of one slice. Options agree on the residual stream when their index is equal."""

    slice: str
    chips: int
    mesh: Mesh
    residuals: int
    blocks: tuple[Block, ...]


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
    scale: int = 1
    change: int = 0

    def of(self, prefill_ns: int, generate_ns: int, hbm: int, change: int = 0) -> int:
        """The quantity, exactly, without the scale."""
        return self.prefill * prefill_ns + self.generate * generate_ns + self.hbm * hbm + self.change * change


@dataclass(frozen=True)
class Problem:
    """Everything the solver needs, and nothing that it must compute from physics.

    A request reads one prompt and then takes `output_tokens` generate steps, shared by the whole batch. Prefills of
    the interleaved mode stop generation, so a token waits for its step and for its share of the other slots' prefills.
    """

    meshes: tuple[MeshTable, ...]
    batches: tuple[int, ...]
    output_tokens: int
    goal: GoalName
    limits: Limits
    ceilings: tuple[tuple[GoalName, int], ...] = ()
    """Goals that a solution must reach besides, each with the most it may be, as `goal_weights` scales it."""

    @property
    def batch_multiple(self) -> int:
        """The least common multiple of the batches: it makes costs per request of different batches integers."""
        return lcm(*self.batches)

    @property
    def goal_multiple(self) -> int:
        """What the goal of one request is multiplied by, in nanoseconds, so that it is an integer."""
        return self.batch_multiple if self.goal in ("cost", "throughput") else 1

    def goal_weights(self, goal: GoalName, chips: int, batch: int) -> Weights:
        """What `goal` minimises, as an exact integer that compares between candidates.

        cost        chip-nanoseconds a request             chips * (B*T_prefill + out*T_generate) / B
        throughput  slice-nanoseconds a request            (B*T_prefill + out*T_generate) / B
        latency     from a request's prefill to its end    T_prefill + (B*T_prefill + out*T_generate)
        ttft        one step in progress, then the prompt  T_prefill + T_generate
        tpot        times output tokens                    B*T_prefill + out*T_generate
        """
        served = Weights(batch, self.output_tokens, scale=self.batch_multiple // batch)
        match goal:
            case "cost":
                return replace(served, scale=served.scale * chips)
            case "throughput":
                return served
            case "latency":
                return Weights(batch + 1, self.output_tokens)
            case "ttft":
                return Weights(1, 1)
            case "tpot":
                return Weights(batch, self.output_tokens)
            case "hbm":
                return Weights(0, 0, 1)
            case "change":
                return Weights(0, 0, change=1)

    def limit_rows(self, chips: int, batch: int) -> list[tuple[Weights, int]]:
        """Each limit and ceiling as a quantity and its bound."""
        rows = list(self.named_rows(chips, batch).values())
        for goal, most in self.ceilings:
            weights = self.goal_weights(goal, chips, batch)
            rows.append((weights, most // weights.scale))
        return rows

    def named_rows(self, chips: int, batch: int) -> dict[LimitName, tuple[Weights, int]]:
        """Each limit as a quantity and its bound, by its name."""
        return {
            name: (self.goal_weights(name, chips, batch), bound * self.output_tokens if name == "tpot" else bound)
            for name, bound in self.limits.named().items()
        }
