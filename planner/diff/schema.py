"""The difference of two plans, as data. The JSON output is these records; see `data.py` for its promises."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, computed_field

FORMAT_VERSION = "1.1"

Kind = Literal["input", "choice", "layout", "collective", "prediction", "note"]
"""Why and what: `input` is the spec, `choice` the slice, mesh, batch and buckets, `layout` a rule or a padding,
`prediction` a time or a size, and `note` the rest: strategy names, runner-ups, proof."""

Action = Literal["add", "remove", "change"]
Unit = Literal["s", "bytes", "tokens/s", "chip-s", "chips", "money", "share"]

RESHARDS_WEIGHTS = "reshards_weights"
RESHARDS_KV_CACHE = "reshards_kv_cache"
REWRITES_WEIGHTS = "rewrites_weights"
REWRITES_KV_CACHE = "rewrites_kv_cache"
NOTHING_ELSE = "nothing_else_changed"
"""Reasons of a change: keywords. A reader takes one that it does not know as no reason."""

CATALOGUE = "catalogue"
"""The cause of a decision that no input explains: the cost model or the chip catalogue is another one."""

How = Literal["alone", "either", "together", "only_input", "catalogue", "unknown"]
"""How causes act: each `alone` of one or `either` of several, or only `together`; `only_input` where nothing else
changed, `catalogue` where no input did, `unknown` where nothing was solved to find out."""

Attribution = Literal["solved", "only_input", "no_input", "not_asked", "too_many", "near"]
"""How causes were found: specs between base and head were `solved`; there was only one input, or none; or they were
not looked for: it was not asked, inputs are too many, or a side was planned near an earlier plan."""

Force = Literal[
    "replace_model",
    "rewrite_weights",
    "reshard_weights",
    "drop_kv_cache",
    "recompile",
    "other_slices",
    "more_chips",
    "fewer_chips",
    "redeploy_together",
]
"""What a change forces on a running service; policies forbid these words."""


class Record(BaseModel):
    """A frozen piece of a difference; unknown keys of a later minor version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", json_schema_serialization_defaults_required=True)


class Number(Record):
    """One predicted quantity in both plans."""

    address: str
    title: str
    unit: Unit = Field(description="Unit of base, head and change; a share is a part of one.")
    base: float
    head: float

    @computed_field(description="Head less base.")  # type: ignore[prop-decorator]
    @property
    def change(self) -> float:
        """Head less base."""
        return self.head - self.base

    @computed_field(description="The change in percent of the base; null when the base is 0.")  # type: ignore[prop-decorator]
    @property
    def percent(self) -> float | None:
        """The change in percent of the base, or None when the base is 0."""
        return 100 * self.change / self.base if self.base else None


class Change(Record):
    """One address that differs: its values in both plans, and what follows from it."""

    kind: Kind
    address: str
    action: Action
    base: JsonValue = None
    head: JsonValue = None
    reasons: tuple[str, ...] = ()


class Alone(Record):
    """What one changed input does when nothing else changes: the numbers of that plan against base, or none where no
    plan is feasible, or where the spec is not a valid one."""

    verdict: Literal["plan", "infeasible", "invalid"]
    numbers: tuple[Number, ...] = ()


class Input(Record):
    """An input that its author changed: one field of the spec, or fields that only change together."""

    address: str
    base: str = Field(description="What base says, in words; empty for nothing.")
    head: str = Field(description="What head says, in words; empty for nothing.")
    fields: tuple[str, ...] = Field(description="The fields of the spec that differ, dotted.")
    alone: Alone | None = Field(default=None, description="What it does alone; null where that was not solved.")


class Decision(Record):
    """What the solver decides otherwise, and the inputs that made it."""

    address: str
    base: str
    head: str
    causes: tuple[str, ...] = Field(default=(), description="Addresses of inputs, or `catalogue`.")
    how: How = "unknown"


class Forced(Record):
    """Something that the change forces on a running service."""

    force: Force
    text: str


class Limit(Record):
    """A limit that the head spec sets, in seconds, and what both plans reach; null where a plan does not tell."""

    address: str
    limit_s: float
    base_s: float | None = None
    head_s: float | None = None


class Infeasible(Record):
    """The side without a plan, and why."""

    side: Literal["base", "head"]
    message: str


class Verdict(Record):
    """One rule of a policy: what it demands, where it stands, and whether the change keeps it."""

    rule: str
    demand: str
    place: str = Field(description="File and line.")
    verdict: Literal["kept", "broken", "waived", "unknown"]
    found: str
    waiver: str = Field(default="", description="The waiver of this rule and when it ends, or that it has ended.")


class Judgement(Record):
    """What a policy says of the change; it is broken where any rule is."""

    policy: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The rules that are broken and not waived."""
        return tuple(each for each in self.verdicts if each.verdict == "broken")


class PlanDiff(Record):
    """Everything that differs between two plans; `unchanged` counts what does not, by kind."""

    format_version: str = FORMAT_VERSION
    base: str
    head: str
    infeasible: Infeasible | None = None
    numbers: tuple[Number, ...]
    limits: tuple[Limit, ...] = ()
    inputs: tuple[Input, ...] = ()
    decisions: tuple[Decision, ...] = ()
    attribution: Attribution = "not_asked"
    repriced: tuple[Number, ...] = Field(
        default=(), description="Steps of base's own layouts as base says, and by today's prices, where these differ."
    )
    forced: tuple[Forced, ...] = ()
    order: tuple[str, ...] = Field(default=(), description="Steps that bring head into service, in order.")
    changes: tuple[Change, ...]
    unchanged: dict[Kind, int]
    policy: Judgement | None = None

    def of(self, *kinds: Kind) -> tuple[Change, ...]:
        """The changes of some kinds."""
        return tuple(change for change in self.changes if change.kind in kinds)

    def number(self, address: str) -> Number | None:
        """The number at an address, if there is one."""
        return next((each for each in self.numbers if each.address == address), None)

    @property
    def reasons(self) -> frozenset[str]:
        """The reasons of all changes."""
        return frozenset(reason for change in self.changes for reason in change.reasons)

    @property
    def forces(self) -> frozenset[str]:
        """The keywords of what is forced."""
        return frozenset(each.force for each in self.forced)
