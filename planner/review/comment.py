"""A review as one comment for all specs: what matters of each on top, each difference folded away below.

The first line is a hidden marker that names the folder: by it a CI job finds and updates its one comment.
"""

import html
import re
from collections.abc import Iterator

from planner.diff.markdown import MAX_CHARACTERS, ROOM, escaped, fence_of
from planner.diff.markdown import body as diff_body
from planner.diff.words import counted
from planner.review.schema import Review, Reviewed
from planner.review.words import broken_rules, said_at_length, summary, title

MOST_ROWS = 40
"""Specs in the table; those after the worst are the first to be left out."""
MOST_ITEMS = 20
"""Sentences of what is stale, broken or to be known, of all specs."""
MOST_SAID = 4
"""Errors that are printed at length."""
LONGEST_NAME, LONGEST_SENTENCE, LONGEST_SAID = 100, 200, 1500


def review_to_markdown(review: Review, limit: int = MAX_CHARACTERS) -> str:
    """The comment, at most `limit` characters (of which the top may take 45,000): what is folded away is cut first."""
    top = "".join(f"{line}\n" for line in (marker(review.folder), *top_lines(review)))
    compared = [each for each in review.reviewed if each.diff is not None and each.change == "changed"]
    return top + "".join(sections(compared, limit - len(top) - ROOM))


def marker(folder: str) -> str:
    """The hidden first line; one for each folder, so that several jobs keep comments of their own."""
    named = re.sub(r"-{2,}", "-", re.sub(r"[^\w./-]", "_", folder[-LONGEST_NAME:]))
    return f"<!-- shardwright:review:{named} -->"


def top_lines(review: Review) -> Iterator[str]:
    """The title, a table of specs, the worst first, and what stands against them."""
    if not review.reviewed:
        yield f"{escaped(title(review))}."
        return
    yield from (f"### {escaped(title(review))}", "")
    ranked = [each for word, _ in review.counts() for each in review.reviewed if each.verdict == word]
    yield from ("| spec | verdict | what changes |", "| --- | --- | --- |")
    for each in ranked[:MOST_ROWS]:
        word = each.verdict if each.verdict == "fine" else f"**{each.verdict}**"
        yield f"| {cell(each.spec, LONGEST_NAME)} | {word} | {cell(summary(each), LONGEST_SENTENCE)} |"
    if len(ranked) > MOST_ROWS:
        yield f"| … {len(ranked) - MOST_ROWS} more | | |"
    yield ""
    items = [item for each in ranked for item in item_lines(each)]
    yield from items[:MOST_ITEMS]
    yield from (f"- … {len(items) - MOST_ITEMS} more",) if len(items) > MOST_ITEMS else ()
    yield from ("",) if items else ()
    for each in [each for each in ranked if said_at_length(each)][:MOST_SAID]:
        yield from said_lines(each)


def item_lines(each: Reviewed) -> Iterator[str]:
    """What stands against a spec, as items of a list."""
    sentences = (*(f"policy broken, {rule}" for rule in broken_rules(each)), *each.stale, *each.notes)
    yield from (f"- {cell(each.spec, LONGEST_NAME)}: {cell(sentence, 2 * LONGEST_SENTENCE)}" for sentence in sentences)


def said_lines(each: Reviewed) -> Iterator[str]:
    """An error, or why there is no plan, as it is printed."""
    said = said_at_length(each)
    said = said if len(said) <= LONGEST_SAID else f"{said[: LONGEST_SAID - 1]}…"
    fence = fence_of(said)
    yield from (f"{fence}text", *said.splitlines(), fence, "")


def cell(text: str, most: int) -> str:
    """A text on one line, cut short, that Markdown shows as it is."""
    line = " ".join(text.split())
    return escaped(line if len(line) <= most else f"{line[: most - 1]}…")


def sections(compared: list[Reviewed], room: int) -> Iterator[str]:
    """The differences, folded away: small ones whole, large ones with an equal part of what is left."""
    texts: dict[str, str] = {}
    wishes = {each.spec: len(section(each, MAX_CHARACTERS)) for each in compared}
    for left, each in zip(range(len(compared), 0, -1), sorted(compared, key=lambda e: wishes[e.spec]), strict=True):
        share = max(0, room) // left
        text = section(each, share)
        if len(text) <= share:
            texts[each.spec] = text
            room -= len(text)
    yield from (texts[each.spec] for each in compared if each.spec in texts)
    if len(texts) < len(compared):
        missing = counted(len(compared) - len(texts), "difference", "differences")
        yield f"\nLeft out, to fit: {missing}; `shardwright review` prints them with --format json.\n"


def section(each: Reviewed, limit: int) -> str:
    """The difference of one spec, open where something stands against it."""
    assert each.diff is not None
    attribute = "" if each.verdict == "fine" else " open"
    opening = f"<details{attribute}><summary>{html.escape(each.spec[-LONGEST_NAME:])}</summary>\n\n"
    closing = "\n</details>\n"
    text = diff_body(each.diff, limit - len(opening) - len(closing)) or "No changes.\n"
    return f"{opening}{text}{closing}"
