"""Pieces of a difference in words: amounts, changes, and the lines of everything that differs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from planner.diff.schema import (
    NOTHING_ELSE,
    RESHARDS_KV_CACHE,
    RESHARDS_WEIGHTS,
    REWRITES_KV_CACHE,
    REWRITES_WEIGHTS,
    Change,
    Kind,
    Number,
    PlanDiff,
)
from planner.plan.units import bytes_text, dearer_text, digits, percent_text, seconds_text

SYMBOLS = {"add": "+", "remove": "-", "change": "~"}
RESHARDED = {RESHARDS_WEIGHTS: "weights", RESHARDS_KV_CACHE: "the KV cache"}
REWRITTEN = {REWRITES_WEIGHTS: "weights", REWRITES_KV_CACHE: "the KV cache"}
HEADINGS: dict[Kind, str] = {
    "input": "inputs",
    "choice": "slice, mesh and batch",
    "layout": "layouts",
    "collective": "collectives",
    "prediction": "predictions",
    "note": "notes",
}
LONGEST_VALUE = 64


@dataclass(frozen=True)
class Line:
    """One change: symbol, address, the values before and after (one of them empty for + and -), and what it forces."""

    symbol: str
    address: str
    base: str
    head: str
    note: str = ""


def counted(count: int, one: str, many: str) -> str:
    """`1 layout`, `2 layouts`."""
    return f"{count} {one if count == 1 else many}"


def joined(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`; nothing for none."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def amount(value: float, number: Number) -> str:
    """A value with its unit, three significant digits."""
    match number.unit:
        case "s":
            return seconds_text(value)
        case "bytes":
            return bytes_text(value)
        case "share":
            return f"{digits(100 * value)}%"
        case "money":
            return digits(value)
        case "chips":
            return digits(value)
        case _:
            return f"{digits(value)} {number.unit}"


def change_text(number: Number) -> str:
    """The signed change and its percent: `−2.41 ms (−24.5%)`; a dash for none."""
    if number.change == 0:
        return "–"
    sign = "−" if number.change < 0 else "+"
    if number.unit == "share":
        return f"{sign}{digits(round(100 * abs(number.change), 3))} points"
    percent = "" if number.percent is None else f" ({sign}{digits(abs(number.percent))}%)"
    return f"{sign}{amount(abs(number.change), number)}{percent}"


def sections(diff: PlanDiff) -> Iterator[tuple[str, list[Line], list[str]]]:
    """For each kind that changed: heading, lines in address order, and what is counted instead of listed."""
    summarised = {number.address for number in diff.numbers}
    for kind, heading in HEADINGS.items():
        changes = [c for c in diff.of(kind) if c.address not in summarised or NOTHING_ELSE in c.reasons]
        if kind == "prediction" and any(NOTHING_ELSE in change.reasons for change in changes):
            heading = "predictions that moved (* though nothing else did)"
        if changes:
            lines = [line_of(change) for change in changes]
            shown = [line for line in lines if line.symbol != "~" or line.base != line.head]
            hidden, same = len(lines) - len(shown), diff.unchanged.get(kind, 0)
            counts = ((same, "unchanged"), (hidden, "moved by less than is shown"))
            yield heading, shown, [f"{count} {what}" for count, what in counts if count]


def line_of(change: Change) -> Line:
    """A change as a line."""
    base = "" if change.action == "add" else value_text(change, change.base)
    head = "" if change.action == "remove" else value_text(change, change.head)
    return Line(SYMBOLS[change.action], change.address, base, head, note_of(change))


def note_of(change: Change) -> str:
    """What a change forces, as a comment; a star for a prediction that moved though nothing else did."""
    if NOTHING_ELSE in change.reasons:
        return "*"
    for verb, names in (("rewrites", REWRITTEN), ("reshards", RESHARDED)):
        stored = [name.removeprefix("the ") for reason, name in names.items() if reason in change.reasons]
        if stored:
            return f"# {verb} {joined(stored)}"
    return ""


def value_text(change: Change, value: JsonValue) -> str:
    """A value as people read it: layouts as axes, collectives and predictions with units."""
    if change.kind == "layout" and isinstance(value, list):
        return ", ".join(map(str, value)) or "replicated"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "; ".join(collective_text(item) for item in value if isinstance(item, dict))
    if isinstance(value, dict):
        return record_text(value)
    if change.kind == "prediction" and isinstance(value, int | float):
        return predicted_text(change.address, value)
    return plain_text(value)


def predicted_text(address: str, value: float) -> str:
    """A predicted number with the unit that its address says."""
    if address.endswith("utilization"):
        return percent_text(value).replace(" ", "")
    if address.endswith("requests_per_s"):
        return f"{digits(value)}/s"
    return seconds_text(value) if address.endswith(("_s", ".seconds")) else bytes_text(value)


def record_text(value: dict[str, JsonValue]) -> str:
    """A roofline, a runner-up or a proof in a few words."""
    if "total_s" in value:
        return f"{seconds_text(float(str(value['total_s'])))} {value['binds']}"
    if "strategy" in value:
        price = dearer_text(float(str(value["objective_ratio"]))).replace(" %", "%")
        return f"{seconds_text(float(str(value['step_s'])))} a step, {price} in all"
    if "status" in value:
        return f"{value['status']} for {value['objective']} at {value['value']}, {value['candidates']} candidates"
    return plain_text(value)


def collective_text(item: dict[str, JsonValue]) -> str:
    """One collective: `80 x all_reduce over x,y of 524 kB, 960 us`."""
    axes = item["axes"]
    assert isinstance(axes, list)
    size, seconds = bytes_text(float(str(item["bytes"]))), seconds_text(float(str(item["seconds"])))
    return f"{item['count']} x {item['kind']} over {','.join(map(str, axes))} of {size}, {seconds}"


def plain_text(value: JsonValue) -> str:
    """A value on one line: text as it is where nothing in it could be misread, everything else as JSON, cut short."""
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        text = ", ".join(map(str, value)) or "none"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(text)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def aligned(lines: Iterable[Line]) -> Iterator[str]:
    """Lines with their addresses, arrows and notes in columns."""
    found = list(lines)
    address = max((len(line.address) for line in found), default=0)
    changes = [line for line in found if line.symbol == "~"]
    base = max((len(line.base) for line in changes), default=0)
    bodies = [f"{line.base:<{base}} -> {line.head}" if line.symbol == "~" else line.base + line.head for line in found]
    width = max((len(body) for line, body in zip(found, bodies, strict=True) if line.note), default=0)
    for line, body in zip(found, bodies, strict=True):
        yield f"{line.symbol} {line.address:<{address}}  {body:<{width}}  {line.note}".rstrip()
