"""The slice as a grid of chips: coordinates, and what each chip holds in each phase."""

from planner.explain import Subject
from planner.explain.rules import stored_size
from planner.plan.placement import Held, cut_by, parts_held
from planner.report.html import Html, element, joined

MOST_CHIPS = 64
IN_A_ROW = 4
LAYERS = "layers"
"""What pipeline stages cut."""
HOLDS = {
    "prefill": (
        ("q_heads", "heads"),
        ("d_ff", "d_ff"),
        ("experts", "experts"),
        ("expert_ff", "expert columns"),
        ("tokens", "tokens"),
    ),
    "generate": (
        ("q_heads", "heads"),
        ("kv_heads", "KV heads"),
        ("d_ff", "d_ff"),
        ("experts", "experts"),
        ("expert_ff", "expert columns"),
        ("rows", "sequences"),
        ("batch", "cached sequences"),
        ("kv_tokens", "cached tokens"),
    ),
}


def mesh_grid(subject: Subject, phases: tuple[str, ...] = tuple(HOLDS)) -> Html:
    """One grid for each plane of the slice, rows along x and columns along y; what chips hold in some phases."""
    chips = sorted(subject.plan.mesh.chips)
    shown = chips[:MOST_CHIPS]
    told = [each for each in rules_shown(subject) if each[0] in phases]
    held = {(phase, name): parts_held(subject.plan.mesh, axes) for phase, name, axes in told}
    stages = subject.plan.prefill.stages
    if stages is not None and "prefill" in phases:
        held["prefill", LAYERS] = parts_held(subject.plan.mesh, (stages.axis,))
    planes = sorted({chip[2:] for chip in shown})
    grids = [plane(subject, [chip for chip in shown if chip[2:] == depth], held, depth) for depth in planes]
    left_out = len(chips) - len(shown)
    note = [element("p", f"{left_out} more chips are not drawn.", class_="soft")] if left_out else []
    return joined(*grids, *note)


def rules_shown(subject: Subject) -> list[tuple[str, str, tuple[str, ...]]]:
    """Phase, logical axis and mesh axes of what a chip's cell names."""
    return [
        (phase, name, cut_by(subject.phase(phase).rules, name)) for phase, names in HOLDS.items() for name, _ in names
    ]


def plane(
    subject: Subject, chips: list[tuple[int, ...]], held: dict[tuple[str, str], Held], depth: tuple[int, ...]
) -> Html:
    """The chips that share their coordinates beyond x and y."""
    columns = max(chip[1] for chip in chips) + 1 if len(chips[0]) > 1 else min(len(chips), IN_A_ROW)
    title = [element("h3", f"z = {depth[0]}")] if depth else []
    cells = [chip_cell(subject, chip, held) for chip in chips]
    grid = element(
        "div", *cells, class_="mesh", style=f"grid-template-columns: repeat({columns}, minmax(118px, 260px))"
    )
    return joined(*title, grid)


def chip_cell(subject: Subject, chip: tuple[int, ...], held: dict[tuple[str, str], Held]) -> Html:
    """One chip: where it is, and its share of each axis in each phase."""
    lines: list[str] = [element("b", f"({', '.join(map(str, chip))})", class_="mono")]
    for phase in dict.fromkeys(phase for phase, _ in held):
        lines.append(element("div", phase, class_="phase"))
        for name, title in HOLDS[phase]:
            part, ways = held[phase, name][chip]
            if size := stored_size(subject, phase, name):
                lines.append(element("div", f"{title} {share_text(size, part, ways)}"))
        if (phase, LAYERS) in held:
            layers = share_text(subject.machine.sizes.layers, *held[phase, LAYERS][chip])
            lines.append(element("div", f"{LAYERS} {layers}"))
    return element("div", *lines, class_="chip")


def share_text(size: int, part: int, ways: int) -> str:
    """Which of `size` elements the part holds: `0–1`, one of them: `3`, all: `all 9`."""
    if ways == 1:
        return f"all {size}"
    length = size // ways
    first = part * length
    return f"{first}" if length == 1 else f"{first}–{first + length - 1}"
