"""Where everything is: the slice, what its mesh axes cut, and what each chip holds in each phase."""

from planner.explain import Subject
from planner.explain.rules import stored_size
from planner.plan.placement import cut_by, parts_held
from planner.report.html import Html, element, folded, joined, table
from planner.report.palette import swatch
from planner.report.torus import MOST_CHIPS, Chip, axis_text, torus_svg

FEW_CHIPS = 16
"""As many rows of the table of chips are shown without being asked for."""
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
Column = tuple[str, str, dict[Chip, str]]
"""A phase, what is held of it, and by which chip how much."""


def mesh_view(subject: Subject, phases: tuple[str, ...] = tuple(HOLDS)) -> Html:
    """The slice drawn, its axes, and its chips as a table; what they hold in some phases."""
    columns = columns_of(subject, phases)
    chips = sorted(subject.plan.mesh.chips)
    told = {chip: "\n".join(f"{phase}: {name} {held[chip]}" for phase, name, held in columns) for chip in chips}
    drawn = torus_svg(subject.plan.mesh, told, subject.machine.chip.switched)
    beside = joined(axis_table(subject, phases), drawing_note(subject))
    return joined(element("div", drawn, element("div", beside), class_="beside"), held_view(chips, columns))


def drawing_note(subject: Subject) -> Html:
    """How to read the drawing."""
    mesh, sides = subject.plan.mesh, len(subject.plan.mesh.chips[0])
    notes = []
    if subject.machine.chip.switched:
        notes.append("Every chip reaches every other through a switch; lines join neighbours in the mesh.")
    elif len(mesh.chips) > 1:
        ways = ("x runs to the right", "x runs down, y to the right", "x runs down, y to the right, z backwards")
        notes.append(f"A link has the colour of its mesh axis; {ways[sides - 1]}.")
        if any(axis.wraps for axis in mesh.axes):
            notes.append("Dashed ends meet around the ring.")
    return element("p", " ".join([*notes, "Sizes include padding."]), class_="soft")


def axis_table(subject: Subject, phases: tuple[str, ...]) -> Html:
    """Each mesh axis with its colour, its links, and the logical axes that it cuts."""
    if len(subject.plan.mesh.chips) == 1:
        return element("p", "One chip: there is nothing to cut, and no link.")
    header = ("mesh axis", "chips and links", *(f"{phase} cuts" for phase in phases))
    rows = []
    for index, axis in enumerate(subject.plan.mesh.axes):
        cuts = [cut_on(subject, phase, axis.name) for phase in phases]
        rows.append((swatch(index, axis.name), axis_text(axis, subject.machine.chip.switched), *cuts))
    return table(header, rows, label="mesh axes")


def cut_on(subject: Subject, phase: str, name: str) -> str:
    """The logical axes of a phase that a mesh axis cuts, and its pipeline stages."""
    stages = subject.plan.prefill.stages
    staged = [LAYERS] if stages is not None and phase == "prefill" and stages.axis == name else []
    return ", ".join([*(logical for logical, axes in subject.phase(phase).rules if name in axes), *staged]) or "nothing"


def columns_of(subject: Subject, phases: tuple[str, ...]) -> list[Column]:
    """What chips hold, column by column; what a model lacks has none."""
    found: list[Column] = []
    mesh, stages = subject.plan.mesh, subject.plan.prefill.stages
    for phase in phases:
        for name, title in HOLDS[phase]:
            if size := stored_size(subject, phase, name):
                places = parts_held(mesh, cut_by(subject.phase(phase).rules, name))
                found.append((phase, title, {chip: share_text(size, *place) for chip, place in places.items()}))
        if stages is not None and phase == "prefill":
            layers, places = subject.machine.sizes.layers, parts_held(mesh, (stages.axis,))
            found.append((phase, LAYERS, {chip: share_text(layers, *place) for chip, place in places.items()}))
    return found


def held_view(chips: list[Chip], columns: list[Column]) -> Html:
    """What all chips hold in a sentence, what differs in a table."""
    alike = [each for each in columns if len(set(each[2].values())) == 1]
    differing = [each for each in columns if each not in alike]
    same = "; ".join(f"{phase} {name} {held[chips[0]]}" for phase, name, held in alike)
    sentence = [element("p", f"Every chip holds: {same}.")] if same else []
    if not differing:
        return joined(*sentence)
    shown = chips[:MOST_CHIPS]
    header = ("chip", *(f"{phase}: {name}" for phase, name, _ in differing))
    rows = [(f"({', '.join(map(str, chip))})", *(held[chip] for _, _, held in differing)) for chip in shown]
    left_out = len(chips) - len(shown)
    note = [element("p", f"{left_out} more chips are not listed.", class_="soft")] if left_out else []
    opened = table(header, rows, label="what each chip holds")
    return joined(
        *sentence, folded(f"What each of {len(chips)} chips holds", opened, *note, unfolded=len(chips) <= FEW_CHIPS)
    )


def share_text(size: int, part: int, ways: int) -> str:
    """Which of `size` elements the part holds: `0–1`, one of them: `3`, all: `all 9`."""
    if ways == 1:
        return f"all {size}"
    length = size // ways
    first = part * length
    return f"{first}" if length == 1 else f"{first}–{first + length - 1}"
