"""The audit of the SmolLM2 package on CPU devices, and of plans that were tampered with."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
from click.testing import CliRunner
from rich.console import Console

from planner.cli import main
from planner.errors import CannotRun
from planner.plan.file import plan_to_yaml
from planner.plan.make import make_plan
from planner.plan.schema import Collective, Plan
from planner.spec import load_spec
from planner.verify import build, devices, verify_plan
from planner.verify.audit import Audit, audit_of, silently
from planner.verify.build import Program, Step, compiled_programs
from planner.verify.show import audit_to_json, show_audit

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
Change = Callable[[tuple[Collective, ...]], tuple[Collective, ...]]


@pytest.fixture(scope="module")
def plan() -> Plan:
    pins = ["pins.generate.d_ff=[x, y]", "pins.generate.q_heads=[x, y]", "pins.generate.kv_cache=batch"]
    return make_plan(load_spec(EXAMPLES / "smollm2_135m_cpu8.yaml", pins))


@pytest.fixture(scope="module")
def programs(plan: Plan) -> list[Program]:
    return compiled_programs(plan, "cpu", silently, [plan.prefill.tokens])


def changed(plan: Plan, change: Change) -> Plan:
    """The plan with other planned collectives in generate."""
    generate = plan.generate.model_copy(update={"collectives": change(plan.generate.collectives)})
    return plan.model_copy(update={"generate": generate})


def with_out(**fields: Any) -> Change:
    """A change of the collective at generate.mlp.out."""
    return lambda planned: tuple(
        each.model_copy(update=fields) if each.address == "generate.mlp.out" else each for each in planned
    )


def test_the_package_is_what_the_plan_says(plan: Plan, programs: list[Program]):
    audit = audit_of(plan, "cpu", programs)
    assert audit.differences == ()
    assert audit.ok
    assert [step.step.phase for step in audit.steps] == ["prefill", "insert", "generate"]
    assert {row.status for step in audit.steps for row in step.rows} == {"matched"}
    assert all(copy.purpose for step in audit.steps for copy in step.copies)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda planned: planned[:-1],
            "generate.sampling.candidates: unplanned all_gather over x,y0,y1, 32.8 kB x 1",
            id="removed",
        ),
        pytest.param(
            lambda planned: (*planned, planned[-1].model_copy(update={"address": "generate.mlp.tokens"})),
            "generate.mlp.tokens: planned all_gather over x,y0,y1, 32.8 kB x 1 is missing",
            id="added",
        ),
        pytest.param(
            with_out(axes=("x",)),
            "generate.mlp.out: axes: planned all_reduce over x, 18.4 kB x 30, "
            "found all_reduce over x,y0,y1, 18.4 kB x 30",
            id="other axes",
        ),
        pytest.param(
            with_out(bytes=9216),
            "generate.mlp.out: bytes: planned all_reduce over x,y0,y1, 9.22 kB x 30, "
            "found all_reduce over x,y0,y1, 18.4 kB x 30",
            id="other bytes",
        ),
        pytest.param(
            with_out(count=29),
            "generate.mlp.out: count: planned all_reduce over x,y0,y1, 18.4 kB x 29, "
            "found all_reduce over x,y0,y1, 18.4 kB x 30",
            id="other count",
        ),
        pytest.param(
            with_out(kind="reduce_scatter"),
            "generate.mlp.out: kind: planned reduce_scatter over x,y0,y1, 18.4 kB x 30, "
            "found all_reduce over x,y0,y1, 18.4 kB x 30",
            id="other kind",
        ),
    ],
)
def test_a_tampered_plan_is_found_out(plan: Plan, programs: list[Program], change: Change, expected: str):
    audit = audit_of(changed(plan, change), "cpu", programs)
    assert audit.differences == (expected,)
    assert not audit.ok


@pytest.mark.parametrize(
    "pins",
    [
        pytest.param(
            "{generate.attention: 2d, generate.mlp: 2d, "
            "prefill.attention: weight_gathered, prefill.mlp: weight_gathered}",
            id="2d and weight-gathered",
        ),
        pytest.param(
            "{prefill.attention: sequence_parallel, prefill.mlp: sequence_parallel, generate.kv_cache: batch}",
            id="sequence-parallel and KV cache by batch",
        ),
    ],
)
def test_other_layouts_are_what_their_plans_say(pins: str):
    plan = make_plan(load_spec(EXAMPLES / "smollm2_135m_cpu8.yaml", (f"pins={pins}",)))
    audit = verify_plan(plan, buckets=[plan.prefill.tokens])
    assert audit.differences == ()
    assert {collective.kind for collective in plan.generate.collectives} >= {"reduce_scatter", "all_gather"}


def test_a_cpu_plan_for_long_prompts_on_few_devices_is_kept():
    sizes = ("hardware.slice=2x2", "workload.prompt_tokens={mean: 128, p95: 768}", "limits=null")
    plan = make_plan(load_spec(EXAMPLES / "smollm2_135m_cpu8.yaml", sizes))
    assert verify_plan(plan, buckets=[plan.prefill.buckets[-1]]).differences == ()


def test_a_budget_that_is_too_small_is_a_difference(plan: Plan, programs: list[Program]):
    half = plan.hbm.weights // 2
    layer = (half + (plan.hbm.copies or 0)) // 30  # may be copied, and is taken back
    small = {"weights": half, "activations": 1000 - layer, "logits": 0, "total": half}
    hbm = plan.hbm.model_copy(update=small)
    told = audit_of(plan.model_copy(update={"hbm": hbm}), "cpu", programs).differences
    assert [each.split(": planned")[0] for each in told] == [
        "prefill 128: arguments",
        "prefill 128: temporaries and results",
        "generate: arguments",
        "generate: temporaries and results",
        "service: total while serving",
    ]


def test_a_program_that_does_not_compile_is_a_finding(plan: Plan, programs: list[Program]):
    failed = Program(Step("prefill", 128), 1.0, failure="RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.")
    audit = audit_of(plan, "cpu", [failed, *programs[1:]])
    assert audit.differences == (f"prefill 128 does not compile: {failed.failure}",)
    assert audit.total == ()
    assert "does not compile" in printed(audit)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (jax.errors.JaxRuntimeError("INTERNAL: bad\n\n layout\nof many lines"), "INTERNAL: bad layout"),
        (ValueError("head_dim must be 128"), "ValueError: head_dim must be 128"),
    ],
)
def test_an_error_while_compiling_is_told_in_the_program(error: Exception, told: str):
    def lower() -> Any:
        raise error

    assert build.compiled(Step("generate"), lower).failure == told


def test_the_package_is_forgotten(plan: Plan):
    before, path = set(sys.modules), list(sys.path)
    with build.imported_package(plan) as package:
        name = package.__name__
        assert f"{name}.prefill" in sys.modules
    assert not [module for module in set(sys.modules) - before if module.startswith("audited_")]
    assert sys.path == path


def printed(audit: Audit) -> str:
    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        show_audit(audit, console)
    return capture.get()


def test_text_and_json_say_the_same(plan: Plan, programs: list[Program]):
    audit = audit_of(changed(plan, with_out(count=29)), "cpu", programs)
    data = json.loads(audit_to_json(audit))
    assert data["ok"] is False
    assert data["differences"] == list(audit.differences)
    assert [step["phase"] for step in data["steps"]] == ["prefill", "insert", "generate"]
    text = printed(audit)
    assert "1 difference from the plan" in text
    assert "29 -> 30" in text
    assert all(difference in text for difference in audit.differences)
    assert "PASS" in printed(audit_of(plan, "cpu", programs))


def test_a_gpu_plan_is_audited_on_cpu_devices_without_judging_their_temporaries(plan: Plan, programs: list[Program]):
    audit = audit_of(plan.model_copy(update={"chip": "h100"}), "cpu", programs)
    assert audit.ok
    assert audit.notes
    assert not any(step.copies for step in audit.steps)


def test_the_command_exits_0_for_the_plan_and_1_for_a_tampered_one(
    plan: Plan, programs: list[Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("planner.verify.audit.compiled_programs", lambda *_: programs)
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(plan_to_yaml(plan), encoding="utf-8")
    bad.write_text(plan_to_yaml(changed(plan, with_out(bytes=1))), encoding="utf-8")
    done = CliRunner().invoke(main, ["verify", str(good), "--target", "cpu"])
    assert (done.exit_code, "PASS" in done.stdout) == (0, True)
    done = CliRunner().invoke(main, ["verify", str(bad), "--format", "json"])
    assert (done.exit_code, json.loads(done.stdout)["ok"]) == (1, False)


def test_a_plan_for_another_chip_is_not_compiled_for_tpu(plan: Plan, tmp_path: Path):
    with pytest.raises(CannotRun, match="no TPU; compile it with --target cpu"):
        verify_plan(plan, "tpu")
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(plan), encoding="utf-8")
    done = CliRunner().invoke(main, ["verify", str(path), "--target", "tpu"])
    assert done.exit_code == 2
    assert "error: the plan is for cpu" in done.stderr


@pytest.mark.parametrize("missing", ["jax", "libtpu"])
def test_a_missing_compiler_is_told_with_the_command_that_installs_it(
    plan: Plan, missing: str, monkeypatch: pytest.MonkeyPatch
):
    find = devices.importlib.util.find_spec
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(CannotRun, match=r"pip install 'shardwright\[tpu\]'"):
        devices.devices_for(plan.model_copy(update={"chip": "v5e"}), "tpu")


def test_too_few_devices_are_told(programs: list[Program]):
    assert programs, "jax has started, so that no devices can be added"
    with pytest.raises(CannotRun, match="has 4096 chips"):
        devices.cpu_devices(4096)
