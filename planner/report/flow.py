"""The graph of a step as an SVG: parts downwards, weights from the left, collectives beside the flow they serve."""

from itertools import pairwise

from planner.explain import Subject
from planner.explain.collectives import is_latency_bound
from planner.plan.schema import Collective
from planner.plan.units import RESOURCES, bytes_text, seconds_text
from planner.problem.graph import StepGraph, parts_in_order, step_graph
from planner.report.html import Html, element, joined, scroller

WIDTH, ROW, BOX_HEIGHT = 540, 78, 34
LETTER = 5.9
LATE = "◆ "
STORE_X, STORE_WIDTH, STORE_HEIGHT, STORE_STEP = 4, 64, 21, 25
PART_X, PART_WIDTH, FLOW_X = 136, 170, 166
LINE = 15


def flow_svg(subject: Subject, phase: str) -> Html:
    """The flow of one phase."""
    sizes = subject.machine.sizes
    planned = [each.address for each in subject.phase(phase).collectives]
    graph = step_graph(phase, planned, sizes.blocks, [each.name for each in sizes.matrices])
    parts = parts_in_order(graph)
    tops = row_tops(subject, graph, parts)
    height = tops[parts[-1]] + BOX_HEIGHT + 8
    drawn: list[Html] = []
    for part in parts:
        drawn.append(part_box(subject, part, tops[part]))
        stores = [s for s in graph.predecessors(part) if graph.nodes[s]["kind"] == "weights"]
        drawn += [store_box(graph, store, part, i, len(stores), tops[part]) for i, store in enumerate(stores)]
    for source, target in pairwise(parts):
        drawn.append(arrow(subject, graph, source, target, tops))
    wide = width(subject, graph, parts)
    drawn.insert(0, layer_frame(subject, phase, tops, wide))
    label = f"flow of a {phase} step; the tables of collectives hold the same numbers"
    svg = element("svg", *drawn, viewBox=f"0 0 {wide} {height}", style=f"width: {wide}px", role="img", aria_label=label)
    return scroller(f"flow of a {phase} step", svg)


def width(subject: Subject, graph: StepGraph, parts: list[str]) -> int:
    """As wide as the longest line beside the flow."""
    lines = [text for pair in pairwise(parts) for text, _ in note_lines(subject, notes(graph, *pair))]
    return max(WIDTH, int(FLOW_X + 24 + LETTER * max(map(len, lines), default=0)))


def row_tops(subject: Subject, graph: StepGraph, parts: list[str]) -> dict[str, int]:
    """The top of each part's box: rows grow with the collectives that stand below them."""
    tops, top = {}, 8
    for index, part in enumerate(parts):
        tops[part] = top
        following = parts[index + 1] if index + 1 < len(parts) else None
        listed = len(note_lines(subject, notes(graph, part, following))) if following else 0
        top += max(ROW, BOX_HEIGHT + 16 + LINE * (1 + listed))
    return tops


def notes(graph: StepGraph, source: str, target: str) -> tuple[str, ...]:
    """Addresses written beside the arrow: its own collectives, then those that gather the weights of its end."""
    stores = [store for store in graph.predecessors(target) if store != source]
    gathered = [address for store in stores for address in graph[store][target]["collectives"]]
    return (*graph[source][target]["collectives"], *gathered)


def note_lines(subject: Subject, addresses: tuple[str, ...]) -> list[tuple[str, bool]]:
    """One line for each collective, `mlp.out: 80 x all_reduce x,y 16.8 MB, 28 ms`, and whether latency binds it."""
    found = (each for address in addresses for each in subject.collectives() if each.address == address)
    return [(note_text(each, late), late) for each in found for late in (is_latency_bound(subject, each),)]


def note_text(each: Collective, late: bool) -> str:
    """One line: name, count, kind and axes, bytes of one, seconds of all in a step."""
    name, axes = each.address.partition(".")[2], ",".join(each.axes)
    size, seconds = bytes_text(each.bytes), seconds_text(each.seconds)
    return f"{LATE if late else ''}{name}: {each.count} x {each.kind} {axes} {size}, {seconds}"


