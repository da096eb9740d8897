"""Fleets: requests that arrive at random on interleaved slices, or on readers and generate servers."""

import json
from dataclasses import replace
from functools import cache
from itertools import islice
from statistics import fmean, pvariance
from typing import Any

import pytest

from cost_models.queueing import mean_wait_s
from planner.plan.chosen import chosen_of
from planner.plan.machine import machine_of, prefill_machine_of, prefill_rules_of, rules_of
from planner.plan.records import Tails
from planner.plan.schema import Plan, Stages
from planner.simulate import Simulated, simulate, simulated_to_json, simulated_to_text
from planner.simulate.fleet import poisson_gaps
from planner.simulate.result import OfFleet
from planner.simulate.steps import steps_of
from tests.plans_of import example_plan
from tests.simulate.fleets import closed, disaggregated, interleaved, with_workload

PROMPT, OUTPUT, SLOTS = 1024, 64, 32


@cache
def base() -> Plan:
    """A plan for constant lengths: 97 ms a prefill of one prompt, 16 ms a step, 32 slots."""
    alone = "pins.prefill.prompts=1", "pins.prefill.copies=none"
    lengths = "workload.prompt_tokens={mean: 1024, p95: 1024}", "workload.output_tokens={mean: 64, p95: 64}"
    return example_plan("llama_3_1_70b_v5e_4x4", *lengths, *alone)


def rate_of(prefill_load: float, prompts: int = 1) -> float:
    """Requests a second that keep one slice reading for so much of the time."""
    return prefill_load * prompts / base().prefill.step_s


def fleet(found: Simulated) -> OfFleet:
    assert found.fleet is not None
    return found.fleet


def test_the_same_seed_gives_the_same_replay_and_another_one_does_not() -> None:
    for plan in (interleaved(base(), 3.0, 2), disaggregated(base(), 3.0, 2, 2, 0.01)):
        assert simulate(plan, 50, 3) == simulate(plan, 50, 3)
        assert simulate(plan, 50, 3) != simulate(plan, 50, 4)


@pytest.mark.parametrize(("warming", "counted"), [(100, 30), (7, 500)])
def test_as_many_arrive_as_the_rate_says_and_gaps_are_those_of_a_poisson_process(warming: int, counted: int) -> None:
    gaps = list(islice(poisson_gaps(4.0, warming, counted, 0), warming + counted))
    assert sum(gaps[:warming]) == pytest.approx(warming / 4)
    assert sum(gaps[warming:]) == pytest.approx(counted / 4)
    spread = pvariance(gaps) / fmean(gaps) ** 2
    assert spread == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_reader_is_a_server_with_constant_services(load: float) -> None:
    plan = disaggregated(base(), rate_of(load), 8, 1, 0.005)
    found = simulate(plan, 6000, 0)
    read_s, step_s = plan.prefill.step_s, plan.generate.step_s
    busy_s = step_s / 2 * fleet(found).slot_utilization
    waited = found.ttft_s.mean - read_s - 0.005
    assert waited == pytest.approx(mean_wait_s(rate_of(load), read_s, 1, 0) + busy_s, rel=0.12, abs=step_s / 2)
    assert found.tpot_s.mean == pytest.approx(step_s)
    assert found.tpot_s.p95 == pytest.approx(step_s)
    assert fleet(found).prefill_utilization == pytest.approx(load, rel=0.05)


def test_pipeline_stages_read_several_prefills_at_once() -> None:
    plan = disaggregated(base(), 2 * rate_of(0.7), 8, 1)
    staged = plan.prefill.model_copy(update={"stages": Stages(axis=plan.mesh.axes[0].name, count=4)})
    reader, steps = plan.model_copy(update={"prefill": staged}), steps_of(plan)
    found = simulate(reader, 2000, 0)
    assert steps_of(reader).stages == 4
    assert steps.stages == 1
    assert fleet(found).prefill_utilization == pytest.approx(2 * 0.7 / 4, rel=0.1)
    waited = mean_wait_s(2 * rate_of(0.7), plan.prefill.step_s / 4, 1, 0)
    assert found.ttft_s.mean == pytest.approx(plan.prefill.step_s + waited, rel=0.15)


def test_slots_are_taken_as_long_as_littles_law_says() -> None:
    plan, rate = disaggregated(base(), 6.0, 2, 1), 6.0
    found = simulate(plan, 4000, 0)
    taken = rate * (OUTPUT - 1) * plan.generate.step_s / (2 * SLOTS)
    assert fleet(found).slot_utilization == pytest.approx(taken, rel=0.05)
    assert found.tokens_per_s == pytest.approx(rate * OUTPUT, rel=0.05)


@pytest.mark.parametrize("slices", [1, 3])
def test_prefills_stretch_the_steps_of_interleaved_slices(slices: int) -> None:
    plan = interleaved(base(), slices * rate_of(0.5), slices)
    found = simulate(plan, 4000, 0)
    assert fleet(found).prefill_utilization == pytest.approx(0.5, rel=0.05)
    assert found.tpot_s.mean == pytest.approx(plan.generate.step_s / (1 - 0.5), rel=0.15)
    assert found.tpot_s.p95 > found.tpot_s.mean


def test_slices_split_the_requests() -> None:
    crowded, roomy = (simulate(interleaved(base(), rate_of(0.8), slices), 1000, 0) for slices in (1, 2))
    assert roomy.ttft_s.mean < crowded.ttft_s.mean / 1.5
    assert fleet(roomy).prefill_utilization == pytest.approx(fleet(crowded).prefill_utilization / 2, rel=0.1)


