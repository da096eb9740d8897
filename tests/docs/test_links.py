"""Documents name only what exists: pages, headings, files; and the index names every page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
OWN_FILE = re.compile(r"`((?:planner|cost_models|templates|tests|benchmarks|docs|generated)/[\w./-]+)`")
TARGET = re.compile(r"`make ([a-z]+)")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The file and the heading that each relative link means; no heading is an empty text."""
    for target in LINK.findall(prose(page)):
        if "://" not in target:
            path, _, heading = target.partition("#")
            yield (page.parent / path if path else page), heading


def headings(page: Path) -> set[str]:
    """How Markdown names the headings of a page."""
    found = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for path, heading in links(page):
        assert path.exists(), f"{named(page)} links to {path}"
        assert not heading or heading in headings(path), f"{named(page)} links to #{heading} of {path}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_and_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(prose(page))) <= targets
    for name in OWN_FILE.findall(prose(page)):
        assert (ROOT / name).exists(), f"{named(page)} names {name}"


def test_the_index_names_every_page_and_the_readme_the_index() -> None:
    index = DOCS / "README.md"
    listed = {path.resolve() for path, _ in links(index)}
    assert {page for page in PAGES if page.is_relative_to(DOCS) and page != index} <= listed
    assert index in {path for path, _ in links(ROOT / "README.md")}
