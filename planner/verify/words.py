"""Differences between a plan and its programs, a sentence each."""

from planner.plan.schema import Collective
from planner.plan.units import bytes_text
from planner.verify.compare import Row
from planner.verify.copies import Copy
from planner.verify.hbm import HbmRow
from planner.verify.memory import MemoryLine
from planner.verify.transfers import Transfer


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 collective`, `3 collectives`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def row_text(row: Row) -> str:
    """A collective that is not as planned, in a sentence."""
    if row.found is None:
        assert row.planned is not None
        return f"{row.address}: planned {planned_text(row.planned)} is missing"
    if row.planned is None:
        what = f" of {row.found.array}" if row.found.array else ""
        return f"{row.address}: unplanned {found_text(row.found)}{what}"
    return (
        f"{row.address}: {', '.join(row.differs)}: planned {planned_text(row.planned)}, found {found_text(row.found)}"
    )


def planned_text(each: Collective) -> str:
    """A planned collective in a few words."""
    return f"{each.kind} over {','.join(each.axes)}, {bytes_text(each.bytes)} x {each.count}"


def found_text(each: Transfer) -> str:
    """A compiled transfer in a few words."""
    axes = "other groups than mesh axes" if each.axes is None else ",".join(each.axes)
    return f"{each.kind} over {axes}, {bytes_text(each.bytes)} x {each.count}"


def copy_text(step: str, copy: Copy) -> str:
    """A copy that nobody planned, in a sentence."""
    what = copy.array if copy.part == "whole" else f"{copy.part} of {copy.array}"
    return f"{step}: copies {what} to {copy.memory}, {bytes_text(copy.bytes)} x {copy.count} (%{copy.instruction})"


def memory_text(step: str, line: MemoryLine) -> str:
    """A quantity of memory that is not as planned, in a sentence."""
    return f"{step}: {line.what}: planned {bytes_text(line.planned)}, found {bytes_text(line.found)} ({line.verdict})"


def hbm_text(step: str, row: HbmRow) -> str:
    """More HBM bytes than predicted, in a sentence."""
    return f"{step}: HBM bytes of {row.address}: predicted {bytes_text(row.planned)}, found {bytes_text(row.found)}"
