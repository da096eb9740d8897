"""The page stands alone, is well formed whatever a plan holds, and shows what the plan says."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from planner.commands import ReportRequest, report_command
from planner.errors import CannotRun
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.report import report_html
from planner.report.html import element, joined, table
from planner.report.mesh import share_text
from tests.plans_of import example_plan

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Checks that tags nest, and keeps texts and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: set[str] = set()
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(params=["smollm2_135m_cpu8", "llama_3_1_70b_v5e_4x4"])
def plan(request: pytest.FixtureRequest) -> Plan:
    return example_plan(request.param)


def test_the_page_stands_alone_and_is_well_formed(plan: Plan) -> None:
    page = report_html(plan)
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe"} & reader.tags
    assert "src" not in {name for name, _ in reader.attributes}
    links = [value for name, value in reader.attributes if name == "href"]
    assert set(links) <= {f"#{value}" for name, value in reader.attributes if name == "id"}
    assert len(links) >= 9
    assert "http" not in page
    assert "url(" not in page


def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    assert report_html(plan) == report_html(Plan.model_validate(plan.model_dump(mode="json")))


def test_every_part_collective_chip_and_limit_of_memory_is_shown(plan: Plan) -> None:
    text = "\n".join(Reader(report_html(plan)).texts)
    for phase in (plan.prefill, plan.generate):
        assert all(part.address.partition(".")[2] in text for part in phase.parts)
        assert all(each.address in text for each in phase.collectives)
    assert all(f"({', '.join(map(str, chip))})" in text for chip in plan.mesh.chips)
    for word in ("weights", "reserve", "free", "runner-up", plan.proof.status, "concurrency"):
        assert word in text


def test_what_a_plan_holds_cannot_become_markup() -> None:
    plan = example_plan("smollm2_135m_cpu8")
    evil = "<script>alert('x')</script>\"&"
    page = report_html(plan.model_copy(update={"name": evil, "accuracy": evil}))
    reader = Reader(page)
    assert "script" not in reader.tags
    assert any(evil in text for text in reader.texts)


def test_elements_escape_text_and_attributes_but_not_elements() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, " & ", title='"<') == '<p title="&quot;&lt;"><b>1 &lt; 2</b> &amp; </p>'
    assert joined("<", element("br")) == "&lt;<br>"
    assert "<td>&lt;</td>" in table(("a",), [("<",)])


@pytest.mark.parametrize(
    ("size", "part", "ways", "text"),
    [(9, 0, 1, "all 9"), (16, 1, 16, "1"), (16, 1, 8, "2–3"), (1536, 7, 8, "1344–1535")],
)
def test_a_chip_names_the_elements_it_holds(size: int, part: int, ways: int, text: str) -> None:
    assert share_text(size, part, ways) == text


def test_a_switched_domain_is_told_as_one() -> None:
    page = report_html(example_plan("smollm2_135m_cpu8", "hardware.chip=h100", "hardware.slice=8"))
    assert "through a switch" in page
    assert "runs to the right" not in page


def test_a_cube_is_drawn_in_depth_with_every_chip() -> None:
    plan = example_plan("smollm2_135m_cpu8", "hardware.chip=v5p", "hardware.slice=2x2x2")
    page = report_html(plan)
    assert page.count('r="5" class="chip"') == 8
    assert "z backwards" in page


def test_one_chip_has_nothing_between_chips() -> None:
    plan = example_plan("smollm2_135m_cpu8", "hardware.chip=v5e", "hardware.slice=1x1")
    page = report_html(plan)
    assert "One chip: there is nothing to cut" in page
    assert 'class="link' not in page
    assert "prefill: no collectives." in page


# What the command writes


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(example_plan("smollm2_135m_cpu8")), encoding="utf-8")
    return path


def test_the_command_writes_the_page(plan_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "plan.html"
    assert report_command(plan_file, ReportRequest(target, around=False)) == 0
    assert target.read_text(encoding="utf-8") == report_html(example_plan("smollm2_135m_cpu8"))


def test_a_base_adds_what_changed(plan_file: Path, tmp_path: Path) -> None:
    base, target = tmp_path / "base.yaml", tmp_path / "plan.html"
    base.write_text(plan_to_yaml(example_plan("smollm2_135m_cpu8", "workload.concurrency=4")), encoding="utf-8")
    assert report_command(plan_file, ReportRequest(target, str(base), around=False)) == 0
    page = target.read_text(encoding="utf-8")
    assert "What changed against" in page
    assert "workload.concurrency" in page
    assert report_command(plan_file, ReportRequest(target, str(plan_file), around=False)) == 0
    assert "No changes" in target.read_text(encoding="utf-8")


def test_the_plan_itself_is_not_written_over(plan_file: Path) -> None:
    before = plan_file.read_text(encoding="utf-8")
    with pytest.raises(CannotRun, match=r"plan\.html"):
        report_command(plan_file, ReportRequest(plan_file))
    assert plan_file.read_text(encoding="utf-8") == before


def test_with_what_is_around_it_the_page_is_the_same_bytes_again(plan_file: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("first.html", "second.html"):
        assert report_command(plan_file, ReportRequest(tmp_path / name, jobs=1)) == 0
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
    assert len(pages[0]) < 1_500_000
    assert {b'id="batches"', b'id="frontier"'} <= {
        mark for mark in (b'id="batches"', b'id="frontier"') if mark in pages[0]
    }
