"""A simulation as a table a person can read, and as JSON."""

import json
from dataclasses import astuple
from typing import Any

from planner.plan.units import digits, percent_text, seconds_text
from planner.simulate.result import Distribution, Simulated

COLUMNS = ("mean", "p50", "p95", "p99", "max", "plan (mean)")


def simulated_to_json(result: Simulated) -> str:
    """The result as JSON."""
    data: dict[str, Any] = result.data()
    return json.dumps(data, indent=2) + "\n"


def simulated_to_text(result: Simulated) -> str:
    """What was replayed, the distributions beside the plan's means, throughput and goodput."""
    rows = [
        ("", *COLUMNS),
        ("prompt tokens", *tokens(result.prompt_tokens), ""),
        ("output tokens", *tokens(result.output_tokens), ""),
        ("TTFT", *times(result.ttft_s), seconds_text(result.planned_ttft_s)),
        ("TPOT", *times(result.tpot_s), seconds_text(result.planned_tpot_s)),
        ("tokens/s", digits(result.tokens_per_s), "", "", "", "", digits(result.planned_tokens_per_s)),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]
    opening = (
        f"{result.plan}: {result.requests} requests of {result.clients} clients on {result.slots} slots, "
        f"lengths lognormal, seed {result.seed}"
    )
    return "\n".join([opening, "", *table, "", goodput_text(result), *length_notes(result)]) + "\n"


def length_notes(result: Simulated) -> list[str]:
    """Where the lengths differ from the spec's, so that the means above do."""
    notes = [
        f"{name} lengths: no lognormal of this mean has so high a p95; the widest is used" for name in result.narrowed
    ]
    return [*notes, *([f"{result.shortened} requests were cut to the context"] if result.shortened else [])]


def goodput_text(result: Simulated) -> str:
    """How many requests kept the limits."""
    good = result.goodput
    if good is None:
        return "goodput: the spec has no limits"
    limits = (("TTFT", good.ttft_limit_s), ("TPOT", good.tpot_limit_s))
    named = " and ".join(f"{name} {seconds_text(limit)}" for name, limit in limits if limit is not None)
    share = percent_text(good.share)
    return f"goodput: {share} of requests, {digits(good.tokens_per_s)} tokens/s, within {named}, each by itself"


def tokens(found: Distribution) -> list[str]:
    """Counts."""
    return [digits(value) for value in astuple(found)]


def times(found: Distribution) -> list[str]:
    """Durations."""
    return [seconds_text(value) for value in astuple(found)]
