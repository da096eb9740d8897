"""The roofline: every part of both steps by its operations per byte of HBM, under what the chip can do.

A part's height is its operations over all of its time, so that what it loses to links, fixed costs and software shows
as its distance from the roof.
"""

from dataclasses import dataclass

from planner.explain import Subject
from planner.explain.parts import operations_text, part_bytes, part_flops
from planner.plan.catalogue import flops_text
from planner.plan.schema import Roofline
from planner.plan.units import RESOURCES, bytes_text, digits, percent_text, seconds_text
from planner.report.html import Html, element, joined, scroller, table
from planner.report.scale import Scale

PHASES = ("prefill", "generate")
CLASSES = {"compute": "compute", "hbm": "hbm_", "ici": "ici", "fixed": "fixed"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 104, 18, 20, 48
RADIUS = 9
TEXT_WIDTH, TEXT_HEIGHT = 44, 17
LEAST_REACH = 4.0
"""The chart shows so many times less and more than the ridge at least."""
HEADER = ("", "part", "operations", "HBM", "FLOP/byte", "reached", "of the roof", "time", "bound by")


@dataclass(frozen=True)
class Op:
    """One part of a step: its number on the chart, operations, bytes and seconds of one chip, and what binds it."""

    number: int
    phase: str
    part: Roofline
    flops: float
    moved: float

    @property
    def seconds(self) -> float:
        """All of its time."""
        return self.part.total_s

    @property
    def drawn(self) -> bool:
        """Whether it has a place on logarithmic axes."""
        return self.flops > 0 and self.moved > 0 and self.seconds > 0

    @property
    def intensity(self) -> float:
        """Operations per byte of HBM."""
        return self.flops / self.moved

    @property
    def reached(self) -> float:
        """Operations per second."""
        return self.flops / self.seconds


@dataclass(frozen=True)
class Roof:
    """What one chip can do at most: operations and bytes a second."""

    flops_per_s: float
    bytes_per_s: float

    @classmethod
    def of(cls, subject: Subject) -> "Roof":
        """The roof of a plan's chip in the dtype it computes in."""
        chip = subject.machine.chip
        return cls(chip.flops_per_s(subject.machine.sizes.compute_dtype), chip.hbm_bytes_per_s)

    @property
    def ridge(self) -> float:
        """Operations per byte from which compute is what binds."""
        return self.flops_per_s / self.bytes_per_s

    def at(self, intensity: float) -> float:
        """Operations per second that can be reached at an intensity."""
        return min(self.flops_per_s, intensity * self.bytes_per_s)


def ops_of(subject: Subject) -> list[Op]:
    """Every part of both steps, numbered in their order."""
    found: list[Op] = []
    for phase in PHASES:
        there = subject.at(phase)
        for part in there.phase(phase).parts:
            flops, moved = part_flops(there, part), part_bytes(there, part)
            found.append(Op(len(found) + 1, phase, part, flops, moved))
    return found


def roofline_view(subject: Subject) -> Html:
    """The chart, what its marks mean, and the same as a table."""
    ops, roof = ops_of(subject), Roof.of(subject)
    dtype = subject.machine.sizes.compute_dtype
    told = (
        f"One {subject.plan.chip} chip: {flops_text(roof.flops_per_s)} in {dtype}, {bytes_text(roof.bytes_per_s)}/s of "
        f"HBM; compute binds from {digits(roof.ridge)} FLOP/byte on. A mark below the roof loses the difference to "
        "links, to fixed costs, or to what the software does not reach."
    )
    drawn = [op for op in ops if op.drawn]
    chart = scroller("roofline", roofline_svg(drawn, roof)) if drawn else Html()
    rows = table(HEADER, [op_row(op, roof) for op in ops], (0, 2, 3, 4, 5, 6, 7), "parts of both steps")
    return joined(element("p", told), legend(), chart, rows)


def legend() -> Html:
    """What shape and colour mean."""
    entries = [element("span", element("i", class_=CLASSES[key]), f"bound by {RESOURCES[key]}") for key in CLASSES]
    shapes = element("span", "round: prefill, square: generate; numbers as in the table")
    return element("div", *entries, shapes, class_="legend")


def op_row(op: Op, roof: Roof) -> tuple[str, ...]:
    """One part as a row; what has no operations has no place on the chart."""
    numbers = ("–", "–", "–")
    if op.drawn:
        of_roof = percent_text(op.reached / roof.at(op.intensity))
        numbers = (digits(op.intensity), flops_text(op.reached), of_roof)
    flops = operations_text(op.flops) if op.flops else "–"
    moved = bytes_text(round(op.moved)) if op.moved else "–"
    bound = RESOURCES[op.part.binds]
    return (str(op.number), op.part.address, flops, moved, *numbers, seconds_text(op.seconds), bound)


def roofline_svg(ops: list[Op], roof: Roof) -> Html:
    """The chart, both axes in tenfolds."""
    ridge = roof.ridge
    across = Scale.over([*(op.intensity for op in ops), ridge / LEAST_REACH, ridge * LEAST_REACH], LEFT, WIDTH - RIGHT)
    up = Scale.over([*(op.reached for op in ops), roof.flops_per_s, roof.flops_per_s / 50], HEIGHT - BOTTOM, TOP)
    parts = [grid(across, up), roof_line(across, up, roof)]
    placed = list(zip(ops, apart(ops, across, up), strict=True))
    parts += [lead(*place) for _, place in placed]
    parts += [mark(op, *place[2:]) for op, place in placed]
    label = f"roofline of {len(ops)} parts; the table below holds the same numbers"
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="plot")


