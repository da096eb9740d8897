"""The ledger file: JSON lines that add up, the same for the same spec, written for infeasible specs too."""

import json
from collections import Counter
from pathlib import Path

import pytest

from planner.commands import PlanRequest, plan_command
from planner.errors import CannotRun, InfeasibleSpec
from planner.plan.ledger import ledger_to_jsonl, ledger_to_text
from planner.plan.make import solve_spec
from planner.solve.ledger import ledger_of
from planner.spec import load_spec
from tests.plans_of import SPECS

SMOLLM2 = SPECS / "smollm2_135m_cpu8.yaml"
L70B = SPECS / "llama_3_1_70b_v5e_4x4.yaml"


def written(path: Path, *overrides: str) -> tuple[list[dict], str]:
    solved = solve_spec(load_spec(path, overrides))
    ledger = ledger_of(solved.built.problem, solved.optimum)
    text = ledger_to_jsonl(ledger, solved.spec.name)
    assert text == ledger_to_jsonl(ledger_of(solved.built.problem, solved.optimum), solved.spec.name)
    return [json.loads(line) for line in text.splitlines()], ledger_to_text(ledger)


@pytest.mark.parametrize("overrides", [(), ("hardware.slices=[2x4, 4x4]",), ("limits.tpot=20 ms",)], ids=str)
def test_the_lines_add_up_to_the_first_one(overrides: tuple[str, ...]):
    (head, *lines), text = written(L70B, *overrides)
    candidates = [line for line in lines if line["kind"] == "candidate"]
    options = [line for line in lines if line["kind"] == "option"]
    assert Counter(line["verdict"] for line in candidates) == head["candidates"]
    assert [line["index"] for line in candidates] == list(range(len(candidates)))
    for block, counts in head["options"].items():
        assert Counter(line["verdict"] for line in options if line["block"] == block) == counts
        assert counts["taken"] == 1
    assert sum(counts.get("dominated", 0) for counts in head["options"].values()) > 0
    (taken,) = (line for line in candidates if line["verdict"] == "taken")
    assert taken["value"] == head["value"]
    assert all(line["by"] == taken["index"] for line in candidates if line["verdict"] == "bounded")
    assert all(line["ratio"] >= 1 for line in candidates if "ratio" in line and line["verdict"] != "limits")
    assert text.startswith(f"{len(candidates)} candidates (mesh x batch): 1 taken")


def test_limits_are_told_in_bytes_and_seconds():
    (_, *lines), text = written(L70B, "limits.tpot=20 ms")
    broken = [each for line in lines for each in line.get("broken", ())]
    assert broken
    assert all(each["have"] == 0.02 < each["need"] for each in broken if each["limit"] == "tpot")
    assert "TPOT rules out" in text


def test_an_infeasible_spec_has_a_ledger_without_a_taken_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(InfeasibleSpec):
        plan_command(L70B, ("hardware.slice=2x2", "limits.tpot=1 ms"), "text", PlanRequest(ledger=path))
    head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert head["value"] is None
    assert {line["verdict"] for line in lines} <= {"limit", "limits", "illegal"}
    assert "ruled out by one limit" in capsys.readouterr().err


def test_the_ledger_never_overwrites_spec_or_plan(tmp_path: Path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SMOLLM2.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(CannotRun, match="is the spec itself; give --ledger another file"):
        plan_command(spec, (), "text", PlanRequest(ledger=spec))
    same = tmp_path / "plan.yaml"
    with pytest.raises(CannotRun, match="is the plan's file"):
        plan_command(spec, (), "text", PlanRequest(written=same, ledger=same))
