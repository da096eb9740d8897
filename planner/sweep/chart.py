"""The scatter of a sweep as an SVG: latency to the right, the other quantity upwards, the frontier joined by steps."""

from itertools import pairwise

from planner.report.html import Html, element, joined
from planner.report.scale import Scale
from planner.sweep.frontier import MEASURES, Measure, by_latency
from planner.sweep.reasons import values_text
from planner.sweep.schema import Point, Sweep
from planner.sweep.words import best_for_text, headline, strategy_text

WIDTH, HEIGHT = 760, 470
LEFT, RIGHT, BOTTOM = 74, 16, 54
LEGEND_ROW, LEGEND_TOP = 20, 8
LETTER = 7.4
"""Width of a letter of the legend, in the larger type of narrow windows."""
RING = 10
DOMINATED, FRONTIER, TAKEN = "dominated", "frontier, labelled with its batch", "what plan takes"
COLOURS = 8
SHAPES = (
    "M -5 0 A 5 5 0 1 0 5 0 A 5 5 0 1 0 -5 0 Z",
    "M -4.5 -4.5 H 4.5 V 4.5 H -4.5 Z",
    "M 0 -5.5 L 5.5 4.5 H -5.5 Z",
    "M 0 -6 L 6 0 L 0 6 L -6 0 Z",
)


class Chart:
    """The frame of one sweep's scatter: its scales, and how each slice is drawn."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.x, self.y = MEASURES[sweep.latency], MEASURES[sweep.against]
        self.slices = tuple(str(value) for value in sweep.over["slice"])
        self.entries = placed_legend(legend_texts(sweep))
        self.top = LEGEND_TOP + LEGEND_ROW * (self.entries[-1][1] + 1) + 14
        self.limit = sweep.limits.get(f"{sweep.latency}_s")
        xs = [self.x.value(point) for point in self.drawn]
        known = [self.limit] if self.limit is not None else []
        self.across = Scale.over([*xs, *known], LEFT, WIDTH - RIGHT)
        self.up = Scale.over([self.y.value(point) for point in self.drawn], HEIGHT - BOTTOM, self.top)

    @property
    def drawn(self) -> list[Point]:
        """Every point, and what `plan` takes where it is not among them; those to be on top come last."""
        points = [*self.sweep.dominated, *self.sweep.frontier]
        chosen = self.sweep.chosen
        return points if chosen is None or any(point.chosen for point in points) else [*points, chosen]

    def place(self, point: Point) -> tuple[float, float]:
        """Where a point stands."""
        return self.across.at(self.x.value(point)), self.up.at(self.y.value(point))


def chart_svg(sweep: Sweep, **attributes: str) -> Html:
    """The scatter; `attributes` are added to the svg element."""
    chart = Chart(sweep)
    parts = [grid_lines(chart), axis_titles(chart), limit_line(chart), frontier_line(chart)]
    parts += [mark(chart, point) for point in chart.drawn]
    parts += [labels(chart), legend(chart)]
    label = f"{headline(sweep)}; the table holds the same points"
    return element(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="sweep", **attributes
    )


def grid_lines(chart: Chart) -> Html:
    """Ticks of both axes with their lines."""
    drawn = []
    for value in chart.across.ticks():
        x = chart.across.at(value)
        drawn.append(element("path", d=f"M {x} {chart.top} V {HEIGHT - BOTTOM}", class_="grid"))
        drawn.append(element("text", chart.x.text(value), x=x, y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
    for value in chart.up.ticks():
        y = chart.up.at(value)
        drawn.append(element("path", d=f"M {LEFT} {y} H {WIDTH - RIGHT}", class_="grid"))
        drawn.append(element("text", chart.y.text(value), x=LEFT - 8, y=y + 4, text_anchor="end"))
    return joined(*drawn)


def axis_titles(chart: Chart) -> Html:
    """What the axes mean, and which way is better."""
    middle = (chart.top + HEIGHT - BOTTOM) / 2
    upwards = element(
        "text",
        f"{axis_title(chart.y)}",
        x=14,
        y=middle,
        text_anchor="middle",
        transform=f"rotate(-90 14 {middle})",
        class_="soft",
    )
    across = element(
        "text",
        f"{axis_title(chart.x)}",
        x=(LEFT + WIDTH - RIGHT) / 2,
        y=HEIGHT - 10,
        text_anchor="middle",
        class_="soft",
    )
    return joined(across, upwards)


def axis_title(measure: Measure) -> str:
    """The quantity, and which way is better."""
    return f"{measure.title}, {'more' if measure.better > 0 else 'less'} is better"


def limit_line(chart: Chart) -> Html:
    """The spec's own bound on the latency, where there is one."""
    if chart.limit is None:
        return Html()
    x = chart.across.at(chart.limit)
    line = element("path", d=f"M {x} {chart.top} V {HEIGHT - BOTTOM}", class_="limit")
    left = x > WIDTH / 2
    text = f"limit {chart.x.text(chart.limit)}"
    at, anchor = (x - 6, "end") if left else (x + 6, "start")
    return joined(line, element("text", text, x=at, y=chart.top + 14, text_anchor=anchor, class_="bound"))


