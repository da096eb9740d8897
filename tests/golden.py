"""Golden files: `golden(path, text)` compares; `pytest --update-golden` rewrites."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite golden files with what is printed now.")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare text with a committed file."""

    def check(path: Path, actual: str) -> None:
        if request.config.getoption("update_golden"):
            path.write_text(actual, encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if actual != expected:
            diff = difflib.unified_diff(expected.splitlines(True), actual.splitlines(True), str(path), "now")
            pytest.fail("".join(diff), pytrace=False)

    return check
