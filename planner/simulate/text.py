"""A simulation as a table a person can read, and as JSON."""

import json
from dataclasses import astuple
from typing import Any

from planner.plan.units import digits, percent_text, seconds_text
from planner.simulate.result import Distribution, Goodput, OfFleet, Simulated

COLUMNS = ("mean", "p50", "p95", "p99", "max", "plan (mean)")
TAIL_COLUMN = "plan (p95)"


def simulated_to_json(result: Simulated) -> str:
    """The result as JSON."""
    data: dict[str, Any] = result.data()
    return json.dumps(data, indent=2) + "\n"


def simulated_to_text(result: Simulated) -> str:
    """What was replayed, the distributions beside the plan's means and tails, throughput, use and goodput."""
    rows = [
        ("", *COLUMNS),
        ("prompt tokens", *tokens(result.prompt_tokens), ""),
        ("output tokens", *tokens(result.output_tokens), ""),
        ("TTFT", *times(result.ttft_s), seconds_text(result.planned_ttft_s)),
        ("TPOT", *times(result.tpot_s), seconds_text(result.planned_tpot_s)),
        ("tokens/s", digits(result.tokens_per_s), "", "", "", "", digits(result.planned_tokens_per_s)),
    ]
    if (tails := planned_tails(result)) is not None:
        rows = [(*row, tail) for row, tail in zip(rows, tails, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]
    closing = [*goodput_lines(result), *fleet_lines(result.fleet), *length_notes(result)]
    return "\n".join([opening(result), "", *table, "", *closing]) + "\n"


def planned_tails(result: Simulated) -> tuple[str, ...] | None:
    """The column of the planned p95; None of a plan that promises no tails."""
    fleet = result.fleet
    if fleet is None or fleet.planned_ttft_p95_s is None or fleet.planned_tpot_p95_s is None:
        return None
    return TAIL_COLUMN, "", "", seconds_text(fleet.planned_ttft_p95_s), seconds_text(fleet.planned_tpot_p95_s), ""


def opening(result: Simulated) -> str:
    """How many requests, from whom, on what."""
    fleet = result.fleet
    if fleet is None:
        on = f"on {result.slots} slots"
    elif fleet.prefill_slices is None:
        on = f"on {slices_text(fleet.slices)} of {result.slots} slots"
    else:
        read, slots = slices_text(fleet.prefill_slices), result.slots
        on = (
            f"on {read} that {'read' if fleet.prefill_slices > 1 else 'reads'} prompts, {fleet.slices} of {slots} slots"
        )
    rate = None if fleet is None else fleet.requests_per_s
    sent = f"of {result.clients} clients" if rate is None else f"at {digits(rate)} a second"
    return f"{result.plan}: {result.requests} requests {sent} {on}, lengths lognormal, seed {result.seed}"


def slices_text(count: int) -> str:
    """`1 slice`, `3 slices`."""
    return f"{count} slice{'s' if count > 1 else ''}"


def fleet_lines(fleet: OfFleet | None) -> list[str]:
    """How busy slots and prefill were, beside the plan."""
    if fleet is None:
        return []
    slots, prefill = (
        f"{percent_text(found)} (plan: {percent_text(planned)})"
        for found, planned in (
            (fleet.slot_utilization, fleet.planned_slot_utilization),
            (fleet.prefill_utilization, fleet.planned_prefill_utilization),
        )
    )
    return [f"slots taken: {slots}; prefill at work: {prefill} of the time"]


def length_notes(result: Simulated) -> list[str]:
    """Where the lengths differ from the spec's, so that the means above do."""
    notes = [
        f"{name} lengths: no lognormal of this mean has so high a p95; the widest is used" for name in result.narrowed
    ]
    return [*notes, *([f"{result.shortened} requests were cut to the context"] if result.shortened else [])]


def goodput_lines(result: Simulated) -> list[str]:
    """How many requests kept the limits: those on the mean, and those on the p95."""
    p95 = None if result.fleet is None else result.fleet.goodput_p95
    named = (("goodput", result.goodput), ("goodput by the limits on the p95", p95))
    lines = [f"{name}: {goodput_text(good)}" for name, good in named if good is not None]
    return lines or ["goodput: the spec has no limits"]


def goodput_text(good: Goodput) -> str:
    """How many requests kept limits, and the tokens of those."""
    limits = (("TTFT", good.ttft_limit_s), ("TPOT", good.tpot_limit_s))
    named = " and ".join(f"{name} {seconds_text(limit)}" for name, limit in limits if limit is not None)
    return (
        f"{percent_text(good.share)} of requests, {digits(good.tokens_per_s)} tokens/s, within {named}, each by itself"
    )


def tokens(found: Distribution) -> list[str]:
    """Counts."""
    return [digits(value) for value in astuple(found)]


def times(found: Distribution) -> list[str]:
    """Durations."""
    return [seconds_text(value) for value in astuple(found)]
