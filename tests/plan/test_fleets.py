"""Plans of fleets: what they promise follows from their steps, and everything that reads plans can read them."""

from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from cost_models.queueing import most_slot_utilization
from planner.diff import compare
from planner.errors import CannotRun, InfeasibleSpec
from planner.explain import explain
from planner.explain.explain import addresses
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.make import make_plan, plan_of, solve_spec
from planner.plan.near import Earlier
from planner.plan.schema import Plan
from planner.plan.show import show_plan
from planner.render import render_package
from planner.report import report_html
from planner.solve.fleet import FleetSolution
from planner.spec import Spec, load_spec
from tests.plans_of import SPECS, example_plan
from tests.solve.test_fleet import served

LLAMA_70B = "llama_3_1_70b_v5e_4x4"
SMALL = ("serving.strategies=all", "hardware={chip: v5e, slices: [2x4, 4x4]}")
RATE = (*SMALL, "workload.requests_per_s=10")
APART = "serving.mode=disaggregated"
FLEETS = {
    "rate": (*RATE, "limits={ttft: {mean: 500 ms, p95: 1.5 s}}"),
    "apart": (*RATE, APART, "limits={ttft: {mean: 500 ms, p95: 1.5 s}, tpot: {mean: 40 ms, p95: 40 ms}}"),
    "closed": (*SMALL, APART, "hardware.fleet_chips=32"),
}
NAMES = pytest.mark.parametrize("name", FLEETS)


def fleet(name: str) -> Plan:
    return example_plan(LLAMA_70B, *FLEETS[name])


def text_of(plan: Plan) -> str:
    console = Console(file=StringIO(), width=200)
    show_plan(plan, console)
    written = console.file
    assert isinstance(written, StringIO)
    return written.getvalue()


@NAMES
def test_a_fleet_keeps_what_was_asked(name: str):
    plan = fleet(name)
    assert plan.fleet is not None
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", FLEETS[name])
    for limit, value in ((spec.limits.ttft_s, plan.service.ttft_s), (spec.limits.tpot_s, plan.service.tpot_s)):
        assert limit is None or value <= limit
    if spec.workload.requests_per_s is None:
        assert plan.fleet.tails is None
        return
    assert plan.fleet.tails is not None
    assert spec.limits.ttft_p95_s is None or plan.fleet.tails.ttft_p95_s <= spec.limits.ttft_p95_s
    assert spec.limits.tpot_p95_s is None or plan.fleet.tails.tpot_p95_s <= spec.limits.tpot_p95_s
    assert plan.fleet.prefill_utilization <= 0.9
    assert plan.fleet.slot_utilization <= most_slot_utilization(plan.generate.batch)


@NAMES
def test_chips_and_cost_follow_from_the_slices(name: str):
    plan = fleet(name)
    assert plan.fleet is not None
    reading = len(plan.pool.mesh.chips) * (plan.fleet.prefill_slices or 0) if plan.pool else 0
    assert plan.chips == reading + plan.fleet.slices * len(plan.mesh.chips)
    tokens = plan.fleet.requests_per_s * 256
    assert plan.service.tokens_per_s == pytest.approx(tokens, rel=1e-5)
    assert plan.service.chip_seconds_per_million_tokens == pytest.approx(1e6 * plan.chips / tokens, rel=1e-5)


@NAMES
def test_a_fleet_survives_its_file_and_differs_from_nothing_but_others(name: str):
    plan = fleet(name)
    assert plan_from_yaml(plan_to_yaml(plan), name) == plan
    assert compare(plan, plan).changes == ()
    other = fleet("apart" if name != "apart" else "rate")
    assert {each.address for each in compare(plan, other).changes} >= {"fleet.slices"}


@NAMES
def test_everything_of_a_fleet_is_told(name: str):
    plan = fleet(name)
    assert plan.fleet is not None
    for address in addresses(plan):
        assert explain(plan, address)
    told = text_of(plan)
    assert f"{plan.fleet.chips} chips" in told
    assert "<svg" in report_html(plan)


def test_slices_for_each_phase_are_told_apart():
    plan = fleet("apart")
    assert plan.pool is not None
    assert plan.fleet is not None
    assert f"{plan.fleet.prefill_slices} x {plan.pool.slice}" in text_of(plan)
    assert "A slice that reads prompts" in report_html(plan)
    assert "keys and values are handed over" in "".join(explain(plan, "fleet")[0].sentences)


def test_a_package_has_a_mesh_for_the_slice_of_each_phase():
    plan = fleet("apart")
    assert plan.pool is not None
    text = render_package(plan)["sharding.py"]
    for name, mesh in (("MESH_SHAPE", plan.mesh), ("PREFILL_MESH_SHAPE", plan.pool.mesh)):
        assert f"\n{name} = {tuple(axis.size for axis in mesh.axes)}\n" in text


