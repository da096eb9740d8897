"""A difference as plain text."""

from collections.abc import Iterator

from planner.diff.blocks import Block, Row, blocks
from planner.diff.schema import PlanDiff
from planner.diff.sentences import headline
from planner.diff.words import aligned, amount, change_text, sections


def diff_to_text(diff: PlanDiff) -> str:
    """Sentences, numbers, and what changed; one line when nothing did."""
    lines = [f"{headline(diff)}."]
    for block in sorted(blocks(diff), key=lambda each: each.detail):
        lines += block_lines(block)
    for heading, changes, counts in sections(diff):
        lines += ["", heading, *(f"  {line}" for line in aligned(changes)), *(f"    {count}" for count in counts)]
    return "\n".join(lines) + "\n"


def block_lines(block: Block) -> Iterator[str]:
    """A block: a blank line where it has a title or a table, then its parts."""
    if block.title or block.rows:
        yield ""
    if block.title:
        yield block.title
    indent = "  " if block.title else ""
    yield from (f"{indent}{sentence}" for sentence in block.sentences)
    yield from block.said.splitlines()
    for index, item in enumerate(block.items, start=1):
        yield f"  {f'{index}.' if block.numbered else '-'} {item}"
    rows = [block.header, *block.rows] if block.rows else []
    yield from (f"{indent}{line}" for line in columns(rows, block.numeric))


def columns(rows: list[Row], numeric: tuple[int, ...]) -> Iterator[str]:
    """Rows in columns, those of numbers right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = (f"{c:>{w}}" if i in numeric else f"{c:<{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        yield "  ".join(cells).rstrip()


def number_lines(diff: PlanDiff, sides: tuple[str, str] = ("base", "head")) -> Iterator[str]:
    """The table of numbers, right-aligned."""
    rows = [("", *sides, "change")]
    rows += [(n.title, amount(n.base, n), amount(n.head, n), change_text(n)) for n in diff.numbers]
    yield from columns(list(rows), (1, 2, 3))
