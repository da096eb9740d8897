"""A package that is executed, beside one device: the same numbers, or what differs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.errors import CannotRun
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.verify import run, verify_plan
from planner.verify.audit import silently
from planner.verify.package import imported_package
from planner.verify.run import Numbers, differences, in_float32, run_plan
from tests.verify.small import small_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan(["pins={generate.attention: 2d, generate.mlp: 2d, prefill.mlp: weight_gathered}"])


def test_a_plan_for_tpu_computes_the_numbers_of_one_device(plan: Plan):
    ran = run_plan(plan, silently)
    assert ran.differences == ()
    assert 0 < ran.logprobs_within < 1e-4
    assert (ran.size, ran.devices, ran.prompts, ran.steps) == ("tiny", 8, 3, 16)


def test_wrong_numbers_are_told(plan: Plan, monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def without_sums(of: Plan) -> Iterator[Any]:
        with imported_package(of) as package:
            if of.mesh.axes:
                monkeypatch.setattr(import_module(f"{package.__name__}.collectives"), "all_reduce", lambda x, axes: x)
            yield package

    monkeypatch.setattr(run, "imported_package", without_sums)
    told = run_plan(plan, silently).differences
    assert any("log probabilities after a prompt differ by" in each for each in told)
    assert any("the best tokens after prompt 0 are" in each for each in told)
    assert any("makes token" in each for each in told)


def test_each_kind_of_difference_is_a_sentence():
    found = Numbers([[1, 2]], [[0.5, 0.25]], [[7, 8, 9]])
    assert list(differences(found, found, 0.0)) == []
    other = Numbers([[1, 3]], [[0.5, 0.125]], [[7, 4, 4]])
    assert list(differences(found, other, 0.125)) == [
        "run: log probabilities after a prompt differ by 0.12 from those of one device",
        "run: the best tokens after prompt 0 are [1, 2], on one device [1, 3]",
        "run: step 1 after prompt 0 makes token 8, on one device 4",
    ]


def test_both_compute_in_float32_and_keep_what_is_quantised():
    model: Any = in_float32(small_plan(["model.weights.dtype=int8"])).spec["model"]
    dtypes = {part: model[part]["dtype"] for part in ("weights", "activations", "kv_cache")}
    assert dtypes == {"weights": "int8", "activations": "float32", "kv_cache": "float32"}


def test_only_cpu_devices_run(plan: Plan):
    with pytest.raises(CannotRun, match="add --target cpu"):
        verify_plan(plan, run="tiny")


def test_the_command_runs_and_says_so(plan: Plan, tmp_path: Path):
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(plan), encoding="utf-8")
    bucket = str(plan.prefill.tokens)
    options = ["verify", str(path), "--target", "cpu", "--run", "tiny", "--bucket", bucket]
    done = CliRunner().invoke(main, [*options, "--format", "json"])
    data = json.loads(done.stdout)
    assert (done.exit_code, data["ok"]) == (0, True), done.stdout
    assert data["run"]["steps"] == 16
    assert {step["bucket"] for step in data["steps"]} == {int(bucket), None}


def test_a_bucket_that_the_plan_lacks_is_an_error(plan: Plan):
    with pytest.raises(CannotRun, match="no bucket of 77 tokens"):
        verify_plan(plan, buckets=[77])
