"""The page of a plan as people see it: on which screen, in which colours, by keyboard, on paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from planner.commands import ReportRequest, report_command
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.plan.units import seconds_text
from tests.browser.look import BROKEN, CROWDED, CUT, PALE, WIDE, WIDTHS
from tests.browser.visit import Visits
from tests.plans_of import example_plan

DENSE, SMALL = "llama_3_1_70b_v5e_4x4", "smollm2_135m_cpu8"
FLEET = (
    "hardware.slice=2x4",
    "workload.requests_per_s=5",
    "limits={ttft: {mean: 2 s, p95: 5 s}, tpot: 60 ms}",
    "serving.mode=disaggregated",
    "model.kv_cache.dtype=int8",
)
MOE = ("serving.strategies=all", "model.config=qwen3-30b-a3b", "model.weights.dtype=bf16", "limits.tpot=60 ms")
CUBE = ("hardware={chip: v5p, slice: 4x4x4}", "model.weights.dtype=bf16", "limits.ttft=500 ms")
KINDS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "dense": (DENSE, ("limits={ttft: 400 ms, tpot: 30 ms}",), True),
    "moe": (DENSE, MOE, False),
    "fleet": (DENSE, FLEET, False),
    "cube": (DENSE, CUBE, False),
    "one": (SMALL, ("hardware.chip=v5e", "hardware.slice=1x1"), True),
    "switch": (SMALL, ("hardware.chip=h100", "hardware.slice=8"), False),
}
"""Spec, overrides, and whether what is around the plan is solved, by the kind of plan."""
Pages = Callable[[str], tuple[Plan, Path]]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Makes the page of a kind of plan, once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page(kind: str) -> tuple[Plan, Path]:
        if kind not in made:
            name, overrides, around = KINDS[kind]
            plan, source, target = example_plan(name, *overrides), folder / f"{kind}.yaml", folder / f"{kind}.html"
            source.write_text(plan_to_yaml(plan), encoding="utf-8")
            base = folder / "base.yaml"
            base.write_text(plan_to_yaml(example_plan(DENSE)), encoding="utf-8")
            wanted = ReportRequest(target, str(base) if kind == "dense" else None, around, jobs=1)
            assert report_command(source, wanted) == 0
            made[kind] = plan, target
        return made[kind]

    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_every_window_in_both_colour_schemes(
    pages: Pages, visits: Visits, screenshots: Path, kind: str, scheme: Any
):
    plan, path = pages(kind)
    visit = visits.file(path, color_scheme=scheme)
    expect(visit.page).to_have_title(f"{plan.name}: plan")
    for name, width in WIDTHS.items():
        visit.page.set_viewport_size({"width": width, "height": 900})
        visit.page.screenshot(path=screenshots / f"report-{kind}-{name}-{scheme}.png", full_page=True)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(WIDE) == []
        assert visit.page.evaluate(PALE) == []
        for faults in (CUT, CROWDED, BROKEN):
            assert visit.page.evaluate(faults) == []
    paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]


def test_pale_texts_and_wide_elements_would_be_found(pages: Pages, visits: Visits):
    _, path = pages("one")
    visit = visits.file(path, width=390)
    visit.page.add_style_tag(content="h1 { color: #bbb; } .plot text { fill: #bbb; } .tiles { width: 600px; }")
    pale, wide = visit.page.evaluate(PALE), visit.page.evaluate(WIDE)
    assert any(each.startswith("<h1") for each in pale)
    assert any(each.startswith("<text") for each in pale)
    assert any('class="tiles"' in each for each in wide)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_for_but_the_page_and_nothing_runs(pages: Pages, visits: Visits, kind: str):
    _, path = pages(kind)
    visit = visits.file(path, java_script_enabled=True)
    assert visit.asked == [path.as_uri()]
    assert visit.page.locator("script, link, img, iframe, object").count() == 0
    assert path.stat().st_size < 1_500_000


def test_it_says_the_same_without_scripts(pages: Pages, visits: Visits):
    plan, path = pages("dense")
    visit = visits.file(path, java_script_enabled=False)
    for section in ("where", "rules", "flow", "collectives", "time", "roofline", "hbm", "batches", "frontier", "proof"):
        expect(visit.page.locator(f"section#{section} h2")).to_be_visible()
    for section, drawings in (("where", 1), ("flow", 2), ("roofline", 1), ("batches", 1), ("frontier", 1)):
        expect(visit.page.locator(f"#{section} svg")).to_have_count(drawings)
    expect(visit.page.locator("#changes")).to_contain_text("limits")
    expect(visit.page.locator(".tile").first).to_contain_text(seconds_text(plan.service.ttft_s))


@pytest.mark.parametrize("kind", KINDS)
def test_drawings_and_tables_have_names(pages: Pages, visits: Visits, kind: str):
    _, path = pages(kind)
    visit = visits.file(path)
    assert all(each.get_attribute("aria-label") for each in visit.page.locator("svg").all())
    assert visit.page.locator("h1").count() == visit.page.get_by_role("main").count() == 1
    assert visit.page.locator("main > section").count() == visit.page.locator("section[aria-labelledby]").count()


def test_links_and_what_opens_are_reached_by_keyboard(pages: Pages, visits: Visits):
    _, path = pages("dense")
    visit = visits.file(path)
    links = visit.page.locator("nav a")
    for nth in range(links.count()):
        visit.page.keyboard.press("Tab")
        expect(links.nth(nth)).to_be_focused()
        assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    visit.page.keyboard.press("Enter")
    assert visit.page.url.endswith("#spec")
    summary = visit.page.locator("#spec summary")
    summary.focus()
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#spec pre")).to_be_visible()


def test_what_is_wider_than_a_phone_scrolls_by_arrow_keys(pages: Pages, visits: Visits):
    _, path = pages("dense")
    visit = visits.file(path, width=390)
    region = visit.page.get_by_role("region", name="roofline", exact=True).last
    region.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_function("(each) => each.scrollLeft > 0", arg=region.element_handle())


@pytest.mark.parametrize("kind", ["dense", "moe", "fleet", "cube"])
def test_it_prints_whole_and_on_white(pages: Pages, visits: Visits, screenshots: Path, kind: str):
    _, path = pages(kind)
    visit = visits.file(path, width=718, color_scheme="dark")
    visit.page.emulate_media(media="print")
    expect(visit.page.locator("nav")).to_be_hidden()
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 718
    cut = "() => [...document.querySelectorAll('.wide, pre')].filter((each) => each.scrollWidth > each.clientWidth + 1)"
    assert visit.page.evaluate(f"({cut})().map((each) => each.outerHTML.slice(0, 300))") == []
    for faults in (CUT, CROWDED, BROKEN):
        assert visit.page.evaluate(faults) == []
    expect(visit.page.locator("#spec pre")).to_be_visible()
    visit.page.screenshot(path=screenshots / f"report-{kind}-print.png", full_page=True)
    (screenshots / f"report-{kind}.pdf").write_bytes(visit.page.pdf(format="A4"))
