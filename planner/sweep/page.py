"""A sweep as one HTML page or one SVG file: no script, no network; the same sweep gives the same bytes."""

from collections.abc import Callable, Iterable
from pathlib import Path

from planner.errors import CannotRun
from planner.report.html import Html, element, folded, joined, section, table
from planner.report.style import STYLE
from planner.report.style_chart import CHART_STYLE, SVG_COLOURS
from planner.spec import Spec, spec_to_yaml
from planner.sweep.chart import HEIGHT, WIDTH, chart_svg
from planner.sweep.frontier import by_latency
from planner.sweep.reasons import group_text, groups, values_text
from planner.sweep.schema import Point, Sweep
from planner.sweep.text import NUMBERS, cells, chosen_text
from planner.sweep.words import counts_text, headline, others_of

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
EXACT = (
    "At each setting every trade-off between the two quantities was found, each layout proved optimal: no other layout "
    "of the strategy space is on this frontier at these settings.",
    "Prices are rounded up to whole nanoseconds for the proof, so layouts closer than that count as equal.",
    "Settings that were not tried, such as batches in between, can be better than the steps drawn.",
    "Times are predictions and means, with every slot of the batch in use. What a dtype does to answers is not priced.",
)


Draw = Callable[[Sweep, Spec], str]


def picture_writer(path: Path) -> Draw:
    """What draws the kind of file that a name asks for; raises CannotRun for any other."""
    kinds: dict[str, Draw] = {".html": sweep_html, ".svg": sweep_svg}
    suffix = path.suffix.lower()
    if suffix not in kinds:
        raise CannotRun(f"{path}: a sweep is drawn as .html or .svg, not {suffix or 'a file without an ending'}")
    return kinds[suffix]


def sweep_html(sweep: Sweep, spec: Spec) -> str:
    """The page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{sweep.name}: sweep"),
        element("style", Html(f"{STYLE}\n{CHART_STYLE}")),
    )
    body = element(
        "body",
        opening(sweep),
        element("div", chart_svg(sweep), class_="wide") if sweep.points else Html(),
        section("The frontier", points_table(sweep, sweep.frontier)),
        section("Dominated", folded(f"{len(sweep.dominated)} points", points_table(sweep, sweep.dominated))),
        section("Infeasible", *infeasible_list(sweep)),
        section("What is exact here", element("ul", *(element("li", text) for text in EXACT))),
        section("Resolved spec", folded("every value", element("pre", spec_to_yaml(spec)))),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def sweep_svg(sweep: Sweep, spec: Spec) -> str:
    """The scatter as a file of its own; raises CannotRun when there is nothing to draw."""
    if not sweep.points:
        raise CannotRun("no setting is feasible, so there is nothing to draw; write an .html page or --format json")
    drawn = chart_svg(sweep, xmlns=SVG_NAMESPACE, width=str(WIDTH), height=str(HEIGHT))
    opening_tag, bracket, rest = drawn.partition(">")
    style = element("style", Html(f"{SVG_COLOURS}\n{CHART_STYLE}"))
    paper = element("rect", width="100%", height="100%", class_="paper")
    return f"{opening_tag}{bracket}{style}{paper}{rest}\n"


def opening(sweep: Sweep) -> Html:
    """What is swept and what came of it, in sentences."""
    varied = [f"{name} {', '.join(map(str, values))}" for name, values in sweep.over.items()]
    return joined(
        element("h1", headline(sweep)),
        element("p", f"{counts_text(sweep)}."),
        element("p", f"{chosen_text(sweep).removeprefix('* ').replace('`', '')}."),
        element("p", f"Varied: {'; '.join(varied)}.", class_="soft"),
        *(element("p", f"Predictions: {text}.", class_="soft") for text in sweep.accuracy),
    )


def points_table(sweep: Sweep, points: Iterable[Point]) -> Html:
    """The same rows as in text."""
    header = ("slice", "batch", *others_of(sweep), *NUMBERS, "generate", "prefill", "best for")
    rows = [cells(sweep, point) for point in by_latency(points, sweep.latency, sweep.against)]
    numeric = (1, *range(2 + len(others_of(sweep)), 2 + len(others_of(sweep)) + len(NUMBERS)))
    return table(header, rows, numeric) if rows else element("p", "none")


def infeasible_list(sweep: Sweep) -> list[Html]:
    """Each group with its settings folded away."""
    drawn = []
    for group in groups(sweep):
        items = (element("li", f"{values_text(each.values)}: {each.reason}") for each in group)
        drawn += [element("p", group_text(group)), folded("each setting", element("ul", *items))]
    return drawn or [element("p", "no setting")]