def layer_frame(subject: Subject, phase: str, tops: dict[str, int], wide: int) -> Html:
    """A dashed frame around what every layer repeats."""
    last_block = subject.machine.sizes.blocks[-2]
    first, last = tops[f"{phase}.attention.qkv"], tops[f"{phase}.{last_block}.out"]
    frame = element(
        "rect",
        x=PART_X - 8,
        y=first - 8,
        width=wide - PART_X + 4,
        height=last - first + BOX_HEIGHT + 16,
        rx=6,
        class_="layer",
    )
    text = f"{subject.machine.sizes.layers} layers"
    return joined(frame, element("text", text, x=wide - 12, y=first + 10, text_anchor="end", class_="soft"))


def part_box(subject: Subject, address: str, top: int) -> Html:
    """A part with its time."""
    times = {part.address: part for part in subject.phase(address.split(".")[0]).parts}
    label = address.partition(".")[2]
    box = element("rect", x=PART_X, y=top, width=PART_WIDTH, height=BOX_HEIGHT, rx=5, class_="part")
    title = element("text", label, x=PART_X + PART_WIDTH / 2, y=top + BOX_HEIGHT / 2 + 5, text_anchor="middle")
    found = times.get(address)
    text = f"{seconds_text(found.total_s)}, {RESOURCES[found.binds]}" if found else ""
    time = element("text", text, x=PART_X + PART_WIDTH + 10, y=top + BOX_HEIGHT / 2 + 5, class_="soft")
    return joined(box, title, time)


def store_box(graph: StepGraph, store: str, part: str, index: int, count: int, top: int) -> Html:
    """Stored weights, and their arrow into the part that reads them."""
    middle = top + BOX_HEIGHT / 2 + STORE_STEP * (index - (count - 1) / 2)
    y, right = middle - STORE_HEIGHT / 2, STORE_X + STORE_WIDTH
    end = min(max(middle, top + 8), top + BOX_HEIGHT - 8)
    box = element("rect", x=STORE_X, y=y, width=STORE_WIDTH, height=STORE_HEIGHT, rx=4, class_="store")
    label = element("text", store.rpartition(".")[2], x=STORE_X + STORE_WIDTH / 2, y=middle + 4.5, text_anchor="middle")
    line = element("path", d=f"M {right} {middle} L {PART_X - 7} {end}", class_="flow")
    gathered = bool(graph[store][part]["collectives"])
    mark = element("text", "gathered", x=right + 3, y=middle - 4, class_="talk") if gathered else Html()
    return joined(box, label, line, head(PART_X, end, sideways=True), mark)


def arrow(subject: Subject, graph: StepGraph, source: str, target: str, tops: dict[str, int]) -> Html:
    """What flows from one part to the next, and the collectives on the way."""
    start, end = tops[source] + BOX_HEIGHT, tops[target]
    line = element("path", d=f"M {FLOW_X} {start} V {end - 7}", class_="flow")
    carries = element("text", graph[source][target]["carries"], x=FLOW_X + 10, y=start + 17, class_="soft")
    lines = [
        element("text", text, x=FLOW_X + 10, y=start + 17 + LINE * index, class_="talk late" if late else "talk")
        for index, (text, late) in enumerate(note_lines(subject, notes(graph, source, target)), start=1)
    ]
    return joined(line, head(FLOW_X, end), carries, *lines)


def head(x: float, y: float, sideways: bool = False) -> Html:
    """The head of an arrow whose point is at (x, y)."""
    points = f"{x},{y} {x - 7},{y - 4} {x - 7},{y + 4}" if sideways else f"{x},{y} {x - 4},{y - 7} {x + 4},{y - 7}"
    return element("polygon", points=points, class_="head")
