"""A difference of plans as one self-contained HTML page."""

from collections.abc import Iterator

from planner.diff.blocks import Block, blocks
from planner.diff.markdown import detail_lines
from planner.diff.schema import PlanDiff
from planner.diff.sentences import headline
from planner.report.html import Html, element, joined, table
from planner.report.style import STYLE


def diff_html(diff: PlanDiff) -> str:
    """The page: the same blocks as in a review comment, then everything that differs."""
    title = f"{headline(diff)}."
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"Plan diff: {headline(diff)}"),
        element("style", Html(STYLE)),
    )
    names = f"{diff.base} -> {diff.head}" if diff.base != diff.head else diff.base
    body = element("body", element("h1", title), element("p", names, class_="soft"), *parts(diff))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def diff_section(diff: PlanDiff) -> list[Html]:
    """The difference as part of a plan's page."""
    return [element("p", element("b", f"{headline(diff)}.")), element("div", *parts(diff, "h3"), class_="diff")]


def parts(diff: PlanDiff, heading: str = "h2") -> Iterator[Html]:
    """What stands below the headline."""
    yield from (block_html(block, heading) for block in blocks(diff))
    lines = "\n".join(detail_lines(diff))
    if lines:
        yield element("details", element("summary", "Everything that differs, by address"), element("pre", lines))


def block_html(block: Block, heading: str) -> Html:
    """One block; a detail can be folded."""
    listed = [element("li", item) for item in block.items]
    inside = [
        *(element("p", sentence) for sentence in block.sentences),
        *([element("pre", block.said)] if block.said else []),
        *([element("ol" if block.numbered else "ul", *listed)] if listed else []),
        *([table(block.header, block.rows, block.numeric, block.title or "numbers")] if block.rows else []),
    ]
    if block.detail:
        return element("details", element("summary", block.title), *inside)
    return joined(*([element(heading, block.title)] if block.title else []), *inside)
