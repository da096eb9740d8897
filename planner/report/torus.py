"""The chips of a slice and the links between them as an SVG: each link in the colour of the mesh axis it belongs to."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from planner.plan.records import Mesh, MeshAxis
from planner.report.html import Html, element, scroller
from planner.report.palette import LIGHT

MOST_CHIPS = 512
STEP_X, STEP_Y, BOX_X, BOX_Y = 84, 56, 56, 30
DOT, NEAR_X, NEAR_Y, APART = 5, 17, 13, 30
STUB, MARGIN, IN_A_ROW = 12, 22, 8
NAMES = "xyz"

Chip = tuple[int, ...]
Place = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """Where chips stand: `shape` is how many there are along each torus axis; a switch has no neighbours."""

    mesh: Mesh
    shape: Chip
    switched: bool = False

    @classmethod
    def of(cls, mesh: Mesh, switched: bool) -> "Drawing":
        """The drawing of a mesh."""
        sides = len(mesh.chips[0])
        return cls(mesh, tuple(max(chip[side] for chip in mesh.chips) + 1 for side in range(sides)), switched)

    @property
    def deep(self) -> bool:
        """Whether there is a third axis, drawn backwards."""
        return len(self.shape) > 2 and self.shape[2] > 1

    @property
    def step(self) -> Place:
        """From a chip to its right neighbour, and to the one below."""
        if not self.deep:
            return STEP_X, STEP_Y
        return NEAR_X * self.shape[2] + APART, NEAR_Y * self.shape[2] + APART

    def place(self, chip: Chip) -> Place:
        """The middle of a chip: x goes down, y to the right, z backwards, a single row to the right."""
        row, column, back = (*chip, 0, 0)[:3] if len(self.shape) > 1 else (*divmod(chip[0], IN_A_ROW), 0)
        wide, high = self.step
        left, top = (0, NEAR_Y * (self.shape[2] - 1)) if self.deep else (BOX_X / 2, BOX_Y / 2)
        return MARGIN + left + wide * column + NEAR_X * back, MARGIN + top + high * row - NEAR_Y * back

    @property
    def size(self) -> Place:
        """Width and height of the drawing."""
        places = [self.place(chip) for chip in self.mesh.chips]
        wide, high = (DOT, DOT) if self.deep else (BOX_X / 2, BOX_Y / 2)
        return max(x for x, _ in places) + wide + MARGIN, max(y for _, y in places) + high + MARGIN

    def axis_of(self, side: int, at: int) -> int | None:
        """The mesh axis of the link from `at` to `at + 1` along a side: the coarsest piece whose block ends there."""
        pieces = [
            (axis.stride, index)
            for index, axis in enumerate(self.mesh.axes)
            if axis.torus_axis == NAMES[side] and axis.size > 1 and (at + 1) % axis.stride == 0
        ]
        return max(pieces)[1] if pieces else None


def torus_svg(mesh: Mesh, told: dict[Chip, str], switched: bool = False) -> Html:
    """The chips, and what each holds as its title."""
    if len(mesh.chips) > MOST_CHIPS:
        return element("p", f"{len(mesh.chips)} chips are more than the {MOST_CHIPS} that are drawn.", class_="soft")
    drawing = Drawing.of(mesh, switched)
    wide, high = drawing.size
    drawn = [*links(drawing), *(chip_mark(drawing, chip, told.get(chip, "")) for chip in sorted(mesh.chips))]
    label = f"{len(mesh.chips)} chips and the links between them; the table below says what each holds"
    box = f"0 0 {wide:g} {high:g}"
    style = f"width: {wide:g}px"
    kind = "torus deep" if drawing.deep else "torus"
    svg = element("svg", *drawn, viewBox=box, style=style, role="img", aria_label=label, class_=kind)
    return scroller("the slice", svg)


def links(drawing: Drawing) -> Iterator[Html]:
    """Every link, behind the chips; rings go on beyond the edge."""
    for side, chip in product(range(len(drawing.shape)), sorted(drawing.mesh.chips)):
        index = drawing.axis_of(side, chip[side])
        after = (*chip[:side], chip[side] + 1, *chip[side + 1 :])
        if index is not None and after[side] < drawing.shape[side]:
            if not (drawing.switched and after[side] % IN_A_ROW == 0):
                yield line(drawing.place(chip), drawing.place(after), index)
        elif after[side] == drawing.shape[side]:
            yield from closing(drawing, side, chip)


def closing(drawing: Drawing, side: int, last: Chip) -> Iterator[Html]:
    """Both ends of the link from the last chip of a ring to its first."""
    for index, axis in enumerate(drawing.mesh.axes):
        if axis.torus_axis == NAMES[side] and axis.wraps:
            first = (*last[:side], 0, *last[side + 1 :])
            yield stub(drawing, side, last, 1, index)
            yield stub(drawing, side, first, -1, index)


def stub(drawing: Drawing, side: int, chip: Chip, way: int, index: int) -> Html:
    """The end of a link that leaves the drawing."""
    (x, y), out = drawing.place(chip), STUB * way
    beside, below = (DOT, DOT) if drawing.deep else (BOX_X / 2, BOX_Y / 2)
    flat = len(drawing.shape) == 1 or side == 1
    if side == 2:
        return line((x, y), (x + out * 1.2, y - out * 0.9), index, "ring")
    return line((x, y), (x + way * beside + out, y) if flat else (x, y + way * below + out), index, "ring")


def line(start: Place, end: Place, index: int, extra: str = "") -> Html:
    """One link."""
    d = f"M {start[0]:g} {start[1]:g} L {end[0]:g} {end[1]:g}"
    return element("path", d=d, class_=f"link s{index % len(LIGHT)} {extra}".strip())


def chip_mark(drawing: Drawing, chip: Chip, told: str) -> Html:
    """One chip: a box with its coordinates; a dot where chips stand behind each other."""
    x, y = drawing.place(chip)
    title = element("title", f"({', '.join(map(str, chip))})\n{told}")
    if drawing.deep:
        return element("circle", title, cx=f"{x:g}", cy=f"{y:g}", r=DOT, class_="chip")
    left, top = f"{x - BOX_X / 2:g}", f"{y - BOX_Y / 2:g}"
    box = element("rect", x=left, y=top, width=BOX_X, height=BOX_Y, rx=5, class_="chip")
    text = element("text", ",".join(map(str, chip)), x=f"{x:g}", y=f"{y + 4.5:g}", text_anchor="middle")
    return element("g", title, box, text)


def axis_text(axis: MeshAxis, switched: bool = False) -> str:
    """What an axis is made of: `4 chips, a ring along x`."""
    if switched:
        return f"{axis.size} chips of one switch"
    if axis.size == 1:
        return "1 chip"
    apart = f", {axis.stride} links apart" if axis.stride > 1 else ""
    return f"{axis.size} chips{apart}, {'a ring' if axis.wraps else 'a line'} along {axis.torus_axis}"
