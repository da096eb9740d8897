"""A difference as plain text."""

from collections.abc import Iterator

from planner.diff.schema import PlanDiff
from planner.diff.words import (
    NO_CHANGES,
    aligned,
    amount,
    change_text,
    consequence,
    headline,
    sections,
)


def diff_to_text(diff: PlanDiff) -> str:
    """Sentences, numbers, and what changed; one line when nothing did."""
    if not diff.changes:
        return f"{NO_CHANGES}\n"
    lines = [f"{headline(diff)}.", consequence(diff), "", *number_lines(diff)]
    for heading, changes, counts in sections(diff):
        lines += ["", heading, *(f"  {line}" for line in aligned(changes)), *(f"    {count}" for count in counts)]
    return "\n".join(lines) + "\n"


def number_lines(diff: PlanDiff, sides: tuple[str, str] = ("base", "head")) -> Iterator[str]:
    """The table of numbers, right-aligned."""
    rows = [("", *sides, "change")]
    rows += [(n.title, amount(n.base, n), amount(n.head, n), change_text(n)) for n in diff.numbers]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([f"{row[0]:<{widths[0]}}", *numbers])
