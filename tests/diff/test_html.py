"""The page holds all that it shows, loads nothing, and no name or value can break out of it."""

import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff import compare
from planner.report import diff_html
from tests.diff.test_cases import CASES
from tests.plans_of import example_plan

PAIRED = {"html", "head", "title", "style", "body", "h1", "h2", "p", "ul", "ol", "li", "div", "table", "thead", "tbody",
          "tr", "th", "td", "details", "summary", "pre"}  # fmt: skip


class Tags(HTMLParser):
    """The tags of a page, and those that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag in PAIRED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(page: str) -> set[str]:
    """The tags of a page; each that opens is closed in its turn."""
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


@settings(deadline=None)
@given(st.text(alphabet="<>&\"'/script ab\n", max_size=40))
def test_values_are_text(text: str) -> None:
    plan = example_plan("smollm2_135m_cpu8")
    head = plan.model_copy(update={"name": text, "spec": {**plan.spec, "name": text}})
    assert tags(diff_html(compare(plan, head))) <= {*PAIRED, "meta"}


def test_no_page_asks_for_anything_else() -> None:
    for path in sorted(CASES.glob("*/diff.html")):
        page = path.read_text(encoding="utf-8")
        assert tags(page) <= {*PAIRED, "meta"}
        assert not re.search(r"https?:|\bsrc=|\bhref=|url\(|@import", page), path
