"""What is planned, and the numbers that matter most, each beside its limit."""

from planner.explain import Subject
from planner.explain.fleet import slices_text
from planner.plan.units import RESOURCES, bytes_text, digits, percent_text, seconds_text
from planner.report.html import Html, element

Tile = tuple[str, str, str]
"""A title, a number, and what it is held against."""


def headline(subject: Subject) -> list[Html]:
    """The top of the page."""
    plan = subject.plan
    where = f"{subject.machine.slice.chips} chips of {plan.chip}, slice {plan.slice}"
    if subject.machine.slice.chips == 1:
        where = f"one {plan.chip} chip"
    if plan.fleet is not None:
        where = f"{plan.chip}, {slices_text(subject, plan.fleet)}: {plan.fleet.chips} chips"
    above = f", {percent_text(plan.proof.above)} above the proven optimum" if plan.proof.status == "NEAR" else ""
    return [
        element("h1", plan.name),
        element("p", f"{where}; {plan.proof.status} for {plan.proof.objective}{above}"),
        element("p", f"Predictions: {plan.accuracy}.", class_="soft"),
        element("div", *map(tile_html, tiles(subject)), class_="tiles"),
    ]


def tiles(subject: Subject) -> list[Tile]:
    """The numbers of the service, of both steps, and of memory."""
    plan, service, limits = subject.plan, subject.plan.service, subject.spec.limits
    found: list[Tile] = [
        ("TTFT (mean)", seconds_text(service.ttft_s), bound_text(limits.ttft_s)),
        ("TPOT (mean)", seconds_text(service.tpot_s), bound_text(limits.tpot_s)),
    ]
    if plan.fleet is not None and plan.fleet.tails is not None:
        tails = plan.fleet.tails
        found.append(("TTFT of 95 %", seconds_text(tails.ttft_p95_s), bound_text(limits.ttft_p95_s)))
        found.append(("TPOT of 95 %", seconds_text(tails.tpot_p95_s), bound_text(limits.tpot_p95_s)))
    cost = f"{digits(service.chip_seconds_per_million_tokens)} chip-s per 1M tokens"
    batch = f"batch {plan.generate.batch} of {subject.spec.workload.concurrency} in flight"
    return [
        *found,
        ("tokens/s", digits(service.tokens_per_s), cost),
        ("prefill step", seconds_text(plan.prefill.step_s), f"bound by {RESOURCES[plan.prefill.binds]}"),
        ("generate step", seconds_text(plan.generate.step_s), f"bound by {RESOURCES[plan.generate.binds]}, {batch}"),
        ("HBM per chip", bytes_text(plan.hbm.total), f"of {bytes_text(plan.hbm.available)} available"),
    ]


def bound_text(limit: float | None) -> str:
    """A limit of the spec."""
    return "no limit" if limit is None else f"limit {seconds_text(limit)}"


def tile_html(tile: Tile) -> Html:
    """One number."""
    title, number, beside = tile
    return element("div", element("span", title), element("b", number), element("span", beside), class_="tile")
