"""benchmarks/drift.py over two tiny specs and a repository whose catalogue was another one a commit ago."""

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import drift
from benchmarks.drift import DECISIONS, PREDICTIONS, compared, grid, value
from planner.plan.make import make_plan
from planner.plan.schema import Plan, Prefill
from planner.spec import load_spec
from tests.plans_of import SPECS, example_plan
from tests.review.repository import git

ROOT = Path(__file__).resolve().parents[2]
SMALL = SPECS / "smollm2_135m_cpu8.yaml"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This code, tagged `released` as it is, with a wider v5e (`wide`), and with a faster host CPU (`fast`)."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("planner", "cost_models"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "-q", "-b", "main")
    for chip, line, factor, tag in (("v5e", "hbm_bytes", 4, "wide"), ("cpu", "hbm_bytes_per_s", 2, "fast")):
        catalogue = folder / "cost_models" / "chips.toml"
        text = catalogue.read_text(encoding="utf-8")
        catalogue.write_text(scaled(text, chip, line, factor), encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", tag)
        git(folder, "tag", tag)
        catalogue.write_text(text, encoding="utf-8")
    git(folder, "commit", "-q", "-a", "-m", "today")
    return folder


def scaled(text: str, chip: str, key: str, factor: int) -> str:
    """The catalogue with one number of one chip multiplied."""
    before, heading, after = text.partition(f"[{chip}]\n")
    found = re.search(rf"^{key} = {{ value = ([^,]+),", after, re.MULTILINE)
    assert found is not None
    changed = found[0].replace(found[1], f"{float(found[1]) * factor:.0f}")
    return before + heading + after.replace(found[0], changed, 1)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A spec that fits a chip of today not at all, and a wider one."""
    path = tmp_path / "large.yaml"
    path.write_text(drift.spec("llama-3.1-8b", "v5e", "1x1", 128, 128, 4).replace("int8", "bf16"), encoding="utf-8")
    return path


def run(repository: Path, base: str, *arguments: object) -> int:
    return drift.main(["--base", base, "--repository", str(repository), *map(str, arguments)])


def test_feasible_turned_infeasible_fails(repository: Path, large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(repository, "wide", "--spec", SMALL, large) == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "2 specs against wide: 2 had a plan, 1 have one\n    1 had a plan and have none: a regression\n"
    )
    assert f"\nlost        {large}" in out


def test_what_moved_is_told_and_no_failure(repository: Path, large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(repository, "fast", "--spec", SMALL, large, "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    (moved,) = data["moved"]
    assert (data["specs"], data["planned"]) == (2, {"base": 1, "head": 1})
    assert (moved["spec"], moved["kind"] in ("plan", "predictions")) == (str(SMALL), True)
    assert any(each.startswith("generate.step_s +") for each in moved["what"])


def test_nothing_moved(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(repository, "HEAD", "--spec", SMALL) == 0
    assert capsys.readouterr().out.endswith("nothing moved\n")
    assert git(repository, "worktree", "list").count("\n") == 1


def test_a_revision_that_is_not_there_and_code_that_does_not_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as found:
        run(repository, "nowhere", "--spec", SMALL)
    assert found.value.code == 2
    assert "--base nowhere cannot be checked out" in capsys.readouterr().err


def test_every_kind_of_change_has_its_word() -> None:
    plan = example_plan("smollm2_135m_cpu8").model_dump(mode="json")
    other = {**plan, "generate": {**plan["generate"], "batch": 99}}
    slower = {**plan, "service": {**plan["service"], "ttft_s": 2 * plan["service"]["ttft_s"]}}
    assert compared("a", {"plan": plan}, {"plan": plan}) is None
    assert compared("a", {"plan": plan}, {"refused": "no"}) == ("a", "lost", ("no",))
    assert compared("a", {}, {"plan": plan}) == ("a", "gained", ("before: no feasible plan",))
    assert compared("a", {"plan": plan}, {"plan": other}) == ("a", "plan", ("generate.batch",))
    assert compared("a", {"plan": plan}, {"plan": slower}) == ("a", "predictions", ("service.ttft_s +100.00%",))
    assert compared("a", {}, {"refused": "no"}) == ("a", "refusal", ("no",))
    assert compared("a", {}, {}) is None


def test_plans_hold_what_is_compared() -> None:
    plan = example_plan("smollm2_135m_cpu8").model_dump(mode="json")
    assert [at for at in PREDICTIONS if value(plan, at) is None] == []
    optional = {("pool", "slice"), ("fleet", "mode"), ("prefill", "copies"), ("prefill", "chunk")}
    assert {at for at in DECISIONS if value(plan, at) is None} <= optional
    assert {part for at in optional for part in at[:1]} <= set(Plan.model_fields)
    assert {"copies", "chunk"} <= set(Prefill.model_fields)


def test_every_spec_of_the_grid_can_be_read(tmp_path: Path) -> None:
    specs = grid()
    assert len(specs) == 192
    for index, text in enumerate(specs.values()):
        path = tmp_path / f"{index}.yaml"
        path.write_text(text, encoding="utf-8")
        load_spec(path)
    assert make_plan(load_spec(tmp_path / "0.yaml")).chip == "v5e"
