"""Both phases side by side."""

from collections.abc import Callable

from planner.explain import Subject
from planner.explain.phases import load_text
from planner.plan.units import RESOURCES, seconds_text
from planner.report.html import Html, element

PHASES = ("prefill", "generate")
Drawer = Callable[[Subject, str], Html]


def pair(subject: Subject, draw: Drawer) -> Html:
    """What `draw` makes of each phase, below its title."""
    columns = []
    for name in PHASES:
        phase = subject.phase(name)
        title = f"{name}: {seconds_text(phase.step_s)}, bound by {RESOURCES[phase.binds]}"
        loaded = element("p", load_text(phase), class_="soft")
        columns.append(element("div", element("h3", title), loaded, draw(subject, name)))
    return element("div", *columns, class_="pair")
