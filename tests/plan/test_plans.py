"""Whole plans: deterministic, sound against brute force, readable back, monotone in the hardware."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from planner.errors import InfeasibleSpec, PlanFileError
from planner.plan.file import plan_from_yaml, plan_to_yaml, read_plan
from planner.plan.make import make_plan
from planner.plan.show import show_plan
from planner.problem.build import build
from planner.solve.search import search
from planner.solve.verify import exact_optimum, faults
from planner.spec import load_spec, spec_from_data

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SPECS = sorted(EXAMPLES.glob("*.yaml"))
L70B = EXAMPLES / "llama_3_1_70b_v5e_4x4.yaml"
SMOLLM2 = EXAMPLES / "smollm2_135m_cpu8.yaml"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_same_spec_same_bytes_and_the_file_reads_back(path):
    first, second = plan_to_yaml(make_plan(load_spec(path))), plan_to_yaml(make_plan(load_spec(path)))
    assert first == second
    assert plan_to_yaml(plan_from_yaml(first, "plan.yaml")) == first


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_resolved_spec_in_a_plan_makes_the_same_plan(path):
    plan = make_plan(load_spec(path))
    assert make_plan(spec_from_data(plan.spec)) == plan


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["objective=latency"],
        ["objective=throughput"],
        ["hardware.slice=2x2"],
        ["limits.tpot=58 ms"],
        ["limits.ttft=240 ms"],
    ],
    ids=str,
)
def test_plans_are_optimal_by_enumeration(overrides):
    built = build(load_spec(SMOLLM2, overrides))
    solution = search(built.problem)
    assert (solution.value if solution else None) == exact_optimum(built.problem)
    assert solution is None or faults(solution.taken) == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_parts_add_up_to_the_step_and_collectives_to_the_ici_time(path):
    plan = make_plan(load_spec(path))
    for phase in (plan.prefill, plan.generate):
        assert sum(part.total_s for part in phase.parts) == pytest.approx(phase.step_s)
        waited_s, whole_s = sum(part.ici_s for part in phase.parts), sum(each.seconds for each in phase.collectives)
        assert waited_s <= whole_s * (1 + 1e-9)
        assert plan.spec["hardware"]["stack"] == "v5e-jax-llm-examples" or waited_s == pytest.approx(whole_s)
    hbm = plan.hbm
    assert hbm.weights + hbm.copies + hbm.kv_cache + hbm.activations + hbm.logits == hbm.total
    assert hbm.total + hbm.free == hbm.available


def test_a_larger_slice_never_makes_a_step_slower():
    steps = [
        make_plan(load_spec(L70B, [f"hardware.slice={text}", "objective=throughput", "pins.generate.batch=32"]))
        for text in ("2x4", "4x4", "4x8")
    ]
    times = [1 / plan.service.tokens_per_s for plan in steps]
    assert times == sorted(times, reverse=True)


def test_one_kv_group_more_is_padded_and_counted():
    pins = ["pins.generate.kv_heads=y", "pins.generate.q_heads=y", "pins.generate.batch=8"]
    plan = make_plan(load_spec(SMOLLM2, pins))
    padded = {item.dimension: (item.size, item.padded) for item in plan.padding}
    assert padded["q_heads"] == (9, 12)
    assert padded["kv_heads"] == (3, 4)


def test_infeasible_says_how_much_is_missing_and_what_fits():
    with pytest.raises(InfeasibleSpec) as caught:
        make_plan(load_spec(L70B, ["model.weights.dtype=bf16", "hardware.slice=2x2"]))
    told = str(caught.value)
    assert "GB missing per chip" in told
    assert "--set hardware.slice=4x4" in told
    assert "--set model.weights.dtype=int8 --set hardware.slice=2x4" in told


def test_an_impossible_limit_names_the_least_possible():
    with pytest.raises(
        InfeasibleSpec, match=r"TPOT \(limits.tpot\): the least possible is .* ms, the limit is 1 ms"
    ) as caught:
        make_plan(load_spec(L70B, ["limits.tpot=1 ms"]))
    (relaxed,) = re.findall(r"--set '(limits.tpot=\S+ ms)'", str(caught.value))
    assert make_plan(load_spec(L70B, [relaxed])).service.tpot_s <= float(relaxed.split("=")[1].split()[0]) / 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nname: x\n", "not a plan: it has no format_version"),
        ("format_version: '9.0'\n", "format_version 9.0 is not 1.0"),
        ("format_version: '1.0'\nname: [", "not YAML"),
        ("format_version: '1.0'\nname: x\n", "Field required"),
    ],
)
def test_a_broken_plan_file_is_told_in_one_line(tmp_path, text, message):
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanFileError, match=message) as caught:
        read_plan(path)
    assert "\n" not in str(caught.value)


def test_a_plan_is_shown_with_everything_a_reviewer_asks_for():
    console = Console(width=160, file=StringIO())
    show_plan(make_plan(load_spec(SMOLLM2)), console)
    shown = console.file.getvalue()
    for needed in (
        "mesh x=2, y0=2, y1=2",
        "kv_heads",
        "heads_x_batch",
        "bound by",
        "runner-up:",
        "weights",
        "OPTIMAL",
        "q_heads      9",
    ):
        assert needed in shown


def test_a_pinned_batch_leaves_open_how_the_batch_is_cut():
    by_batch = "pins.generate.kv_cache=heads_x_batch"
    free = make_plan(load_spec(L70B, [by_batch]))
    assert free.generate.rules.batch
    pinned = make_plan(load_spec(L70B, [by_batch, f"pins.generate.batch={free.generate.batch}"]))
    assert pinned.generate.rules == free.generate.rules
    assert pinned.service == free.service


def test_a_price_turns_chip_seconds_into_money():
    plan = make_plan(load_spec(SMOLLM2, ["hardware.price_per_chip_hour=1.8"]))
    service = plan.service
    assert service.money_per_million_tokens == pytest.approx(service.chip_seconds_per_million_tokens * 1.8 / 3600)
    assert make_plan(load_spec(SMOLLM2)).service.money_per_million_tokens is None


def test_short_prompts_on_large_slices_keep_short_buckets():
    plan = make_plan(load_spec(L70B, ["hardware.slice=16x16", "workload.prompt_tokens={mean: 300, p95: 600}"]))
    assert plan.prefill.buckets[0] <= 256
    assert plan.prefill.tokens == 512
