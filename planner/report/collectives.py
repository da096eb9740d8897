"""The collectives of both phases: bytes, time, who waits, why, and which wait for hops rather than for bytes."""

from planner.explain import Subject
from planner.explain.collectives import LATENCY_BOUND, is_latency_bound, latency_share, waits_for, why
from planner.plan.schema import Collective
from planner.plan.units import bytes_text, percent_text, seconds_text
from planner.report.html import Html, element, joined, table
from planner.report.phases import PHASES

HEADER = ("address", "kind", "axes", "bytes per chip", "count", "time a step", "latency", "why")


def collective_view(subject: Subject) -> Html:
    """A table for each phase."""
    told = (
        "Bytes are those of one execution, time that of all in a step. Latency is the part of the time that a single "
        f"byte would take too; from {percent_text(LATENCY_BOUND)} on a collective is latency-bound (◆): fewer bytes "
        "would not help it, fewer or nearer chips would."
    )
    return joined(element("p", told), *(phase_view(subject, name) for name in PHASES))


def phase_view(subject: Subject, name: str) -> Html:
    """The collectives of one phase."""
    found = subject.phase(name).collectives
    if not found:
        return element("p", f"{name}: no collectives.")
    late = sum(is_latency_bound(subject, each) for each in found)
    count, seconds = sum(each.count for each in found), sum(each.seconds for each in found)
    title = f"{name}: {count} a step, {seconds_text(seconds)}; {late} of {len(found)} kinds latency-bound"
    rows = [row(subject, each) for each in found]
    return joined(element("h3", title), table(HEADER, rows, (3, 4, 5, 6), f"collectives of {name}"))


def row(subject: Subject, each: Collective) -> tuple[str, ...]:
    """One collective."""
    share = percent_text(round(latency_share(subject, each), 3))
    told = element("b", f"◆ {share}", class_="late") if is_latency_bound(subject, each) else share
    return (
        element("code", each.address),
        each.kind,
        ", ".join(each.axes),
        bytes_text(each.bytes),
        str(each.count),
        seconds_text(each.seconds),
        told,
        element("div", f"{waits_for(each).partition('.')[2]} waits: {why(each)}", class_="said"),
    )
