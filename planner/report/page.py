"""A plan as one HTML page: no script, no network, nothing beside it; the same plan gives the same bytes."""

from collections.abc import Callable

from planner.explain import Subject, explain
from planner.explain.fleet import explain_fleet, slices_text
from planner.explain.phases import load_text, runner_up_sentence
from planner.explain.service import explain_proof, explain_service
from planner.plan.schema import Plan, Prefill
from planner.plan.show import RULE_MEANING, copy_texts
from planner.plan.units import bytes_text, digits, seconds_text
from planner.report.bars import hbm_bar, time_bars, time_legend
from planner.report.flow import flow_svg
from planner.report.html import Html, element, joined, section, table
from planner.report.mesh import mesh_grid
from planner.report.style import STYLE
from planner.spec import spec_to_yaml

PHASES = ("prefill", "generate")
POOLS = {"prefill": "A slice that reads prompts", "generate": "A slice that generates"}
Drawer = Callable[[Subject, str], Html]


def report_html(plan: Plan) -> str:
    """The page."""
    subject = Subject.of(plan)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{plan.name}: plan"),
        element("style", Html(STYLE)),
    )
    body = element(
        "body",
        headline(subject),
        section("Where everything is", *where_views(subject)),
        section("Layouts", pair(subject, rule_table)),
        section("Predicted time", time_legend(), pair(subject, time_view)),
        section("HBM of one chip", *hbm_views(subject), padding_list(plan)),
        section("How a step flows", pair(subject, flow_svg)),
        section("Planned collectives", *(collective_table(subject, phase) for phase in PHASES)),
        section("Runner-ups and proof", proof_list(subject)),
        section("Resolved spec", element("details", element("summary", "every value"), spec_text(subject))),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def headline(subject: Subject) -> Html:
    """What is planned, and the numbers that matter most."""
    plan, service = subject.plan, subject.plan.service
    tiles = (
        ("TTFT (mean)", seconds_text(service.ttft_s)),
        ("TPOT (mean)", seconds_text(service.tpot_s)),
        ("throughput", f"{digits(service.tokens_per_s)} tokens/s"),
        ("prefill step", seconds_text(plan.prefill.step_s)),
        ("generate step", seconds_text(plan.generate.step_s)),
        ("HBM per chip", f"{bytes_text(plan.hbm.total)} of {bytes_text(plan.hbm.available)}"),
    )
    drawn = [
        element("div", element("span", title, class_="soft"), element("b", text), class_="tile")
        for title, text in tiles
    ]
    where = f"{subject.machine.slice.chips} chips of {plan.chip}, slice {plan.slice}"
    if plan.fleet is not None:
        where = f"{plan.chip}, {slices_text(subject, plan.fleet)}: {plan.fleet.chips} chips"
    told = f"{where}; {plan.proof.status} for {plan.proof.objective}"
    return joined(
        element("h1", plan.name),
        element("p", told),
        element("p", f"Predictions: {plan.accuracy}.", class_="soft"),
        element("div", *drawn, class_="tiles"),
    )


def pair(subject: Subject, draw: Drawer) -> Html:
    """Both phases side by side."""
    columns = []
    for name in PHASES:
        phase = subject.phase(name)
        title = f"{name}: {seconds_text(phase.step_s)}, bound by {phase.binds}"
        columns.append(
            element("div", element("h3", title), element("p", load_text(phase), class_="soft"), draw(subject, name))
        )
    return element("div", *columns, class_="pair")


def where_views(subject: Subject) -> list[Html]:
    """The chips of a slice and what they hold; of both kinds of slices where each phase has its own."""
    if subject.plan.pool is None:
        return [mesh_text(subject), mesh_grid(subject)]
    found = []
    for name, title in POOLS.items():
        there = subject.at(name)
        found += [element("h3", f"{title}: {there.plan.slice}"), mesh_text(there), mesh_grid(there, (name,))]
    return found


def hbm_views(subject: Subject) -> list[Html]:
    """The budget of a chip; of both kinds of slices where each phase has its own."""
    if subject.plan.pool is None:
        return [hbm_bar(subject)]
    return [part for name, title in POOLS.items() for part in (element("h3", title), hbm_bar(subject.at(name)))]


def mesh_text(subject: Subject) -> Html:
    """The mesh axes in a sentence."""
    axes = [
        f"{axis.name} = {axis.size} ({'a ring' if axis.wraps else 'a line'} on {axis.torus_axis})"
        for axis in subject.plan.mesh.axes
    ]
    grid = " Rows run along x, columns along y." if len(subject.plan.mesh.chips[0]) > 1 else ""
    return element("p", f"Mesh axes: {', '.join(axes)}.{grid} Sizes include padding.")


def rule_table(subject: Subject, name: str) -> Html:
    """Logical axis -> mesh axes, and the strategies that follow."""
    phase = subject.phase(name)
    rows = [
        (logical, ", ".join(axes) or "replicated", str(subject.at(name).machine.ways(axes)), RULE_MEANING[logical])
        for logical, axes in dict(phase.rules).items()
    ]
    strategies = [element("li", f"{block}: {text}") for block, text in dict(phase.strategy).items()]
    if isinstance(phase, Prefill):
        strategies += [element("li", f"reads {text}") for text in copy_texts(phase)]
    return joined(table(("logical axis", "mesh axes", "ways", "what it cuts"), rows, (2,)), element("ul", *strategies))


def time_view(subject: Subject, name: str) -> Html:
    """The bars of a phase, and the sentences behind them."""
    details = explain(subject.plan, name)[1:]
    listed = [
        element("li", element("code", each.address), element("br"), "; ".join(each.sentences)) for each in details
    ]
    summary = element("summary", "the arithmetic")
    return joined(time_bars(subject, name), element("details", summary, element("ul", *listed)))


def padding_list(plan: Plan) -> Html:
    """Why dimensions are padded, where they are."""
    told = [each for each in explain(plan) if each.address.startswith(("padding.", "pool.padding."))]
    items = [element("li", element("code", each.address), f" {'; '.join(each.sentences)}") for each in told]
    return element("ul", *items) if items else Html()


def collective_table(subject: Subject, name: str) -> Html:
    """The collectives of a phase."""
    rows = [
        (c.address, c.kind, ", ".join(c.axes), bytes_text(c.bytes), str(c.count), seconds_text(c.seconds))
        for c in subject.phase(name).collectives
    ]
    title = element("h3", f"{name}: {sum(c.count for c in subject.phase(name).collectives)} a step")
    return joined(title, table(("address", "kind", "axes", "bytes per chip", "count", "time a step"), rows, (3, 4, 5)))


def proof_list(subject: Subject) -> Html:
    """The best plans not taken, what users see, and the solver's word."""
    items = [
        element("li", f"{name}: {runner_up_sentence(subject.phase(name).runner_up, subject.phase(name))}")
        for name in PHASES
    ]
    fleet = [explain_fleet(subject, subject.plan.fleet)] if subject.plan.fleet else []
    for explanation in (*fleet, explain_service(subject), explain_proof(subject)):
        items += [element("li", sentence) for sentence in explanation.sentences]
    return element("ul", *items)


def spec_text(subject: Subject) -> Html:
    """The resolved spec as its file would be."""
    return element("pre", spec_to_yaml(subject.spec))
