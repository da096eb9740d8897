"""What is around a plan as sections of its page: latencies against the batch, and the frontier."""

from planner.plan.units import bytes_text, digits, seconds_text
from planner.report.html import Html, element, folded, joined, scroller, table
from planner.sweep.around import Around
from planner.sweep.batches import batch_of, batches_svg
from planner.sweep.chart import chart_svg
from planner.sweep.frontier import MEASURES
from planner.sweep.page import points_table
from planner.sweep.reasons import group_text, groups, need_text
from planner.sweep.schema import Infeasible, Point
from planner.sweep.words import counts_text

BATCH_HEADER = ("batch", "TTFT", "TPOT", "tokens/s", "HBM per chip", "chip-s per 1M tokens", "")


def batches_view(found: Around) -> Html:
    """TTFT and TPOT against the batch, with the same as a table."""
    told = (
        f"The best plan on slice {found.own.values['slice']} for each batch by the spec's objective, each with a "
        f"layout of its own. The workload has up to {found.concurrency} sequences in flight"
        f"{'; the spec pins the batch, the others are shown for comparison' if found.pinned else ''}. "
        "Shaded batches have no plan."
        f"{' Dotted: what 95 % of requests stay within.' if found.own.fleet and found.own.fleet.tails else ''}"
    )
    rows = [(batch_of(point), batch_row(point)) for point in rows_of(found)]
    rows += [(int(each.values["generate.batch"]), unfit_row(each)) for each in found.infeasible]
    ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
    return joined(
        element("p", told),
        *stale_note(found),
        scroller("latency against batch", batches_svg(found)),
        table(BATCH_HEADER, ordered, (0, 1, 2, 3, 4, 5), "plans by batch"),
    )


def rows_of(found: Around) -> list[Point]:
    """The best plan of each batch, and this plan where it is another."""
    return [*found.neighbours, *([] if any(point.chosen for point in found.neighbours) else [found.own])]


def batch_row(point: Point) -> tuple[str, ...]:
    """The numbers of a point."""
    service = point.service
    return (
        str(batch_of(point)),
        seconds_text(service.ttft_s),
        seconds_text(service.tpot_s),
        digits(service.tokens_per_s),
        bytes_text(point.hbm.total),
        digits(service.chip_seconds_per_million_tokens),
        "this plan" if point.chosen else "",
    )


def unfit_row(each: Infeasible) -> tuple[str, ...]:
    """A batch without a plan, and why."""
    reason = "; ".join(need_text([conflict]) for conflict in each.conflicts) or each.reason
    return (
        str(each.values["generate.batch"]),
        "–",
        "–",
        "–",
        "–",
        "–",
        element("div", f"no plan: {reason}", class_="said"),
    )


def stale_note(found: Around) -> list[Html]:
    """That the plan's numbers are not today's, where they are not."""
    if not found.stale:
        return []
    text = "Today's catalogue prices this plan's layout another way than when it was made; plan it again to compare."
    return [element("p", text, class_="warning")]


def frontier_view(found: Around) -> Html:
    """The frontier with this plan on the same chart, and its points."""
    sweep = found.sweep
    latency, against = MEASURES[sweep.latency], MEASURES[sweep.against]
    told = (
        f"{latency.title} against {against.title}, over slices {', '.join(map(str, sweep.over['slice']))} and batches "
        f"up to the workload's {found.concurrency}. {counts_text(sweep)}. The ring, and the row with a "
        "star, is this plan."
    )
    others = folded(f"{len(sweep.dominated)} dominated points", points_table(sweep, sweep.dominated))
    return joined(
        element("p", told),
        scroller("frontier", chart_svg(sweep)) if sweep.points else Html(),
        element("h3", "On the frontier"),
        points_table(sweep, sweep.frontier),
        others if sweep.dominated else Html(),
        *(element("p", group_text(group), class_="soft") for group in groups(sweep)),
    )
