"""A spec may leave dtypes to the solver: it takes the best of all choices, and says which."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.commands import PlanRequest, plan_command
from planner.diff import compare, diff_to_text
from planner.diff.schema import REWRITES_KV_CACHE, REWRITES_WEIGHTS
from planner.errors import InfeasibleSpec
from planner.explain.why_not import why_not
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.machine import machine_of, resolved_spec, spec_of, stored_dtypes
from planner.plan.make import make_plan, solve_spec
from planner.plan.schema import Plan
from planner.problem.sizes import sizes_of
from planner.render import render_package
from planner.render.model import DTYPES, read_model
from planner.spec import SpecErrors, load_spec, resolutions, spec_from_data, spec_to_data
from planner.sweep.grid import read_grid
from planner.sweep.run import run_sweep
from tests.plans_of import SPECS, example_plan
from tests.problem.specs import specs
from tests.solve.test_real import TINY_SLICES

L70B, SMOLLM2 = "llama_3_1_70b_v5e_4x4", "smollm2_135m_cpu8"
ALL = "serving.strategies=all"
BOTH = "model.weights.dtype=[bf16, int8]", "model.kv_cache.dtype=[bf16, int8]"
PAIRS = [(weights, kv_cache) for weights in ("bf16", "int8") for kv_cache in ("bf16", "int8")]


def value_of(spec: Any) -> float | None:
    """What the best plan of a spec reaches."""
    optimum = solve_spec(spec).optimum
    return None if optimum is None else float(optimum.value)


@settings(max_examples=30, deadline=None)
@given(specs(TINY_SLICES, concurrency=6, most_slices=1), st.sampled_from(["interleaved", "disaggregated", "auto"]))
def test_the_best_of_all_choices_is_taken(spec: Any, mode: str) -> None:
    data = spec_to_data(spec)
    data["model"]["weights"]["dtype"] = data["model"]["kv_cache"]["dtype"] = ["bf16", "int8"]
    data["serving"] = {"mode": mode}
    data["limits"] = {}
    whole = spec_from_data(data)
    apart = [value for each in resolutions(whole) if (value := value_of(each)) is not None]
    assert value_of(whole) == min(apart, default=None)


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        ("cost", ("limits.ttft=200 ms",)),
        ("throughput", ()),
        ("latency", ()),
        ("cost", ("serving.mode=auto",)),
        ("latency", ("serving.mode=disaggregated", "hardware.fleet_chips=160")),
    ],
    ids=str,
)
def test_the_plan_is_that_of_the_best_choice(objective: str, more: tuple[str, ...]) -> None:
    given = ALL, f"objective={objective}", *more
    plan = example_plan(L70B, *given, *BOTH)
    found = {}
    for weights, kv_cache in PAIRS:
        try:
            chosen = f"model.weights.dtype={weights}", f"model.kv_cache.dtype={kv_cache}"
            found[weights, kv_cache] = example_plan(L70B, *given, *chosen)
        except InfeasibleSpec:
            continue
    best = min(found, key=lambda pair: (found[pair].proof.value, found[pair].chips, PAIRS.index(pair)))
    assert plan.dtypes is not None
    assert (plan.dtypes.weights, plan.dtypes.kv_cache) == best
    same = found[best].model_copy(update={"spec": plan.spec, "dtypes": plan.dtypes, "proof": plan.proof})
    assert plan == same
    assert plan.proof.value == found[best].proof.value


def test_a_model_that_fits_in_int8_alone_is_planned_in_int8() -> None:
    given = ALL, "hardware={chip: v5e, slice: 2x4}", "workload.concurrency=8"
    with pytest.raises(InfeasibleSpec, match=r"model\.weights\.dtype=int8"):
        example_plan(L70B, *given, "model.weights.dtype=bf16")
    plan = example_plan(L70B, *given, "model.weights.dtype=[bf16, int8]")
    assert plan.dtypes is not None
    assert plan.dtypes.weights == "int8"


def test_what_is_allowed_already_is_no_remedy() -> None:
    given = ALL, "hardware={chip: v5e, slice: 1x1}", "workload.concurrency=8"
    with pytest.raises(InfeasibleSpec) as told:
        example_plan(L70B, *given, "model.weights.dtype=[bf16, int8]")
    assert "HBM" in str(told.value)
    assert "hardware.slice" in str(told.value)
    assert "dtype" not in str(told.value)
    with pytest.raises(InfeasibleSpec, match="HBM"):
        example_plan(L70B, *given, *BOTH, "serving.mode=disaggregated")


def test_a_single_dtype_is_told_by_the_spec_alone() -> None:
    plan = example_plan(L70B)
    assert plan.dtypes is None
    assert "dtypes:" not in plan_to_yaml(plan)
    assert resolved_spec(plan) == spec_of(plan)
    assert stored_dtypes(plan).model_dump() == {"weights": "int8", "kv_cache": "bf16"}


def chosen_plan(*more: str) -> Plan:
    return example_plan(L70B, ALL, *BOTH, *more)


def test_the_file_keeps_the_freedom_and_the_choice() -> None:
    plan = chosen_plan()
    text = plan_to_yaml(plan)
    assert "\ndtypes:\n  weights: int8\n  kv_cache: int8\n" in text
    assert "dtype: [bf16, int8]" in text
    assert plan_to_yaml(plan_from_yaml(text, "plan.yaml")) == text
    assert spec_of(plan).model.weights.dtype == ("bf16", "int8")
    assert resolved_spec(plan).model.weights.dtype == "int8"
    assert machine_of(plan).sizes == sizes_of(resolved_spec(plan))
    assert plan_to_yaml(make_plan(spec_of(plan))) == text


def test_the_order_of_the_list_decides_between_equals_and_nothing_else() -> None:
    turned = example_plan(L70B, ALL, "model.weights.dtype=[int8, bf16]", "model.kv_cache.dtype=[int8, bf16]")
    plan = chosen_plan()
    assert turned.model_copy(update={"spec": plan.spec}) == plan


def test_questions_are_asked_with_the_freedom() -> None:
    plan = chosen_plan()
    answers = why_not(plan, ("generate.batch=8",))
    assert answers[0].verdict == "costs"
    assert answers[0].ratio is not None
    assert answers[0].ratio > 1


def test_a_diff_tells_another_choice_and_what_it_rewrites() -> None:
    base, head = chosen_plan("model.weights.dtype=[bf16]"), chosen_plan()
    difference = compare(base, head)
    changes = {change.address: change for change in difference.changes}
    assert (changes["dtypes.weights"].base, changes["dtypes.weights"].head) == ("bf16", "int8")
    assert changes["dtypes.weights"].reasons == (REWRITES_WEIGHTS,)
    assert "dtypes.kv_cache" not in changes
    assert "weights" in diff_to_text(difference)


def test_a_list_that_takes_what_was_there_rewrites_nothing() -> None:
    base = example_plan(L70B, ALL, "model.weights.dtype=int8", "model.kv_cache.dtype=int8")
    changes = compare(base, chosen_plan()).changes
    assert {"dtypes.weights", "spec.model.weights.dtype"} <= {change.address for change in changes}
    assert not {REWRITES_WEIGHTS, REWRITES_KV_CACHE} & {reason for change in changes for reason in change.reasons}


def test_a_package_is_rendered_in_the_dtypes_that_were_taken() -> None:
    plan = example_plan(L70B, *BOTH)
    assert plan.dtypes is not None
    assert (plan.dtypes.weights, plan.dtypes.kv_cache) == ("int8", "int8")
    model = read_model(plan)
    assert (model.weights_dtype, model.kv_dtype) == ("int8", "int8")


@pytest.mark.parametrize("kv_cache", ["int8", "bf16", "float32"])
def test_a_cache_of_every_dtype_has_a_package(kv_cache: str) -> None:
    plan = example_plan(SMOLLM2, f"model.kv_cache.dtype={kv_cache}")
    assert f"KV_CACHE = jnp.{DTYPES[kv_cache]}" in render_package(plan)["config.py"]


def test_a_sweep_sets_single_dtypes() -> None:
    grid = read_grid(SPECS / f"{SMOLLM2}.yaml", BOTH[:1], ("model.weights.dtype=float32,int8", "generate.batch=8"))
    found = run_sweep(grid)
    assert {point.values["model.weights.dtype"] for point in found.points} == {"float32", "int8"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[bf16, int7]", 'must be one of float32, bf16, int8, not "int7"; did you mean "int8"?'),
        ("[]", "must name one dtype at least"),
        ("[int8, int8]", "names int8 twice"),
        ("{a: 1}", "must be one of float32, bf16, int8, not a mapping"),
    ],
)
def test_what_is_wrong_with_a_list_is_told(text: str, told: str) -> None:
    with pytest.raises(SpecErrors, match=r"model\.kv_cache\.dtype") as error:
        load_spec(SPECS / f"{SMOLLM2}.yaml", (f"model.kv_cache.dtype={text}",))
    assert told in str(error.value)


def test_the_ledger_tells_candidates_of_different_dtypes_apart(tmp_path: Any) -> None:
    ledger = tmp_path / "ledger.jsonl"
    wanted = PlanRequest(tmp_path / "plan.yaml", ledger)
    assert plan_command(SPECS / f"{SMOLLM2}.yaml", BOTH[:1], "text", wanted) == 0
    lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert {line["weight_bytes"] for line in lines if line["kind"] == "candidate"} == {1, 2}
