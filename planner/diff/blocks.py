"""What a review shows, in order, as blocks that every format prints in its own way."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.diff.schema import PlanDiff, Verdict
from planner.diff.sentences import (
    ATTRIBUTION,
    alone_text,
    better_and_worse,
    cause_text,
    grouped,
    is_empty,
    limit_text,
    policy_sentence,
    repriced_text,
    why,
)
from planner.diff.words import amount, change_text, plain_text

MOST_ROWS = 20
"""Rows of a table, and lines of a list, that a review shows; JSON holds all."""
MAIN = ("service.", "chips", "generate.step_s", "prefill.step_s", "hbm.total", "hbm.headroom")
"""Numbers of the first table, by how their addresses begin; the others are detail."""

VERDICTS = ("broken", "waived", "unknown", "kept")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A titled piece: sentences, then a list, then a table. `detail` may be folded away; `numeric` are the columns of
    numbers."""

    title: str = ""
    sentences: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    numbered: bool = False
    header: Row = ()
    rows: tuple[Row, ...] = ()
    numeric: tuple[int, ...] = ()
    detail: bool = False
    said: str = ""
    """Text that is printed as it is."""


def blocks(diff: PlanDiff) -> Iterator[Block]:
    """Everything between the headline and the list of all differences."""
    if diff.infeasible is not None:
        yield Block(said=diff.infeasible.message)
    yield from policy_blocks(diff)
    if is_empty(diff):
        return
    if diff.numbers:
        yield Block(sentences=(*better_and_worse(diff),))
        yield number_block(diff, detail=False)
    if diff.limits:
        yield Block("Limits", items=tuple(map(limit_text, diff.limits)))
    yield from input_blocks(diff)
    yield from decision_blocks(diff)
    yield from forced_blocks(diff)
    if diff.numbers:
        yield number_block(diff, detail=True)


def number_block(diff: PlanDiff, *, detail: bool) -> Block:
    """The numbers before and after."""
    titles = ("base", "head") if diff.base == diff.head else (plain_text(diff.base), plain_text(diff.head))
    listed = [each for each in diff.numbers if each.address.startswith(MAIN) != detail]
    rows = tuple((n.title, amount(n.base, n), amount(n.head, n), change_text(n)) for n in listed)
    return Block(
        hbm_title(diff) if detail else "", header=("", *titles, "change"), rows=rows, numeric=(1, 2, 3), detail=detail
    )


def hbm_title(diff: PlanDiff) -> str:
    """Whose HBM it is: of generate slices, where prefill has slices of its own."""
    apart = any(change.address.startswith("pool.") for change in diff.changes)
    return "HBM of a chip (of generate slices, where prefill has its own)" if apart else "HBM of a chip"


def policy_blocks(diff: PlanDiff) -> Iterator[Block]:
    """The verdict of the policy: broken rules first, then the others in the order of the file."""
    if diff.policy is None:
        return
    listed = sorted(diff.policy.verdicts, key=lambda each: VERDICTS.index(each.verdict))
    if is_empty(diff):
        listed = [each for each in listed if each.verdict != "kept"]
    yield Block(
        sentences=(policy_sentence(diff),),
        header=("where", "rule", "verdict", "found"),
        rows=cut(tuple(map(verdict_row, listed))),
    )
    if diff.policy.notes:
        yield Block(items=cut_items(diff.policy.notes))


def verdict_row(verdict: Verdict) -> Row:
    """A rule: where it stands, what it demands, what was found."""
    demanded = f"forbid {verdict.rule}" if verdict.demand == "forbidden" else f"{verdict.rule} {verdict.demand}"
    found = f"{verdict.found}; {verdict.waiver}" if verdict.waiver else verdict.found
    return verdict.place, demanded, "not judged" if verdict.verdict == "unknown" else verdict.verdict, found


def input_blocks(diff: PlanDiff) -> Iterator[Block]:
    """What the author changed, and what each input does alone where that was solved."""
    sentences = tuple(each for each in (why(diff), repriced_text(diff)) if each)
    solved = any(each.alone for each in diff.inputs)
    header = ("input", "base", "head", *(["alone, against base"] if solved else []))
    rows = tuple(
        (
            each.address,
            plain_text(each.base) or "–",
            plain_text(each.head) or "–",
            *([alone_text(each)] if solved else []),
        )
        for each in diff.inputs
    )
    if rows:
        yield Block("Inputs that changed", sentences=sentences, header=header, rows=cut(rows))
    elif sentences:
        yield Block(sentences=sentences)


def decision_blocks(diff: PlanDiff) -> Iterator[Block]:
    """What the solver decides otherwise, by cause; then each decision."""
    if not diff.decisions:
        if diff.inputs and diff.infeasible is None:
            yield Block(sentences=("The solver decides everything as before.",))
        return
    items = tuple(f"Because of {cause}: {', '.join(e.address for e in found)}." for cause, found in grouped(diff))
    if diff.attribution in ("not_asked", "too_many", "near"):
        items = (f"{', '.join(each.address for each in diff.decisions)}.",)
    told = ATTRIBUTION[diff.attribution]
    yield Block("Decisions that changed", sentences=(told,) if told else (), items=cut_items(items))
    rows = tuple(
        (e.address, plain_text(e.base) or "–", plain_text(e.head) or "–", cause_text(e)) for e in diff.decisions
    )
    yield Block("Each decision", header=("decision", "base", "head", "because of"), rows=cut(rows), detail=True)


def forced_blocks(diff: PlanDiff) -> Iterator[Block]:
    """What the change forces, and in which order it is brought into service."""
    if diff.infeasible is not None:
        return
    if not diff.forced:
        yield Block("What it forces", sentences=("Nothing: servers that run today need no change.",))
        return
    yield Block("What it forces", items=tuple(f"{each.force}: {each.text}" for each in diff.forced))
    yield Block("In this order", items=diff.order, numbered=True)


def cut_items(items: tuple[str, ...]) -> tuple[str, ...]:
    """The first items of a list, and how many more there are."""
    return items if len(items) <= MOST_ROWS else (*items[:MOST_ROWS], f"… {len(items) - MOST_ROWS} more")


def cut(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The first rows of a table, and how many more there are."""
    if len(rows) <= MOST_ROWS:
        return rows
    return *rows[:MOST_ROWS], (f"… {len(rows) - MOST_ROWS} more", *[""] * (len(rows[0]) - 1))
