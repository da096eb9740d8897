"""TTFT and TPOT against the batch as an SVG: the best plan of one slice at each batch, the limits, and the plan."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.plan.units import seconds_text
from planner.report.html import Html, element, joined
from planner.report.scale import Scale
from planner.sweep.around import Around
from planner.sweep.over import BATCH
from planner.sweep.schema import Point

WIDTH, PANEL, GAP, TOP, BOTTOM, LEFT, RIGHT = 760, 190, 34, 26, 52, 74, 18
HEIGHT = TOP + 2 * PANEL + GAP + BOTTOM
TEXT_HEIGHT = 17
Value = Callable[[Point], float | None]


@dataclass(frozen=True)
class Line:
    """One quantity against the batch: its value in a point, its limit in the spec's limits, how it is drawn."""

    title: str
    value: Value
    limit: str
    style: str


MEANS = (
    Line("TTFT", lambda point: point.service.ttft_s, "ttft_s", "s0"),
    Line("TPOT", lambda point: point.service.tpot_s, "tpot_s", "s2"),
)
TAILS = (
    Line("TTFT of 95 %", lambda point: ttft_p95(point), "ttft_p95_s", "s0 tail"),
    Line("TPOT of 95 %", lambda point: tpot_p95(point), "tpot_p95_s", "s2 tail"),
)


def ttft_p95(point: Point) -> float | None:
    """The TTFT that 95 % of requests stay within, where it is known."""
    return point.fleet.tails.ttft_p95_s if point.fleet and point.fleet.tails else None


def tpot_p95(point: Point) -> float | None:
    """The TPOT that 95 % of requests stay within, where it is known."""
    return point.fleet.tails.tpot_p95_s if point.fleet and point.fleet.tails else None


def batch_of(point: Point) -> int:
    """The batch of a point."""
    return int(point.values[BATCH])


def batches_svg(found: Around) -> Html:
    """Two panels over one axis of batches."""
    batches = [batch_of(point) for point in (*found.neighbours, found.own)]
    unfit = [int(each.values[BATCH]) for each in found.infeasible]
    across = Scale.over([float(batch) for batch in (*batches, *unfit)], LEFT, WIDTH - RIGHT)
    parts = [batch_axis(across, sorted({*batches, *unfit})), *(no_plan(across, batch) for batch in unfit)]
    parts.append(concurrency_line(across, found.concurrency))
    for index in range(2):
        top = TOP + index * (PANEL + GAP)
        parts.append(panel(found, (MEANS[index], TAILS[index]), across, top))
    label = "TTFT and TPOT against the batch; the table holds the same points"
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="plot")


def panel(found: Around, lines: tuple[Line, ...], across: Scale, top: int) -> Html:
    """One quantity: ticks, the line through the best plans, its limits, and the plan."""
    shown = [*found.neighbours, found.own]
    limits = {line.limit: found.sweep.limits[line.limit] for line in lines if line.limit in found.sweep.limits}
    values = [value for line in lines for point in shown if (value := line.value(point)) is not None]
    up = Scale.over([*values, *limits.values()], top + PANEL, top)
    drawn = [ticks(up), element("text", lines[0].title, x=LEFT, y=top - 9, class_="title")]
    drawn += [limit_line(up, line, limits[line.limit], top) for line in lines if line.limit in limits]
    drawn += [curve(found.neighbours, line, across, up) for line in lines]
    value = lines[0].value(found.own)
    assert value is not None, "every plan has means"
    x, y = across.at(batch_of(found.own)), up.at(value)
    anchor, beside = ("end", -14) if x > WIDTH / 2 else ("start", 14)
    text = f"this plan: {seconds_text(value)}"
    drawn.append(element("circle", cx=x, cy=y, r=9, class_="ring"))
    drawn.append(element("circle", cx=x, cy=y, r=4, class_=lines[0].style))
    drawn.append(element("text", text, x=x + beside, y=y - 10, text_anchor=anchor, class_="told"))
    return joined(*drawn)


def curve(points: tuple[Point, ...], line: Line, across: Scale, up: Scale) -> Html:
    """The line through the best plan of each batch, and its points."""
    known = [(point, value) for point in points if (value := line.value(point)) is not None]
    if not known:
        return Html()
    places = [(across.at(batch_of(point)), up.at(value)) for point, value in known]
    d = "M " + " L ".join(f"{x} {y}" for x, y in places)
    dots = []
    for (point, value), (x, y) in zip(known, places, strict=True):
        title = element("title", f"batch {batch_of(point)}: {line.title} {seconds_text(value)}")
        dots.append(element("circle", title, cx=x, cy=y, r=3.5, class_=line.style))
    return joined(element("path", d=d, class_=f"curve {line.style}"), *dots)


def limit_line(up: Scale, line: Line, limit: float, top: int) -> Html:
    """A limit of the spec."""
    y = up.at(limit)
    drawn = element("path", d=f"M {LEFT} {y} H {WIDTH - RIGHT}", class_="limit")
    below = y + 14 if y < top + 16 else y - 5
    return joined(
        drawn, element("text", f"limit on {line.title} {seconds_text(limit)}", x=LEFT + 6, y=below, class_="bound")
    )


def ticks(up: Scale) -> Html:
    """Lines of round values."""
    drawn = []
    for value in up.ticks_apart(TEXT_HEIGHT):
        y = up.at(value)
        drawn.append(element("path", d=f"M {LEFT} {y} H {WIDTH - RIGHT}", class_="grid"))
        drawn.append(element("text", seconds_text(value), x=LEFT - 8, y=y + 4, text_anchor="end"))
    return joined(*drawn)


def batch_axis(across: Scale, batches: list[int]) -> Html:
    """The batches that were solved, as many named as there is room for."""
    drawn, last = [], float("-inf")
    for batch in batches:
        x = across.at(batch)
        if x - last > 30:
            drawn.append(element("text", str(batch), x=x, y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
            last = x
    title = "batch: sequences generated together"
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(element("text", title, x=middle, y=HEIGHT - 10, text_anchor="middle", class_="soft"))
    return joined(*drawn)


def no_plan(across: Scale, batch: int) -> Html:
    """A batch for which there is no plan, in both panels."""
    x, bottom = across.at(batch), HEIGHT - BOTTOM
    title = element("title", f"batch {batch}: no plan")
    return element("path", title, d=f"M {x} {TOP} V {bottom}", class_="none")


def concurrency_line(across: Scale, concurrency: int) -> Html:
    """The most sequences that the workload has in flight."""
    if not across.low <= concurrency <= across.high:
        return Html()
    x = across.at(concurrency)
    drawn = element("path", d=f"M {x} {TOP} V {HEIGHT - BOTTOM}", class_="edge")
    return joined(
        drawn, element("text", "concurrency", x=x - 5, y=HEIGHT - BOTTOM - 6, text_anchor="end", class_="soft")
    )
