"""The difference of two plans, as data. The JSON output is these records; see `data.py` for its promises."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

FORMAT_VERSION = "1.0"

Kind = Literal["input", "choice", "layout", "collective", "prediction", "note"]
"""Why and what: `input` is the spec, `choice` the slice, mesh, batch and buckets, `layout` a rule or a padding,
`prediction` a time or a size, and `note` the rest: strategy names, runner-ups, proof."""

Action = Literal["add", "remove", "change"]
Unit = Literal["s", "bytes", "tokens/s", "chip-s", "chips"]

RESHARDS_WEIGHTS = "reshards_weights"
RESHARDS_KV_CACHE = "reshards_kv_cache"
REWRITES_WEIGHTS = "rewrites_weights"
REWRITES_KV_CACHE = "rewrites_kv_cache"
NOTHING_ELSE = "nothing_else_changed"
"""Reasons of a change: keywords. A reader takes one that it does not know as no reason."""


class Record(BaseModel):
    """A frozen piece of a difference; unknown keys of a later minor version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Number(Record):
    """One predicted quantity in both plans."""

    address: str
    title: str
    unit: Unit
    base: float
    head: float

    @property
    def change(self) -> float:
        """Head less base."""
        return self.head - self.base

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


class PlanDiff(Record):
    """Everything that differs between two plans; `unchanged` counts what does not, by kind."""

    format_version: str = FORMAT_VERSION
    base: str
    head: str
    numbers: tuple[Number, ...]
    changes: tuple[Change, ...]
    unchanged: dict[Kind, int]

    def of(self, *kinds: Kind) -> tuple[Change, ...]:
        """The changes of some kinds."""
        return tuple(change for change in self.changes if change.kind in kinds)

    @property
    def reasons(self) -> frozenset[str]:
        """The reasons of all changes."""
        return frozenset(reason for change in self.changes for reason in change.reasons)
