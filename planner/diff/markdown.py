"""A difference as Markdown for a review comment: sentence and numbers on top, the rest folded away."""

import re
from collections.abc import Iterator

from planner.diff.schema import PlanDiff
from planner.diff.words import (
    NO_CHANGES,
    aligned,
    amount,
    change_text,
    consequence,
    headline,
    plain_text,
    sections,
)

MARKER = "<!-- shardwright:plan-diff -->"
"""By this comment a CI job finds its own earlier comment and updates it."""

MAX_CHARACTERS = 60_000
"""GitHub refuses comments over 65,536 characters."""


def diff_to_markdown(diff: PlanDiff, limit: int = MAX_CHARACTERS) -> str:
    """The comment, at most `limit` characters: details are cut first, the summary never."""
    if not diff.changes:
        return f"{MARKER}\n{NO_CHANGES}\n"
    summary = "\n".join(
        [MARKER, f"### {escaped(headline(diff))}", "", escaped(consequence(diff)), "", *number_table(diff), ""]
    )
    return f"{summary}\n{details(diff, limit - len(summary) - 1)}"


def number_table(diff: PlanDiff) -> Iterator[str]:
    """The numbers as a table."""
    titles = ("base", "head") if diff.base == diff.head else (plain_text(diff.base), plain_text(diff.head))
    yield f"| | {' | '.join(map(escaped, titles))} | change |"
    yield "| --- | ---: | ---: | ---: |"
    for number in diff.numbers:
        cells = (number.title, amount(number.base, number), amount(number.head, number), change_text(number))
        yield f"| {' | '.join(map(escaped, cells))} |"


def details(diff: PlanDiff, limit: int) -> str:
    """The changes in a folded diff block of at most `limit` characters; nothing where not even that fits."""
    lines = list(detail_lines(diff))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(lines))), default=0))
    opening = f"<details><summary>What changed and why</summary>\n\n{fence}diff\n"
    closing = f"{fence}\n</details>\n"
    whole = "".join(f"{line}\n" for line in lines)
    room = limit - len(opening) - len(closing)
    return f"{opening}{shortened(whole, room)}{closing}" if room > 0 else ""


def detail_lines(diff: PlanDiff) -> Iterator[str]:
    """Every change, under the heading of its kind."""
    for heading, changes, counts in sections(diff):
        yield f"# {heading}"
        yield from aligned(changes)
        yield from (f"  {count}" for count in counts)


def shortened(text: str, room: int) -> str:
    """As many whole lines of `text` as fit, and how many do not."""
    if len(text) <= room:
        return text
    lines = text.splitlines(keepends=True)
    note = "  … {} more lines\n"
    while lines and sum(map(len, lines)) + len(note) + 8 > room:
        lines.pop()
    return "".join(lines) + note.format(text.count("\n") - len(lines))


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a heading, a sentence or a table cell."""
    return re.sub(r"([\\`|*_<>\[\]#])", r"\\\1", text)
