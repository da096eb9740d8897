"""A sweep as data: every setting, every layout that was solved for it, and what is on the frontier.

The JSON output is these records. Sizes are bytes, times are seconds; numbers have six significant digits.
"""

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from planner.plan.records import Fleet, Hbm, MeshAxis, Record
from planner.plan.schema import Copies, GenerateRules, PrefillRules, Service, Strategy
from planner.problem.problem import LimitName

FORMAT_VERSION = "1.0"

LatencyName = Literal["tpot", "ttft"]
AgainstName = Literal["throughput", "cost"]
BestFor = Literal["tpot", "ttft", "throughput", "cost", "objective"]
Values = dict[str, str | int]
"""The values of one setting by what is varied: `slice`, `generate.batch`, then the others as they were written."""


class Point(Record):
    """One setting with one proved layout.

    `best_for` says at which end of its setting's own trade-off the layout stands, and is empty in between; `objective`
    is what `plan` takes when the setting is pinned. `chosen` is what it takes for the spec as it is.
    """

    values: Values
    chips: int
    mesh: tuple[MeshAxis, ...]
    prefill_rules: PrefillRules
    generate_rules: GenerateRules
    prefill_copies: Copies | None = None
    prefill_strategy: Strategy
    generate_strategy: Strategy
    prefill_step_s: float
    generate_step_s: float
    service: Service
    fleet: Fleet | None = None
    hbm: Hbm
    best_for: tuple[BestFor, ...]
    on_frontier: bool = False
    chosen: bool = False
    accuracy: str = Field(default="", exclude=True)

    @property
    def layout(self) -> tuple[object, ...]:
        """What tells two points of the same spec apart: slice, batch, mesh, rules and copies."""
        return (
            self.values["slice"],
            self.values["generate.batch"],
            self.mesh,
            self.prefill_rules,
            self.prefill_copies,
            self.generate_rules,
        )

    @model_serializer(mode="wrap")
    def _told(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value is not None or name != "prefill_copies"}


class Conflict(Record):
    """One limit that an infeasible setting breaks: the bound, and the least any layout needs (bytes or seconds)."""

    limit: LimitName
    have: float
    need: float


class Infeasible(Record):
    """A setting without a plan; without conflicts where no layout is legal or something is not supported."""

    values: Values
    conflicts: tuple[Conflict, ...] = ()
    reason: str


class Sweep(Record):
    """Everything that was solved. `chosen` is what `plan` takes for the spec as it is, inside the grid or not."""

    format_version: str = FORMAT_VERSION
    name: str
    chip: str
    objective: str
    latency: LatencyName
    against: AgainstName
    limits: dict[str, float]
    over: dict[str, tuple[str | int, ...]]
    settings: int
    points: tuple[Point, ...]
    infeasible: tuple[Infeasible, ...]
    chosen: Point | None
    accuracy: tuple[str, ...]

    @property
    def frontier(self) -> tuple[Point, ...]:
        """The points that no other dominates."""
        return tuple(point for point in self.points if point.on_frontier)

    @property
    def dominated(self) -> tuple[Point, ...]:
        """The other points."""
        return tuple(point for point in self.points if not point.on_frontier)