def test_a_request_waits_for_a_slot() -> None:
    few = base().model_copy(update={"generate": base().generate.model_copy(update={"batch": 4})})
    rate = 0.8 * 4 / (OUTPUT * base().generate.step_s)
    for mode in (interleaved, lambda plan, rate, slices: disaggregated(plan, rate, slices, 4)):
        waited, free = (simulate(mode(plan, rate, 1), 1000, 0).ttft_s for plan in (few, base()))
        assert waited.mean > 1.5 * free.mean


def test_a_link_carries_one_prompt_at_a_time() -> None:
    plan = disaggregated(base(), rate_of(0.4), 4, 1, 0.8 * base().prefill.step_s / 0.4)
    found = simulate(plan, 3000, 0)
    alone_s = base().prefill.step_s * (1 + 2)
    assert found.ttft_s.mean > 1.5 * alone_s
    quick = simulate(disaggregated(base(), rate_of(0.4), 4, 1), 3000, 0)
    assert quick.ttft_s.mean < base().prefill.step_s * 1.7


@pytest.mark.parametrize("mode", [interleaved, lambda plan, rate, slices: disaggregated(plan, rate, slices, slices)])
def test_prompts_wait_for_those_that_are_read_with_them_however_many_slices_there_are(mode: Any) -> None:
    plan = base().model_copy(update={"prefill": base().prefill.model_copy(update={"prompts": 4})})
    for slices in (1, 3):
        found = simulate(mode(plan, rate_of(0.2, 4), slices), 2000, 0)
        waited = found.ttft_s.mean - plan.prefill.step_s
        assert waited == pytest.approx(3 / 2 / rate_of(0.2, 4), rel=0.2)
        assert fleet(found).prefill_utilization == pytest.approx(0.2 / slices, rel=0.1)


def test_clients_keep_pools_busy_without_a_rate() -> None:
    plan = closed(disaggregated(base(), 1.0, 2, 1))
    found = simulate(plan, 600, 0)
    assert (found.clients, fleet(found).requests_per_s) == (SLOTS, None)
    assert fleet(found).prefill_utilization > 0.9
    assert found.tokens_per_s == pytest.approx(OUTPUT / plan.prefill.step_s, rel=0.1)


def test_a_rate_without_a_fleet_is_not_simulated_as_one() -> None:
    plan = with_workload(base(), {"requests_per_s": 1.0})
    assert simulate(plan, 30, 0).fleet is None


def test_prompts_are_read_by_the_machine_of_the_pool() -> None:
    other = example_plan("smollm2_135m_cpu8", "hardware.slice=2x2")
    plan = example_plan("smollm2_135m_cpu8")
    apart = disaggregated(plan, 1.0, 1, 1)
    assert apart.pool is not None
    pool = apart.pool.model_copy(update={"slice": other.slice, "mesh": other.mesh})
    apart = apart.model_copy(
        update={"pool": pool, "prefill": other.prefill.model_copy(update={"stored": other.generate.rules})}
    )
    assert prefill_machine_of(apart) == replace(machine_of(other), apart=True)
    assert machine_of(apart) == replace(machine_of(plan), apart=True)
    assert prefill_rules_of(apart) == rules_of(other)
    assert chosen_of(apart).reads.read_s(other.prefill.tokens) == pytest.approx(other.prefill.step_s, rel=1e-5)
    assert steps_of(apart).generate_s == plan.generate.step_s


def test_a_plan_without_a_pool_reads_prompts_on_its_own_machine() -> None:
    assert prefill_machine_of(base()) == machine_of(base())
    assert prefill_rules_of(base()) == rules_of(base())


def test_the_text_tells_tails_slices_and_use() -> None:
    plan = interleaved(base(), 4.0, 2, Tails(ttft_p95_s=0.5, tpot_p95_s=0.04))
    plan = with_workload(plan, {}, {"ttft": "1 s", "tpot_p95": "1 us"})
    text = simulated_to_text(simulate(plan, 50, 0))
    assert "50 requests at 4 a second on 2 slices of 32 slots" in text
    assert "plan (p95)" in text.splitlines()[2]
    assert [line.split()[-2:] for line in text.splitlines()[5:7]] == [["500", "ms"], ["40", "ms"]]
    assert "goodput: 100 % of requests" in text
    assert "goodput by the limits on the p95: 0 % of requests, 0 tokens/s, within TPOT 1 us" in text
    assert "(plan: 50 %); prefill at work: " in text
    apart = simulated_to_text(simulate(disaggregated(base(), 4.0, 2, 1), 50, 0))
    assert "at 4 a second on 1 slice that reads prompts, 2 of 32 slots" in apart
    assert "plan (p95)" not in apart
    assert "goodput: the spec has no limits" in apart
    assert "of 32 clients on 3 slices that read prompts" in simulated_to_text(
        simulate(closed(disaggregated(base(), 4.0, 2, 3)), 50, 0)
    )


def test_the_json_has_a_fleet_only_where_the_plan_has_one() -> None:
    data = json.loads(simulated_to_json(simulate(disaggregated(base(), 4.0, 2, 1), 20, 0)))
    assert data["clients"] is None
    assert data["fleet"]["prefill_slices"] == 1
    assert data["fleet"]["goodput_p95"] is None
    assert "fleet" not in json.loads(simulated_to_json(simulate(base(), 20, 0)))
