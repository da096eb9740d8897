"""The best plans not taken, what users see, and the solver's word."""

from planner.explain import Subject
from planner.explain.fleet import explain_fleet
from planner.explain.service import explain_proof, explain_service
from planner.plan.schema import Generate, Prefill
from planner.plan.units import dearer_text, seconds_text
from planner.report.html import Html, element, joined, table
from planner.report.phases import PHASES

HEADER = ("", "this plan", "runner-up")
NONE = "no other layout of this phase is legal here and keeps the limits"


def proof_view(subject: Subject) -> Html:
    """Runners-up as tables, then the sentences behind service and proof."""
    columns = [element("div", element("h3", name), runner_up_view(subject.phase(name))) for name in PHASES]
    fleet = [explain_fleet(subject, subject.plan.fleet)] if subject.plan.fleet else []
    told = [*fleet, explain_service(subject), explain_proof(subject)]
    items = [element("li", sentence) for each in told for sentence in each.sentences]
    return joined(element("div", *columns, class_="pair"), element("h3", "Service and proof"), element("ul", *items))


def runner_up_view(phase: Prefill | Generate) -> Html:
    """The best plan in which the layout of this phase is another, beside the one that was taken."""
    other = phase.runner_up
    if other is None:
        return element("p", f"runner-up: none; {NONE}.")
    mine, theirs = dict(phase.rules), dict(other.rules)
    rows = [
        (block, text, dict(other.strategy).get(block, "–"))
        for block, text in dict(phase.strategy).items()
        if dict(other.strategy).get(block) != text
    ]
    rows += [
        (element("code", name), axes_text(mine.get(name, ())), axes_text(theirs.get(name, ())))
        for name in dict.fromkeys((*mine, *theirs))
        if mine.get(name, ()) != theirs.get(name, ())
    ]
    rows.append(("a step", seconds_text(phase.step_s), seconds_text(other.step_s)))
    rows.append(("the objective", "best", dearer_text(other.objective_ratio)))
    return joined(element("p", "runner-up: what differs", class_="soft"), table(HEADER, rows, label="runner-up"))


def axes_text(axes: tuple[str, ...]) -> str:
    """Mesh axes, or that there are none."""
    return ", ".join(axes) or "replicated"
