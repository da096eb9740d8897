"""A difference as Markdown for a review comment: what matters on top, the rest folded away."""

import re
from collections.abc import Iterator

from planner.diff.blocks import Block, Row, blocks
from planner.diff.schema import PlanDiff
from planner.diff.sentences import headline, is_empty
from planner.diff.words import aligned, sections

MARKER = "<!-- shardwright:plan-diff -->"
"""By this comment a CI job finds its own earlier comment and updates it."""

MAX_CHARACTERS = 60_000
"""GitHub refuses comments over 65,536 characters."""
MAX_SAID = 10_000
ROOM = 200
"""Characters for the note of what is left out."""
ALL = "Everything that differs, by address"


def diff_to_markdown(diff: PlanDiff, limit: int = MAX_CHARACTERS) -> str:
    """The comment, at most `limit` characters: details are cut first, the summary never."""
    title = f"{headline(diff)}." if is_empty(diff) else f"### {escaped(headline(diff))}"
    opening = "\n".join([MARKER, title, *([] if is_empty(diff) and diff.policy is None else [""])])
    return f"{opening}\n{body(diff, limit - len(opening) - 1)}"


def body(diff: PlanDiff, limit: int) -> str:
    """What stands below the title: at most `limit` characters where the summary leaves that."""
    lines: list[str] = []
    folded = [block for block in blocks(diff) if block.detail and block.rows]
    for block in blocks(diff):
        lines += () if block.detail else [*block_lines(block)]
    text = "".join(f"{line}\n" for line in lines)
    left_out = []
    for block in folded:
        whole = folded_text(block)
        if len(text) + len(whole) <= limit - ROOM:
            text += whole
        else:
            left_out.append(block.title)
    listed = details(diff, limit - len(text) - ROOM)
    left_out += [] if listed or not diff.changes else [ALL]
    note = f"Left out, to fit: {', '.join(left_out)}. Text, JSON and HTML have it.\n" if left_out else ""
    return text + listed + (f"\n{note}" if listed and note else note)


def block_lines(block: Block) -> Iterator[str]:
    """A block and a blank line."""
    if block.title:
        yield from (f"**{escaped(block.title)}**", "")
    for sentence in block.sentences:
        bold = sentence.startswith("Policy broken")
        yield from (f"**{escaped(sentence)}**" if bold else escaped(sentence), "")
    if block.said:
        fence = fence_of(block.said)
        said = shortened(block.said, MAX_SAID).removesuffix("\n")
        yield from (f"{fence}text", said, fence, "")
    if block.items:
        yield from (
            f"{f'{index}.' if block.numbered else '-'} {escaped(item)}" for index, item in enumerate(block.items, 1)
        )
        yield ""
    if block.rows:
        yield from (*table_lines(block), "")


def table_lines(block: Block) -> Iterator[str]:
    """A table."""

    def line(row: Row) -> str:
        return f"| {' | '.join(map(escaped, row))} |".replace("|  |", "| |")

    yield line(block.header)
    yield f"| {' | '.join('---:' if i in block.numeric else '---' for i in range(len(block.header)))} |"
    yield from map(line, block.rows)


def folded_text(block: Block) -> str:
    """A block that is folded away."""
    inside = "\n".join(table_lines(block))
    return f"<details><summary>{escaped(block.title)}</summary>\n\n{inside}\n\n</details>\n"


def details(diff: PlanDiff, limit: int) -> str:
    """The changes in a folded diff block of at most `limit` characters; nothing where not even that fits."""
    whole = "".join(f"{line}\n" for line in detail_lines(diff))
    fence = fence_of(whole)
    opening = f"<details><summary>{ALL}</summary>\n\n{fence}diff\n"
    closing = f"{fence}\n</details>\n"
    room = limit - len(opening) - len(closing)
    return f"{opening}{shortened(whole, room)}{closing}" if room > 0 and whole else ""


def fence_of(text: str) -> str:
    """A fence that nothing in a text closes."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


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
