"""Bars: predicted time by part and resource, and the HBM budget."""

from planner.explain import Subject
from planner.explain.memory import meaning
from planner.plan.records import Hbm
from planner.plan.schema import Roofline
from planner.plan.show import hbm_items
from planner.plan.units import RESOURCES, bytes_text, percent_text, seconds_text
from planner.report.html import Html, element, joined

CLASSES = {"compute": "compute", "hbm": "hbm_", "ici": "ici", "fixed": "fixed"}


def time_bars(subject: Subject, name: str) -> Html:
    """One bar for each part of a phase, all on one scale; below it what is hidden behind something else."""
    phase = subject.phase(name)
    longest = max((part.total_s for part in phase.parts), default=0.0) or 1.0
    rows: list[str] = []
    for part in phase.parts:
        share = percent_text(part.total_s / phase.step_s) if phase.step_s else ""
        rows += [
            element("span", part.address.partition(".")[2], class_="mono"),
            element("div", *part_bars(part, longest)),
            element("span", seconds_text(part.total_s), class_="number"),
            element("span", share, class_="number"),
        ]
    return joined(element("div", *rows, class_="parts"))


def part_bars(part: Roofline, longest: float) -> list[Html]:
    """The time a part takes by resource, and the smaller of compute and HBM, which is hidden."""
    behind = "hbm" if part.compute_s > part.hbm_s else "compute"
    overlapped = part.total_s < part.compute_s + part.hbm_s + part.ici_s + part.fixed_s
    names = [name for name in CLASSES if not (overlapped and name == behind)]
    shown = element("div", *(segment(name, part, longest) for name in names), class_="bar")
    hidden = element("div", segment(behind, part, longest), class_="hidden") if overlapped else Html()
    return [shown, hidden]


def segment(name: str, part: Roofline, longest: float) -> Html:
    """One resource of a bar, its width a share of the longest part."""
    seconds = getattr(part, f"{name}_s")
    title = f"{RESOURCES[name]} {seconds_text(seconds)}"
    return element("i", class_=CLASSES[name], style=f"width: {100 * seconds / longest:.2f}%", title=title)


def time_legend() -> Html:
    """What the colours of the time bars mean."""
    entries = [element("span", element("i", class_=CLASSES[key]), title) for key, title in RESOURCES.items()]
    return element("div", *entries, element("span", "thin line below: hidden behind the bar"), class_="legend")


def hbm_bar(subject: Subject) -> Html:
    """The budget of one chip as one bar, and its items."""
    hbm = subject.plan.hbm
    segments = [
        element("i", class_=item, style=f"width: {width(hbm, item):.2f}%", title=f"{item} {size(hbm, item)}")
        for item in hbm_items(hbm)
    ]
    entries: list[str] = []
    for item in hbm_items(hbm):
        share = percent_text(getattr(hbm, item) / hbm.capacity)
        entries.append(
            element(
                "div",
                element("i", class_=item),
                element("b", f"{item.replace('_', ' ')} {size(hbm, item)}"),
                f" ({share}): {meaning(subject, item, hbm)}",
            )
        )
    bar = element("div", *segments, class_="bar hbm")
    return joined(bar, element("div", *entries, class_="legend", style="display: block"))


def width(hbm: Hbm, item: str) -> float:
    """An item's percent of the capacity."""
    return float(100 * getattr(hbm, item) / hbm.capacity)


def size(hbm: Hbm, item: str) -> str:
    """An item's bytes as text."""
    return bytes_text(getattr(hbm, item))
