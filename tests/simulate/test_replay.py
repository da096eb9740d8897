"""A replay with constant lengths gives the plan's service formulas; with spread lengths, tails."""

import json
from pathlib import Path

import pytest

from planner.commands import simulate_command
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.simulate import Simulated, simulate
from planner.simulate.result import Distribution
from planner.simulate.steps import steps_of
from tests.plans_of import example_plan

CONSTANT = {
    "smollm2_135m_cpu8": ("workload.prompt_tokens={mean: 64, p95: 64}", "workload.output_tokens={mean: 64, p95: 64}"),
    "llama_3_1_70b_v5e_4x4": (
        "workload.prompt_tokens={mean: 1024, p95: 1024}",
        "workload.output_tokens={mean: 256, p95: 256}",
        "pins.prefill.prompts=1",  # clients that start together fill prefills that the formulas take as waited for
    ),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("seed", [0, 1])
def test_constant_lengths_reproduce_the_service_formulas(name: str, seed: int) -> None:
    plan = example_plan(name, *CONSTANT[name])
    assert plan.generate.batch == plan.spec["workload"]["concurrency"]  # type: ignore[index]
    found = simulate(plan, 300, seed)
    assert found.tokens_per_s == pytest.approx(plan.service.tokens_per_s, rel=0.01)
    assert found.tpot_s.mean == pytest.approx(plan.service.tpot_s, rel=0.04)
    assert found.ttft_s.mean == pytest.approx(plan.service.ttft_s, rel=0.01)
    assert found.shortened == 0


def test_the_same_seed_gives_the_same_replay_and_another_one_does_not() -> None:
    plan = example_plan("smollm2_135m_cpu8")
    assert simulate(plan, 50, 3) == simulate(plan, 50, 3)
    assert simulate(plan, 50, 3) != simulate(plan, 50, 4)


def test_spread_lengths_have_tails_and_cost_throughput() -> None:
    plan = example_plan("llama_3_1_70b_v5e_4x4")
    found = simulate(plan, 300, 0)
    assert found.prompt_tokens.mean == pytest.approx(1024, rel=0.03)
    assert found.output_tokens.p95 == pytest.approx(512, rel=0.05)
    assert found.ttft_s.mean < found.ttft_s.p95 < found.ttft_s.max
    assert found.tokens_per_s < plan.service.tokens_per_s


def test_waiting_for_a_slot_is_part_of_ttft() -> None:
    names = CONSTANT["smollm2_135m_cpu8"]
    plan = example_plan("smollm2_135m_cpu8", *names, "workload.concurrency=16", "pins.generate.batch=4")
    crowded = simulate(plan, 100, 0)
    assert (crowded.clients, crowded.slots) == (16, 4)
    assert crowded.tokens_per_s == pytest.approx(plan.service.tokens_per_s, rel=0.05)
    service_s = 64 * plan.service.tpot_s
    assert crowded.ttft_s.mean == pytest.approx(3 * service_s, rel=0.1)


def test_the_planned_bucket_takes_the_planned_time_and_longer_ones_take_more() -> None:
    plan = example_plan("smollm2_135m_cpu8")
    steps = steps_of(plan)
    assert steps.prompt_s(plan.prefill.tokens) == pytest.approx(plan.prefill.step_s)
    assert steps.prompt_s(plan.prefill.tokens - 1) == steps.prompt_s(plan.prefill.tokens)
    seconds = [s for _, s in steps.prefill_s]
    assert seconds == sorted(seconds)
    assert steps.prompt_s(10**9) == seconds[-1]


def with_limits(ttft: str, tpot: str) -> Plan:
    plan = example_plan("smollm2_135m_cpu8")
    return plan.model_copy(update={"spec": {**plan.spec, "limits": {"ttft": ttft, "tpot": tpot}}})


def good(found: Simulated) -> tuple[float, float]:
    assert found.goodput is not None
    return found.goodput.share, found.goodput.tokens_per_s


def test_goodput_counts_requests_within_both_limits() -> None:
    assert simulate(example_plan("smollm2_135m_cpu8"), 100, 0).goodput is None
    assert good(simulate(with_limits("1e9 s", "1e9 s"), 100, 0))[0] == 1
    assert good(simulate(with_limits("1 us", "1e9 s"), 100, 0)) == (0, 0)
    share, tokens_per_s = good(simulate(with_limits("0.2 s", "0.06 s"), 100, 0))
    assert 0 < share < 1
    assert 0 < tokens_per_s < simulate(example_plan("smollm2_135m_cpu8"), 100, 0).tokens_per_s


def test_percentiles_are_nearest_rank() -> None:
    found = Distribution.of([float(value) for value in range(1, 101)])
    assert (found.mean, found.p50, found.p95, found.p99, found.max) == (50.5, 50, 95, 99, 100)
    assert Distribution.of([]).max == 0


def test_the_command_prints_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(example_plan("smollm2_135m_cpu8")), encoding="utf-8")
    assert simulate_command(path, 20, 0, "text") == 0
    text = capsys.readouterr().out
    assert "20 requests of 8 clients on 8 slots" in text
    assert "no lognormal of this mean has so high a p95" in text
    assert simulate_command(path, 20, 0, "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["requests"] == 20
    assert set(data["ttft_s"]) == {"mean", "p50", "p95", "p99", "max"}
