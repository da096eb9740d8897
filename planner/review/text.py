"""A review as plain text: one block for each spec."""

from collections.abc import Iterator

from planner.review.schema import Review, Reviewed
from planner.review.words import broken_rules, said_at_length, summary, title


def review_to_text(review: Review) -> str:
    """What was found in all, then spec by spec."""
    lines = [f"{title(review)}."]
    for each in review.reviewed:
        lines += ["", *spec_lines(each)]
    return "\n".join(lines) + "\n"


def spec_lines(each: Reviewed) -> Iterator[str]:
    """One spec: its verdict, what happened, and what stands against it."""
    yield f"{each.spec}: {each.verdict}"
    if not each.error:
        yield f"  {summary(each)}."
    yield from (f"  policy broken: {rule}" for rule in broken_rules(each))
    yield from (f"  stale: {sentence}" for sentence in each.stale)
    yield from (f"  {note}" for note in each.notes)
    yield from (f"  {line}" for line in said_at_length(each).splitlines())
