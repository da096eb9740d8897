"""Every folder of `tests/diff/cases` is a review: two sides, a policy or none, and what each format prints of it."""

from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

from cost_models.chips import Chip, chip
from planner.commands import DiffRequest, diff_command
from planner.console import DONE, INFEASIBLE, NO
from planner.diff import PlanDiff, Request, review
from planner.plan.file import plan_to_yaml
from planner.plan.make import make_plan
from planner.spec import load_spec
from tests.golden import Golden

CASES = Path(__file__).resolve().parent / "cases"
FOLDERS = [pytest.param(path, id=path.name) for path in sorted(CASES.iterdir())]
PRINTED = {"text": "diff.txt", "markdown": "diff.md", "json": "diff.json", "html": "diff.html"}
CODES = {"infeasible_head": INFEASIBLE, "policy_broken": NO}
TODAY = date(2026, 12, 1)


@cache
def reviewed(case: Path, request: Request) -> PlanDiff:
    """What a request finds in a folder, solved once for all formats."""
    return review(request)


@pytest.mark.parametrize("style", PRINTED)
@pytest.mark.parametrize("case", FOLDERS)
def test_a_review_prints_what_is_expected(
    case: Path, style: str, golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case)
    monkeypatch.setattr("planner.diff.review", lambda request: reviewed(case, request))
    policy = Path("policy.yaml") if Path("policy.yaml").exists() else None
    code = diff_command("base.yaml", "head.yaml", DiffRequest(style, policy=policy, today=TODAY))
    golden(case / PRINTED[style], capsys.readouterr().out)
    assert code == CODES.get(case.name, DONE)


@pytest.mark.parametrize("case", FOLDERS)
def test_no_case_holds_a_file_that_nothing_reads(case: Path) -> None:
    expected = {"base.yaml", "head.yaml", *PRINTED.values()}
    assert {path.name for path in case.iterdir()} == expected | ({"policy.yaml"} if "policy" in case.name else set())


def slower(name: str) -> Chip:
    """A chip as an earlier catalogue could have had it: HBM a tenth slower."""
    today = chip(name)
    return replace(today, hbm_bytes_per_s=today.hbm_bytes_per_s * 0.9)


def test_the_base_of_the_catalogue_change_is_an_earlier_plan_of_the_same_spec(golden: Golden) -> None:
    case = CASES / "catalogue_change"
    with patch("planner.problem.build.chip", slower):
        golden(case / "base.yaml", plan_to_yaml(make_plan(load_spec(case / "head.yaml"))))
