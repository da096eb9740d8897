"""Planned collectives against the transfers of a compiled program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.plan.schema import Collective
from planner.verify.transfers import Transfer

Status = Literal["matched", "different", "missing", "unplanned"]
FIELDS = ("kind", "axes", "bytes", "count")
ALIKE = 3
"""Fields in which a transfer without an address must equal a planned one to stand for it."""


@dataclass(frozen=True)
class Row:
    """A planned collective beside the transfer that stands for it; `differs` names the fields that are not equal."""

    status: Status
    planned: Collective | None
    found: Transfer | None
    differs: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The plan address, or the instruction's name where the compiler kept no address."""
        if self.planned is not None:
            return self.planned.address
        assert self.found is not None
        return self.found.address or f"%{self.found.instruction}"


def compare(planned: Sequence[Collective], found: Sequence[Transfer]) -> tuple[Row, ...]:
    """Each planned collective with its transfer, in the plan's order, then the transfers that nobody planned."""
    wanted, there = list(_planned_once(planned)), list(_found_once(found))
    partners = _partners(wanted, there)
    rows = [_row(each, there[partners[index]] if index in partners else None) for index, each in enumerate(wanted)]
    taken = set(partners.values())
    extra = [Row("unplanned", None, each) for index, each in enumerate(there) if index not in taken]
    return (*rows, *extra)


def _row(planned: Collective, found: Transfer | None) -> Row:
    if found is None:
        return Row("missing", planned, None)
    differs = _differs(planned, found)
    return Row("different" if differs else "matched", planned, found, differs)


def _planned_once(planned: Iterable[Collective]) -> Iterable[Collective]:
    """Planned collectives, those that agree in all but their count added up."""
    merged: dict[tuple[object, ...], Collective] = {}
    for each in planned:
        key = each.address, each.kind, frozenset(each.axes), each.bytes
        count = merged[key].count if key in merged else 0
        merged[key] = each.model_copy(update={"count": each.count + count})
    return merged.values()


def _found_once(found: Iterable[Transfer]) -> Iterable[Transfer]:
    """Transfers, those of an address that agree in all but their count added up: a loop may have been peeled."""
    merged: dict[tuple[object, ...], Transfer] = {}
    for each in found:
        key = each.address or f"%{each.instruction}", each.kind, each.axes, each.bytes
        count = merged[key].count if key in merged else 0
        merged[key] = replace(each, count=each.count + count)
    return merged.values()


def _partners(wanted: Sequence[Collective], there: Sequence[Transfer]) -> dict[int, int]:
    """Planned index -> found index; the pairs that agree most are made first."""
    pairs = sorted(
        (-len(FIELDS) + len(_differs(planned, found)), found.address is None, i, j)
        for i, planned in enumerate(wanted)
        for j, found in enumerate(there)
        if _may_pair(planned, found)
    )
    partners: dict[int, int] = {}
    for _, _, i, j in pairs:
        if i not in partners and j not in partners.values():
            partners[i] = j
    return partners


def _may_pair(planned: Collective, found: Transfer) -> bool:
    """Whether a transfer may stand for a planned collective, exactly or with differences."""
    agreeing = len(FIELDS) - len(_differs(planned, found))
    return found.address == planned.address or (found.address is None and agreeing >= ALIKE)


def _differs(planned: Collective, found: Transfer) -> tuple[str, ...]:
    """The fields in which a transfer is not what was planned; the order of axes is of no account."""
    equal = {
        "kind": planned.kind == found.kind,
        "axes": found.axes is not None and set(planned.axes) == set(found.axes),
        "bytes": planned.bytes == found.bytes,
        "count": planned.count == found.count,
    }
    return tuple(field for field in FIELDS if not equal[field])
