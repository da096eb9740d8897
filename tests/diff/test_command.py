"""`shardwright diff` takes plans and specs, in any mix."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.plan.file import plan_to_yaml
from tests.plans_of import SPECS, example_plan

SPEC = SPECS / "smollm2_135m_cpu8.yaml"


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(example_plan("smollm2_135m_cpu8")), encoding="utf-8")
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_a_plan_and_its_own_spec_do_not_differ(plan_file: Path) -> None:
    assert run(plan_file, SPEC, "--exit-code") == (0, "No changes.\n", "")


def test_overrides_apply_to_the_spec_alone(plan_file: Path) -> None:
    code, out, _ = run(plan_file, SPEC, "--set", "limits.tpot=100 ms", "--exit-code")
    assert code == 1
    assert "+ spec.limits.tpot  0.1 s" in out


def test_without_exit_code_a_difference_is_no_failure(plan_file: Path) -> None:
    assert run(plan_file, SPEC, "--set", "limits.tpot=100 ms")[0] == 0


def test_overrides_need_a_spec(plan_file: Path) -> None:
    code, _, err = run(plan_file, plan_file, "--set", "limits.tpot=100 ms")
    assert code == 2
    assert "--set changes a spec" in err


def test_a_wrong_spec_is_told_as_such(plan_file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(SPEC.read_text().replace("chip: cpu", "chip: cpx"))
    code, _, err = run(plan_file, wrong)
    assert code == 1
    assert "wrong.yaml:9:" in err


def test_a_missing_file_is_named(plan_file: Path, tmp_path: Path) -> None:
    code, _, err = run(plan_file, tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml: cannot be read" in err
