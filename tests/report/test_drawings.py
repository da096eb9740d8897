"""Drawings say what the plan says: links by mesh axis, marks under the roof, latencies by batch."""

import re

import pytest

from planner.explain import Subject
from planner.explain.collectives import is_latency_bound, latency_share
from planner.plan.records import Mesh, MeshAxis
from planner.plan.schema import Plan
from planner.plan.units import bytes_text, percent_text, seconds_text
from planner.report import report_html
from planner.report.roofline import Roof, apart, ops_of, roofline_svg
from planner.report.scale import Scale
from planner.report.torus import MOST_CHIPS, Drawing, torus_svg
from planner.sweep.around import around
from planner.sweep.sections import batches_view, frontier_view
from tests.plans_of import example_plan
from tests.report.test_page import Reader

DENSE = "llama_3_1_70b_v5e_4x4"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return example_plan(DENSE)


def mesh_of(*axes: MeshAxis, chips: tuple[tuple[int, ...], ...]) -> Mesh:
    return Mesh(axes=axes, chips=chips)


# The slice


def test_a_link_belongs_to_the_coarsest_piece_whose_block_ends_there() -> None:
    pieces = (MeshAxis(name="y0", size=2, torus_axis="y", stride=2), MeshAxis(name="y1", size=2, torus_axis="y"))
    whole = MeshAxis(name="x", size=4, torus_axis="x", wraps=True)
    drawing = Drawing.of(mesh_of(whole, *pieces, chips=tuple((x, y) for x in range(4) for y in range(4))), False)
    assert [drawing.axis_of(1, at) for at in range(3)] == [2, 1, 2]
    assert [drawing.axis_of(0, at) for at in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(("wraps", "ends"), [(True, 8), (False, 0)])
def test_rings_go_on_beyond_the_edge_at_both_ends_and_lines_do_not(wraps: bool, ends: int) -> None:
    axes = (MeshAxis(name="x", size=4, torus_axis="x"), MeshAxis(name="y", size=4, torus_axis="y", wraps=wraps))
    page = torus_svg(mesh_of(*axes, chips=tuple((x, y) for x in range(4) for y in range(4))), {})
    assert page.count(" ring") == ends
    assert page.count('class="link s0"') == page.count('class="link s1"') == 12


def test_chips_stand_apart_and_inside_the_drawing() -> None:
    chips = tuple((x, y, z) for x in range(4) for y in range(4) for z in range(8))
    axes = tuple(MeshAxis(name=n, size=s, torus_axis=n) for n, s in (("x", 4), ("y", 4), ("z", 8)))
    drawing = Drawing.of(mesh_of(*axes, chips=chips), False)
    places = [drawing.place(chip) for chip in chips]
    assert len(set(places)) == len(chips)
    assert all(0 < x < drawing.size[0] and 0 < y < drawing.size[1] for x, y in places)


def test_too_many_chips_are_counted_instead() -> None:
    chips = tuple((x,) for x in range(MOST_CHIPS + 1))
    page = torus_svg(mesh_of(MeshAxis(name="x", size=len(chips), torus_axis="x"), chips=chips), {})
    assert "<svg" not in page
    assert str(len(chips)) in page


# Collectives


def test_latency_is_all_of_a_tiny_collective_and_little_of_a_large_one(plan: Plan) -> None:
    subject = Subject.of(plan)
    shares = {each.bytes: latency_share(subject, each) for each in subject.collectives()}
    assert all(0 < share <= 1 for share in shares.values())
    tiny = max(subject.collectives(), key=lambda each: -each.bytes)
    assert is_latency_bound(subject, tiny)
    assert shares[max(shares)] < 0.05


def test_every_collective_is_told_with_bytes_time_and_latency(plan: Plan) -> None:
    subject, texts = Subject.of(plan), Reader(report_html(plan)).texts
    for each in subject.collectives():
        at = [index for index, text in enumerate(texts) if text == each.address]
        row = [texts[index : index + 8] for index in at]
        share = percent_text(round(latency_share(subject, each), 3))
        told = f"◆ {share}" if is_latency_bound(subject, each) else share
        expected = {bytes_text(each.bytes), str(each.count), seconds_text(each.seconds), told}
        assert any(expected <= set(cells) for cells in row), each.address


# The roofline


def test_no_part_is_above_the_roof_and_each_is_told(plan: Plan) -> None:
    subject = Subject.of(plan)
    ops, roof = ops_of(subject), Roof.of(subject)
    assert [op.part for op in ops] == [*plan.prefill.parts, *plan.generate.parts]
    drawn = [op for op in ops if op.drawn]
    assert len(drawn) >= 8
    assert all(op.reached <= roof.at(op.intensity) * 1.001 for op in drawn)
    svg = roofline_svg(drawn, roof)
    assert all(f">{op.number}</text>" in svg for op in drawn)
    assert svg.count("<title>") == len(drawn)


def test_marks_do_not_cover_each_other(plan: Plan) -> None:
    subject = Subject.of(plan)
    drawn = [op for op in ops_of(subject) if op.drawn] * 2
    across = Scale.over([op.intensity for op in drawn], 86, 742)
    up = Scale.over([op.reached for op in drawn], 372, 20)
    spots = [place[2:] for place in apart(drawn, across, up)]
    assert len(set(spots)) == len(drawn)


# What is around the plan


def test_the_plan_is_on_its_chart_and_on_the_frontier(plan: Plan) -> None:
    found = around(plan, jobs=1)
    assert [point.values["generate.batch"] for point in found.neighbours if point.chosen] == [plan.generate.batch]
    assert [point for point in found.sweep.frontier if point.chosen]
    assert not found.stale
    page = Reader(batches_view(found))
    assert f"this plan: {seconds_text(plan.service.ttft_s)}" in page.texts
    assert f"this plan: {seconds_text(plan.service.tpot_s)}" in page.texts
    assert max(int(point.values["generate.batch"]) for point in found.sweep.points) <= found.concurrency


def test_limits_and_batches_without_a_plan_are_drawn() -> None:
    plan = example_plan(DENSE, "limits.tpot=25 ms", "limits.ttft=1 s")
    found = around(plan, jobs=1)
    page = batches_view(found)
    assert found.infeasible
    assert page.count('class="none"') == len(found.infeasible)
    assert {"limit on TTFT 1 s", "limit on TPOT 25 ms"} <= set(Reader(page).texts)
    assert re.search(r"no plan: .*limits\.tpot", page)
    assert "limit 25 ms" in frontier_view(found)


def test_prices_that_changed_since_are_told(plan: Plan) -> None:
    old = plan.model_copy(update={"service": plan.service.model_copy(update={"tpot_s": 1.0})})
    found = around(old, jobs=1)
    assert found.stale
    assert "plan it again" in batches_view(found)
