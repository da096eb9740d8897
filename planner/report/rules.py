"""The rule table of a phase: which mesh axes cut which logical axis, each in its colour."""

from planner.explain import Subject
from planner.plan.schema import Prefill
from planner.plan.show import RULE_MEANING, copy_texts
from planner.report.html import Html, element, joined, table
from planner.report.palette import swatch

HEADER = ("logical axis", "mesh axes", "ways", "what it cuts")


def rule_view(subject: Subject, name: str) -> Html:
    """Logical axis -> mesh axes, and the strategies that follow."""
    phase, there = subject.phase(name), subject.at(name)
    rows = [
        (element("code", logical), axes_html(there, axes), str(there.machine.ways(axes)), RULE_MEANING[logical])
        for logical, axes in phase.rules
    ]
    strategies = [element("li", f"{block}: {text}") for block, text in dict(phase.strategy).items()]
    if isinstance(phase, Prefill):
        strategies += [element("li", f"reads {text}") for text in copy_texts(phase)]
    return joined(table(HEADER, rows, (2,), f"rules of {name}"), element("ul", *strategies))


def axes_html(subject: Subject, axes: tuple[str, ...]) -> Html:
    """Mesh axes, major first, in the colours of the drawing."""
    order = [axis.name for axis in subject.plan.mesh.axes]
    if not axes:
        return element("span", "replicated", class_="soft")
    return joined(*(swatch(order.index(axis), axis) for axis in axes))