def test_memory_of_both_kinds_of_slices_fits():
    plan = fleet("apart")
    assert plan.pool is not None
    for hbm in (plan.hbm, plan.pool.hbm):
        assert hbm.free >= 0
        assert hbm.total == hbm.weights + hbm.kv_cache + hbm.activations + hbm.logits
    assert plan.hbm.activations == plan.pool.hbm.kv_cache == 0


def test_auto_takes_the_fleet_of_fewer_chips():
    tight = ("limits.tpot=20 ms",)
    chips = {
        mode: example_plan(LLAMA_70B, *RATE, f"serving.mode={mode}", *tight).chips
        for mode in ("interleaved", "disaggregated", "auto")
    }
    assert chips["auto"] == min(chips.values())
    assert chips["disaggregated"] < chips["interleaved"], "a step that no prefill interrupts needs fewer slots to spare"


def test_more_requests_never_take_fewer_chips():
    chips = [example_plan(LLAMA_70B, *SMALL, f"workload.requests_per_s={rate}").chips for rate in (1, 4, 16, 64)]
    assert chips == sorted(chips)
    assert chips[-1] > chips[0]


def test_a_fleet_that_is_too_small_says_what_it_needs():
    with pytest.raises(
        InfeasibleSpec, match=r"chips of the fleet .*: the least possible is 56, and there may be 8"
    ) as told:
        make_plan(load_spec(SPECS / f"{LLAMA_70B}.yaml", [*RATE, "hardware.fleet_chips=8"]))
    assert "--set hardware.fleet_chips=56" in str(told.value)


@pytest.mark.parametrize("mode", ["interleaved", "disaggregated", "auto"])
def test_a_limit_that_no_fleet_keeps_is_blamed_and_mended(mode: str):
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", [*RATE, f"serving.mode={mode}", "limits.tpot=1 ms"])
    with pytest.raises(InfeasibleSpec, match=r"TPOT \(limits.tpot\): the least possible is"):
        make_plan(spec)


@pytest.mark.parametrize("name", ["rate", "apart"])
def test_nearness_is_refused_for_fleets(name: str):
    solved = solve_spec(load_spec(SPECS / f"{LLAMA_70B}.yaml", FLEETS[name]))
    with pytest.raises(CannotRun, match="--near"):
        plan_of(solved, Earlier.of(fleet("rate"), "plan.yaml"))


def solver_seconds(solution: FleetSolution) -> tuple[float, float, int, int]:
    """Steps and HBM units of both sides as the solver summed them."""
    prefill, generate = solution.prefill.choices, solution.generate.choices
    return (
        sum(choice.prefill_ns for choice in prefill) / 1e9,
        sum(choice.generate_ns for choice in generate) / 1e9,
        sum(choice.hbm for choice in prefill),
        sum(choice.hbm for choice in generate),
    )


@settings(max_examples=60, deadline=None)
@given(st.booleans().flatmap(lambda rate: served("disaggregated", rate)))
def test_a_plan_says_what_the_solver_summed(spec: Spec):
    solved = solve_spec(spec)
    if not isinstance(solved.optimum, FleetSolution):
        return
    plan = plan_of(solved)
    assert plan.pool is not None
    prefill_s, generate_s, reading, making = solver_seconds(solved.optimum)
    assert plan.generate.step_s == pytest.approx(generate_s, rel=1e-6, abs=1e-8)
    assert plan.prefill.step_s == pytest.approx(prefill_s, rel=0.02, abs=1e-8), (
        "the order of token axes is not all priced"
    )
    for hbm, units in ((plan.pool.hbm, reading), (plan.hbm, making)):
        assert 0 <= units * 65536 - hbm.total <= 5 * 65536


@pytest.mark.parametrize(("mode", "least"), [("interleaved", "56"), ("disaggregated", "48"), ("auto", "48")])
def test_the_smaller_fleet_is_what_would_do(mode: str, least: str):
    tight = "limits={ttft: {mean: 600 ms, p95: 2 s}, tpot: 40 ms}"
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", [*RATE, tight, f"serving.mode={mode}", "hardware.fleet_chips=16"])
    with pytest.raises(InfeasibleSpec) as told:
        make_plan(spec)
    assert f"--set hardware.fleet_chips={least}" in str(told.value)


def test_the_fewest_chips_of_a_closed_loop_are_told():
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", [*SMALL, APART, "hardware.slices=[2x4]", "hardware.fleet_chips=8"])
    with pytest.raises(InfeasibleSpec, match="the least possible is 16, and there may be 8"):
        make_plan(spec)
