"""Every folder of `tests/cases/diff` is a pair of specs and what their difference prints."""

from pathlib import Path

import pytest

from planner.commands import diff_command
from planner.console import INFEASIBLE
from tests.golden import Golden

CASES = Path(__file__).resolve().parents[1] / "cases" / "diff"
FOLDERS = [pytest.param(path, id=path.name) for path in sorted(CASES.iterdir())]


@pytest.mark.parametrize(("style", "written"), [("text", "diff.txt"), ("markdown", "diff.md"), ("json", "diff.json")])
@pytest.mark.parametrize("case", FOLDERS)
def test_a_difference_prints_what_is_expected(
    case: Path, style: str, written: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    code = diff_command(case / "base.yaml", case / "head.yaml", style, True, ())
    golden(case / written, capsys.readouterr().out)
    assert code == {"no_change": 0, "infeasible_head": INFEASIBLE}.get(case.name, 1)


@pytest.mark.parametrize("case", FOLDERS)
def test_no_case_holds_a_file_that_nothing_reads(case: Path) -> None:
    assert {path.name for path in case.iterdir()} == {"base.yaml", "head.yaml", "diff.txt", "diff.md", "diff.json"}
