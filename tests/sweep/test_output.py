"""What a sweep looks like: text, CSV, JSON, the page and the picture all hold the same points."""

import csv
import json
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from planner.commands import sweep_command
from planner.errors import CannotRun
from planner.sweep import picture_writer, print_sweep, read_grid, run_sweep, sweep_to_csv, sweep_to_json
from planner.sweep.page import sweep_html, sweep_svg
from planner.sweep.schema import Sweep
from tests.plans_of import SPECS
from tests.report.test_page import Reader

L70B = SPECS / "llama_3_1_70b_v5e_4x4.yaml"
SMOLLM2 = SPECS / "smollm2_135m_cpu8.yaml"
GRID = read_grid(L70B, ["limits.ttft=250 ms"], ["slice=1x1,4x4,4x8", "generate.batch=1,8,32"])
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return run_sweep(GRID, "ttft", "throughput")


def printed(sweep: Sweep, everything: bool = False) -> str:
    out = StringIO()
    print_sweep(sweep, Console(file=out, width=160), everything)
    return out.getvalue()


def rows(text: str) -> int:
    return sum(line.startswith(("1x1 ", "4x4 ", "4x8 ")) for line in text.splitlines())


def test_text_has_the_frontier_first_and_the_rest_when_asked(sweep: Sweep):
    text, everything = printed(sweep), printed(sweep, everything=True)
    assert rows(text) == len(sweep.frontier)
    assert rows(everything) == len(sweep.points)
    assert everything.index("dominated:") > everything.index("TTFT")
    assert "3 infeasible" in text
    assert "infeasible: 3 settings (slice 1x1): HBM per chip: at least" in text
    assert everything.count("  slice 1x1, batch ") == 3
    assert "`plan` takes slice 4x4, batch 32" in text


def test_the_frontier_is_printed_fastest_first(sweep: Sweep):
    lines = [line.replace(" *", "  ") for line in printed(sweep).splitlines() if line.startswith(("4x4 ", "4x8 "))]
    shown = [(line.split()[0], int(line.split()[1])) for line in lines]
    fastest = sorted(sweep.frontier, key=lambda point: (point.service.ttft_s, -point.service.tokens_per_s))
    assert shown == [(point.values["slice"], point.values["generate.batch"]) for point in fastest]
    assert len(set(shown)) > 1


def test_csv_and_json_hold_every_point_and_reason(sweep: Sweep):
    lines = list(csv.DictReader(StringIO(sweep_to_csv(sweep))))
    data = json.loads(sweep_to_json(sweep))
    assert len(lines) == len(sweep.points) + len(sweep.infeasible)
    assert [line["infeasible"] for line in lines if line["infeasible"]] == [each.reason for each in sweep.infeasible]
    assert Sweep.model_validate(data) == sweep.model_copy(
        update={
            "points": tuple(p.model_copy(update={"accuracy": ""}) for p in sweep.points),
            "chosen": sweep.chosen and sweep.chosen.model_copy(update={"accuracy": ""}),
        }
    )
    assert [conflict["limit"] for conflict in data["infeasible"][0]["conflicts"]] == ["hbm"]


def test_the_page_stands_alone_and_shows_every_point(sweep: Sweep):
    page = sweep_html(sweep, GRID.spec)
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe"} & reader.tags
    assert not {"src", "href"} & {name for name, _ in reader.attributes}
    assert "http" not in page
    assert "url(" not in page
    assert sum("\ngenerate " in text for text in reader.texts) == len(sweep.points)
    assert "limit 250 ms" in reader.texts
    assert page == sweep_html(Sweep.model_validate_json(sweep_to_json(sweep)), GRID.spec)


def test_the_picture_is_a_file_of_its_own_with_everything_inside_its_frame(sweep: Sweep):
    root = ElementTree.fromstring(sweep_svg(sweep, GRID.spec))
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    marks = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    assert len(marks) == len(sweep.points)
    for mark in marks:
        x, y = (float(value) for value in mark.attrib["transform"][len("translate(") : -1].split())
        assert 0 < x < width
        assert 0 < y < height
    assert sum(mark.find(f"{SVG}circle") is not None for mark in marks) == 1
    assert "script" not in {element.tag.removeprefix(SVG) for element in root.iter()}


def test_what_plan_takes_is_drawn_outside_the_grid_too():
    grid = read_grid(SMOLLM2, (), ["generate.batch=1"])
    found = run_sweep(grid)
    assert found.chosen is not None
    batch = found.chosen.values["generate.batch"]
    assert batch != 1
    titles = [text for text in Reader(sweep_html(found, grid.spec)).texts if text.endswith("\nwhat plan takes")]
    assert [title.splitlines()[0] for title in titles] == [f"slice 2x4, batch {batch}"]


def test_a_name_cannot_become_markup(sweep: Sweep):
    evil = "<script>alert('x')</script>\"&[bold]"
    changed = sweep.model_copy(update={"name": evil, "accuracy": (evil,)})
    assert "script" not in Reader(sweep_html(changed, GRID.spec)).tags
    assert evil in printed(changed)


def test_nothing_feasible_still_makes_a_page_and_no_picture():
    grid = read_grid(L70B, (), ["slice=1x1", "generate.batch=1"])
    found = run_sweep(grid)
    assert "svg" not in Reader(sweep_html(found, grid.spec)).tags
    with pytest.raises(CannotRun, match="nothing to draw"):
        sweep_svg(found, grid.spec)


@pytest.mark.parametrize("name", ["sweep.png", "sweep"])
def test_other_endings_are_refused_before_anything_is_solved(name: str):
    with pytest.raises(CannotRun, match=r"\.html or \.svg"):
        picture_writer(Path(name))


def test_the_command_writes_the_page_and_prints_what_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target, over = tmp_path / "sweep.html", ("generate.batch=1,8",)
    assert sweep_command(SMOLLM2, (), over, "tpot", None, target, 1, "json", False) == 0
    out, err = capsys.readouterr()
    assert err == f"wrote {target}\n"
    data = json.loads(out)
    assert (data["latency"], data["against"], data["settings"]) == ("tpot", "cost", 2)
    assert target.read_text(encoding="utf-8") == sweep_html(
        run_sweep(read_grid(SMOLLM2, (), over)), read_grid(SMOLLM2).spec
    )
    assert sweep_command(SMOLLM2, ("objective=throughput",), over, "tpot", None, None, 1, "text", False) == 0
    assert "TPOT against throughput" in capsys.readouterr().out
