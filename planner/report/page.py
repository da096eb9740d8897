"""A plan as one HTML page: no script, no network, nothing beside it; the same plan gives the same bytes."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.diff.schema import PlanDiff
from planner.explain import Subject, explain
from planner.plan.schema import Plan
from planner.report.bars import hbm_bar, time_bars, time_legend
from planner.report.collectives import collective_view
from planner.report.difference import diff_section
from planner.report.flow import flow_svg
from planner.report.headline import headline
from planner.report.html import Html, element, folded, joined, section
from planner.report.mesh import mesh_view
from planner.report.phases import pair
from planner.report.proof import proof_view
from planner.report.roofline import roofline_view
from planner.report.rules import rule_view
from planner.report.style import STYLE
from planner.report.style_chart import CHART_STYLE
from planner.report.style_plan import PLAN_STYLE
from planner.spec import spec_to_yaml

POOLS = {"prefill": "A slice that reads prompts", "generate": "A slice that generates"}


@dataclass(frozen=True)
class Beside:
    """What a page can show besides the plan: a difference, and what was solved around the plan, drawn already."""

    base: PlanDiff | None = None
    batches: Html | None = None
    frontier: Html | None = None


Section = tuple[str, str, list[Html]]
"""A section's name in links, its title, and what it holds."""


def report_html(plan: Plan, beside: Beside | None = None) -> str:
    """The page."""
    subject = Subject.of(plan)
    found = list(sections(subject, beside or Beside()))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{plan.name}: plan"),
        element("style", Html(f"{STYLE}\n{CHART_STYLE}\n{PLAN_STYLE}")),
    )
    links = [element("a", title, href=f"#{name}") for name, title, _ in found]
    body = element(
        "body",
        element("header", *headline(subject)),
        element("nav", *links, aria_label="Sections"),
        element("main", *(section(title, *parts, name=name) for name, title, parts in found)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def sections(subject: Subject, beside: Beside) -> Iterator[Section]:
    """The sections in their order; those of what is not known are left out."""
    if beside.base is not None:
        yield "changes", f"What changed against {beside.base.base}", diff_section(beside.base)
    yield "where", "Where everything is", where_views(subject)
    yield "rules", "Rules", [pair(subject, rule_view)]
    yield "flow", "How a step flows", [flow_legend(), pair(subject, flow_svg)]
    yield "collectives", "Collectives", [collective_view(subject)]
    yield "time", "Predicted time", [time_legend(), pair(subject, time_view)]
    yield "roofline", "Roofline", [roofline_view(subject)]
    yield "hbm", "HBM of a chip", [*hbm_views(subject), padding_list(subject.plan)]
    if beside.batches is not None:
        yield "batches", "TTFT and TPOT against the batch", [beside.batches]
    if beside.frontier is not None:
        yield "frontier", "The frontier", [beside.frontier]
    yield "proof", "Runners-up and proof", [proof_view(subject)]
    yield "spec", "Resolved spec", [folded("every value", element("pre", spec_to_yaml(subject.spec), tabindex=0))]


def where_views(subject: Subject) -> list[Html]:
    """The chips of a slice and what they hold; of both kinds of slices where each phase has its own."""
    if subject.plan.pool is None:
        return [mesh_view(subject)]
    found = []
    for name, title in POOLS.items():
        there = subject.at(name)
        found += [element("h3", f"{title}: {there.plan.slice}"), mesh_view(there, (name,))]
    return found


def hbm_views(subject: Subject) -> list[Html]:
    """The budget of a chip; of both kinds of slices where each phase has its own."""
    if subject.plan.pool is None:
        told = "The same on every chip: shards are padded to be equal."
        return [element("p", told, class_="soft"), hbm_bar(subject)]
    return [part for name, title in POOLS.items() for part in (element("h3", title), hbm_bar(subject.at(name)))]


def flow_legend() -> Html:
    """How to read the flow."""
    return element(
        "p",
        "Weights come from the left, the residual stream runs down. A collective is told beside the arrow that waits "
        "for it: how often it runs in a step, its bytes per chip each time, its seconds in all. ",
        element("span", "◆ Latency-bound", class_="late"),
        " is one of which half of the time or more would be left if it carried a single byte.",
    )


def time_view(subject: Subject, name: str) -> Html:
    """The bars of a phase, and the sentences behind them."""
    details = explain(subject.whole or subject.plan, name)[1:]
    listed = [
        element("li", element("code", each.address), element("br"), "; ".join(each.sentences)) for each in details
    ]
    return joined(time_bars(subject, name), folded("the arithmetic", element("ul", *listed)))


def padding_list(plan: Plan) -> Html:
    """Why dimensions are padded, where they are."""
    told = [each for each in explain(plan) if each.address.startswith(("padding.", "pool.padding."))]
    items = [element("li", element("code", each.address), f" {'; '.join(each.sentences)}") for each in told]
    return element("ul", *items) if items else Html()
