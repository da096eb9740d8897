"""The page stands alone, is well formed whatever a plan holds, and shows what the plan says."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from planner.commands import report_command
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
    assert not {"src", "href"} & {name for name, _ in reader.attributes}
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


def test_a_switched_domain_has_no_rows_and_columns() -> None:
    plan = example_plan("smollm2_135m_cpu8", "hardware.chip=h100", "hardware.slice=8")
    assert "Rows run along x" not in report_html(plan)
    assert "repeat(4, " in report_html(plan)


def test_a_cube_is_drawn_plane_by_plane() -> None:
    plan = example_plan("smollm2_135m_cpu8", "hardware.chip=v5p", "hardware.slice=2x2x2")
    titles = [text for text in Reader(report_html(plan)).texts if text.startswith("z = ")]
    assert titles == ["z = 0", "z = 1"]


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    source, target = tmp_path / "plan.yaml", tmp_path / "plan.html"
    source.write_text(plan_to_yaml(example_plan("smollm2_135m_cpu8")), encoding="utf-8")
    assert report_command(source, target) == 0
    assert target.read_text(encoding="utf-8") == report_html(example_plan("smollm2_135m_cpu8"))