def frontier_line(chart: Chart) -> Html:
    """The best that can be had within each latency: level until the next point of the frontier, then to it."""
    places = [
        chart.place(point) for point in by_latency(chart.sweep.frontier, chart.sweep.latency, chart.sweep.against)
    ]
    if not places:
        return Html()
    steps = "".join(f" H {after[0]} V {after[1]}" for _, after in pairwise(places))
    return element("path", d=f"M {places[0][0]} {places[0][1]}{steps}", class_="front")


def mark(chart: Chart, point: Point) -> Html:
    """One point, its numbers as its title."""
    x, y = chart.place(point)
    index = chart.slices.index(str(point.values["slice"])) if point.values["slice"] in chart.slices else 0
    ring = [element("circle", r=RING, class_="ring")] if point.chosen else []
    shape = element("path", d=shape_of(index), class_=f"s{index % COLOURS}{'' if point.on_frontier else ' off'}")
    return element("g", element("title", tooltip(point)), *ring, shape, transform=f"translate({x} {y})")


def shape_of(index: int) -> str:
    """The outline of a slice's points: shape and colour together tell 32 slices apart."""
    return SHAPES[(index + index // COLOURS) % len(SHAPES)]


def tooltip(point: Point) -> str:
    """What is said of a point."""
    numbers = [f"{measure.title} {measure.shown(point)}" for measure in MEASURES.values()]
    strategies = (
        f"generate {strategy_text(point.generate_strategy, with_cache=True)}",
        f"prefill {strategy_text(point.prefill_strategy)}",
    )
    notes = [f"best for {best_for_text(point)}"] if point.best_for else []
    notes += ["on the frontier"] if point.on_frontier else []
    notes += ["what plan takes"] if point.chosen else []
    return "\n".join([values_text(point.values), ", ".join(numbers), *strategies, *notes])


def labels(chart: Chart) -> Html:
    """The batch beside each point of the frontier, on its empty side, where it does not run into the one before."""
    drawn = []
    last = (-100.0, -100.0)
    below = 15 if chart.y.better < 0 else -6
    for point in by_latency(chart.sweep.frontier, chart.sweep.latency, chart.sweep.against):
        x, y = chart.place(point)
        if abs(x - last[0]) > 18 or abs(y - last[1]) > 14:
            batch, aside = str(point.values["generate.batch"]), RING / 2 if point.chosen else 0
            drawn.append(element("text", batch, x=x - 7 - aside, y=y + below, text_anchor="end", class_="batch"))
            last = x, y
    return joined(*drawn)


def legend_texts(sweep: Sweep) -> list[str]:
    """The entries of the legend: every slice that has points, then what the marks mean."""
    feasible = {point.values["slice"] for point in sweep.points}
    slices = [str(value) for value in sweep.over["slice"] if value in feasible]
    return [*slices, DOMINATED, FRONTIER, *([TAKEN] if sweep.chosen else [])]


def placed_legend(texts: list[str]) -> list[tuple[int, int, str]]:
    """Each entry of the legend: left edge, row, text."""
    placed, left, row = [], LEFT, 0
    for text in texts:
        wide = int(34 + LETTER * len(text))
        if left + wide > WIDTH - RIGHT and left > LEFT:
            left, row = LEFT, row + 1
        placed.append((left, row, text))
        left += wide
    return placed


def legend(chart: Chart) -> Html:
    """What marks mean."""
    drawn = []
    for left, row, text in chart.entries:
        y = LEGEND_TOP + LEGEND_ROW * row + 6
        drawn.append(element("g", legend_mark(chart, text), transform=f"translate({left + 6} {y})"))
        drawn.append(element("text", text, x=left + 20, y=y + 4))
    return joined(*drawn)


def legend_mark(chart: Chart, text: str) -> Html:
    """The mark of one entry."""
    if text == DOMINATED:
        return element("path", d=SHAPES[0], class_="s7 off")
    if text == FRONTIER:
        return element("path", d="M -8 4 H 0 V -4 H 8", class_="front")
    if text == TAKEN:
        return element("circle", r=8, class_="ring")
    index = chart.slices.index(text)
    return element("path", d=shape_of(index), class_=f"s{index % COLOURS}")
