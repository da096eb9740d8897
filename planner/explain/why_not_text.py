"""Answers to `--why-not` as text and as JSON."""

import json
from collections.abc import Iterator

from planner.diff.data import number_data
from planner.diff.text import number_lines
from planner.diff.words import aligned, line_of
from planner.explain.causes import Cause
from planner.explain.text import FORMAT_VERSION
from planner.explain.why_not import Answer
from planner.plan.units import dearer_text, in_base_unit, percent_text, seconds_text

LISTED = 6
SHOWN = ("generate.step_s", "prefill.step_s", "service.ttft_s", "service.tpot_s", "service.tokens_per_s",
         "service.chip_seconds_per_million_tokens", "hbm.free")  # fmt: skip


def answers_to_text(found: list[Answer], objective: str) -> str:
    """Every question, and its answer below it."""
    blocks = ["\n".join([f"why not {each.question}?", *(f"  {line}".rstrip() for line in lines(each, objective))])
              for each in found]  # fmt: skip
    return "\n".join(blocks) + "\n"


def lines(answer: Answer, objective: str) -> Iterator[str]:
    """The answer in lines."""
    yield from answer.notes
    match answer.verdict:
        case "has":
            yield "the plan has it"
        case "costs":
            yield from cost_lines(answer, objective)
        case "breaks":
            yield "no plan with it keeps the limits:"
            yield from (f"  {reason}" for reason in answer.reasons)
        case "illegal":
            yield "no layout with it is legal:"
            yield from (f"  {reason}" for reason in answer.reasons)


def cost_lines(answer: Answer, objective: str) -> Iterator[str]:
    """What the best plan with a pin costs, what else changes, and where the difference comes from."""
    assert answer.ratio is not None
    assert answer.difference is not None
    equal = "as good as the plan" if answer.ratio == 1 else dearer_text(answer.ratio)
    yield f"the best plan with it is {equal} ({objective})"
    table = answer.difference.model_copy(
        update={"numbers": tuple(each for each in answer.difference.numbers if each.address in SHOWN)}
    )
    yield from number_lines(table, ("the plan", "with it"))
    if answer.changes:
        yield "what changes:"
        yield from (f"  {line}" for line in aligned(map(line_of, answer.changes)))
    for title, causes in (("parts", answer.parts), ("collectives", answer.collectives)):
        if causes:
            yield f"{title} behind the difference, as shares of the plan's {objective}{shared_text(answer)}:"
            yield from cause_lines(causes[:LISTED])
            if len(causes) > LISTED:
                yield f"  and {len(causes) - LISTED} smaller ones"


def shared_text(answer: Answer) -> str:
    """What else than seconds weighs on the shares: the same step costs more on more chips, or for fewer sequences."""
    moved = {change.address for change in answer.changes}
    weighs = [word for address, word in (("slice", "chips"), ("generate.batch", "batch")) if address in moved]
    return f" (the change of {' and '.join(weighs)} counted)" if weighs else ""


def cause_lines(causes: tuple[Cause, ...]) -> Iterator[str]:
    """Causes in columns: address, seconds a step before and after, effect."""
    address = max(len(each.address) for each in causes)
    steps = [f"{seconds_text(each.base_s)} -> {seconds_text(each.head_s)} a step" for each in causes]
    width = max(map(len, steps))
    for each, step in zip(causes, steps, strict=True):
        sign = "+" if each.effect > 0 else "−"
        yield f"  {each.address:<{address}}  {step:<{width}}  {sign}{percent_text(abs(each.effect))}"


def answers_to_json(found: list[Answer]) -> str:
    """The answers with all numbers, in base units."""
    data = {"format_version": FORMAT_VERSION, "why_not": [answer_data(each) for each in found]}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def answer_data(answer: Answer) -> dict[str, object]:
    """One answer; keys that do not belong to its verdict are left out."""
    data: dict[str, object] = {"pin": answer.question, "answer": answer.verdict, "notes": list(answer.notes)}
    if answer.difference is not None:
        data["objective_ratio"] = answer.ratio
        data["numbers"] = [number_data(each) for each in answer.difference.numbers]
        data["changes"] = [each.model_dump(mode="json") for each in answer.changes]
        data["parts"] = [cause_data(each) for each in answer.parts]
        data["collectives"] = [cause_data(each) for each in answer.collectives]
    if answer.needs:
        data["conflict"] = [
            {
                "limit": need.limit,
                "have": in_base_unit(need.limit, need.have),
                "need": in_base_unit(need.limit, need.need),
            }
            for need in answer.needs
        ]
    if answer.reasons:
        data["reasons"] = list(answer.reasons)
    return data


def cause_data(cause: Cause) -> dict[str, object]:
    """One cause."""
    return {"address": cause.address, "base_s": cause.base_s, "head_s": cause.head_s, "effect": cause.effect}