def grid(across: Scale, up: Scale) -> Html:
    """Ticks, their lines, and what the axes mean."""
    drawn = []
    for value in across.ticks_apart(TEXT_WIDTH):
        x = across.at(value)
        drawn.append(element("path", d=f"M {x} {TOP} V {HEIGHT - BOTTOM}", class_="grid"))
        drawn.append(element("text", digits(value), x=x, y=HEIGHT - BOTTOM + 17, text_anchor="middle"))
    for value in up.ticks_apart(TEXT_HEIGHT):
        y = up.at(value)
        drawn.append(element("path", d=f"M {LEFT} {y} H {WIDTH - RIGHT}", class_="grid"))
        drawn.append(element("text", flops_text(value), x=LEFT - 8, y=y + 4, text_anchor="end"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    title = "operations per byte of HBM (FLOP/byte)"
    drawn.append(element("text", title, x=middle, y=HEIGHT - 8, text_anchor="middle", class_="soft"))
    return joined(*drawn)


def roof_line(across: Scale, up: Scale, roof: Roof) -> Html:
    """What the chip can do: up with the bandwidth of HBM, then level."""
    low, start = across.low, roof.at(across.low)
    if start < up.low:
        low, start = up.low / roof.bytes_per_s, up.low
    x, y = across.at(roof.ridge), up.at(roof.flops_per_s)
    return element("path", d=f"M {across.at(low)} {up.at(start)} L {x} {y} H {WIDTH - RIGHT}", class_="roof")


def apart(ops: list[Op], across: Scale, up: Scale) -> list[tuple[float, float, float, float]]:
    """Where each mark points to, and where it is drawn: beside the point where another mark is there already."""
    taken: list[tuple[float, float]] = []
    placed = []
    tries = [(0.0, 0.0)] + [
        (2 * RADIUS * dx * far, 2 * RADIUS * dy * far)
        for far in (1.15, 2.3, 3.45)
        for dx, dy in ((0, 1), (1, 0), (-1, 0), (1, 1), (-1, 1), (0, -1))
    ]
    for op in ops:
        x, y = across.at(op.intensity), up.at(op.reached)
        spots = [(x + dx, y + dy) for dx, dy in tries if LEFT < x + dx < WIDTH - RIGHT and y + dy < HEIGHT - BOTTOM]
        free = (s for s in spots if all(abs(s[0] - a) > 2 * RADIUS or abs(s[1] - b) > 2 * RADIUS for a, b in taken))
        spot = next(free, (x, y))
        taken.append(spot)
        placed.append((x, y, round(spot[0], 1), round(spot[1], 1)))
    return placed


def lead(x: float, y: float, at_x: float, at_y: float) -> Html:
    """What joins a mark that had to move to its point."""
    if (at_x, at_y) == (x, y):
        return Html()
    line = element("path", d=f"M {x} {y} L {at_x} {at_y}", class_="lead")
    return joined(line, element("circle", cx=x, cy=y, r=2.5, class_="point"))


def mark(op: Op, x: float, y: float) -> Html:
    """One part: its number in the shape of its phase and the colour of what binds it."""
    said = f"{op.part.address}: {digits(op.intensity)} FLOP/byte, {flops_text(op.reached)}, {seconds_text(op.seconds)}"
    colour = CLASSES[op.part.binds]
    shape = (
        element("circle", cx=x, cy=y, r=RADIUS, class_=colour)
        if op.phase == "prefill"
        else element("rect", x=x - 8.5, y=y - 8.5, width=17, height=17, rx=2, class_=colour)
    )
    number = element("text", str(op.number), x=x, y=y + 4, text_anchor="middle", class_="number")
    return element("g", element("title", said), shape, number, class_="mark")
