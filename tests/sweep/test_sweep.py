"""Every point is what `plan` would make of its setting, nothing is lost, and processes change nothing."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from planner.commands import sweep_command
from planner.errors import Unsupported
from planner.plan.file import DIGITS
from planner.plan.make import make_plan
from planner.plan.schema import Service
from planner.sweep import read_grid, run_sweep, sweep_to_csv, sweep_to_json
from planner.sweep.grid import Grid
from planner.sweep.schema import AgainstName, LatencyName, Point, Sweep
from tests.plans_of import SPECS
from tests.sweep.test_frontier import dominates

ROOT = Path(__file__).resolve().parents[2]
SMOLLM2 = SPECS / "smollm2_135m_cpu8.yaml"
L70B = SPECS / "llama_3_1_70b_v5e_4x4.yaml"
TWO_SLICES = ("slice=2x4,4x4", "generate.batch=1,6,32")
TIGHT = ("limits.ttft=180 ms", "limits.tpot=31 ms")


@cache
def grid_of(spec: Path, overrides: tuple[str, ...], over: tuple[str, ...]) -> Grid:
    return read_grid(spec, overrides, over)


@cache
def swept(
    spec: Path, overrides: tuple[str, ...], over: tuple[str, ...], latency: LatencyName, against: AgainstName
) -> Sweep:
    return run_sweep(grid_of(spec, overrides, over), latency, against)


CASES = [
    pytest.param(SMOLLM2, (), ("generate.batch=1,2,8", "slice=1x2,2x4"), "tpot", "cost", id="tpot-cost"),
    pytest.param(L70B, (), TWO_SLICES, "ttft", "throughput", id="ttft-throughput"),
    pytest.param(L70B, ("objective=latency",), TWO_SLICES, "ttft", "cost", id="latency"),
    pytest.param(L70B, (), ("slice=2x2,4x4", "generate.batch=4", "model.weights.dtype=bf16,int8"), "tpot",
                 "cost", id="dtypes"),
    pytest.param(L70B, TIGHT, TWO_SLICES, "ttft", "cost", id="limits"),
]  # fmt: skip


def digits(service: Service) -> dict[str, float]:
    return {n: None if v is None else float(f"{v:.{DIGITS}g}") for n, v in dict(service).items()}


@pytest.mark.parametrize(("spec", "overrides", "over", "latency", "against"), CASES)
def test_the_objective_point_of_each_setting_is_its_plan(spec, overrides, over, latency, against):
    found = swept(spec, overrides, over, latency, against)
    own = {tuple(p.values.items()): p for p in found.points if "objective" in p.best_for}
    checked = 0
    for case in grid_of(spec, overrides, over).cases:
        for batch in case.batches:
            point = own.get(tuple(case.values(batch).items()))
            if point is None:
                continue
            plan = make_plan(case.pinned(batch))
            assert point.layout == (
                plan.slice,
                batch,
                plan.mesh.axes,
                plan.prefill.rules,
                plan.prefill.copies,
                plan.generate.rules,
            )
            assert digits(plan.service) == dict(point.service)
            assert plan.hbm == point.hbm
            assert plan.generate.strategy == point.generate_strategy
            checked += 1
    assert checked == found.settings - len(found.infeasible) > 0


@pytest.mark.parametrize(("spec", "overrides", "over", "latency", "against"), CASES)
def test_no_setting_vanishes_and_none_is_told_twice(spec, overrides, over, latency, against):
    found = swept(spec, overrides, over, latency, against)
    asked = {tuple(case.values(b).items()) for case in grid_of(spec, overrides, over).cases for b in case.batches}
    points = {tuple(point.values.items()) for point in found.points}
    refused = [tuple(each.values.items()) for each in found.infeasible]
    assert points | set(refused) == asked
    assert not points & set(refused)
    assert len(refused) == len(set(refused))
    assert found.settings == len(asked)
    for line in sweep_to_csv(found).splitlines()[1:]:
        assert line.startswith(tuple(",".join(str(value) for _, value in setting) for setting in asked))


@pytest.mark.parametrize(("spec", "overrides", "over", "latency", "against"), CASES)
def test_the_frontier_of_a_sweep_is_undominated_and_the_rest_is_not(spec, overrides, over, latency, against):
    found = swept(spec, overrides, over, latency, against)

    def losses(point: Point) -> tuple[float, float]:
        service = point.service
        x = service.ttft_s if latency == "ttft" else service.tpot_s
        return x, -service.tokens_per_s if against == "throughput" else service.chip_seconds_per_million_tokens

    front = [losses(point) for point in found.frontier]
    assert front
    for point in found.points:
        assert any(dominates(other, losses(point)) for other in front) != point.on_frontier


@pytest.mark.parametrize(("spec", "overrides", "over", "latency", "against"), CASES)
def test_points_keep_the_limits_and_infeasible_settings_need_more_than_there_is(
    spec, overrides, over, latency, against
):
    found = swept(spec, overrides, over, latency, against)
    limits = grid_of(spec, overrides, over).spec.limits
    for point in found.points:
        assert point.hbm.free >= 0
        assert limits.ttft_s is None or point.service.ttft_s <= limits.ttft_s
        assert limits.tpot_s is None or point.service.tpot_s <= limits.tpot_s
    for each in found.infeasible:
        assert each.reason
        assert each.conflicts
        assert all(conflict.need > conflict.have for conflict in each.conflicts)


def test_some_case_has_infeasible_settings_and_some_setting_has_several_points():
    assert {c.limit for each in swept(*CASES[4].values).infeasible for c in each.conflicts}
    assert {c.limit for each in swept(*CASES[3].values).infeasible for c in each.conflicts} == {"hbm"}
    found = swept(*CASES[1].values)
    assert len(found.points) > found.settings - len(found.infeasible)


def test_a_sweep_of_one_value_is_the_plan():
    one = ("pins.prefill.prompts=1",)  # more prompts together are points of their own
    plan = make_plan(grid_of(SMOLLM2, one, ()).spec)
    found = run_sweep(read_grid(SMOLLM2, one, [f"slice={plan.slice}", f"generate.batch={plan.generate.batch}"]))
    (point,) = found.points
    assert point.chosen
    assert point.on_frontier
    assert point.generate_rules == plan.generate.rules
    assert dict(point.service) == digits(plan.service)
    assert found.chosen is not None
    assert found.chosen.layout == point.layout


@pytest.mark.parametrize("overrides", [(), ("objective=throughput",), ("objective=latency",)], ids=str)
def test_what_plan_takes_is_marked_once_among_the_points(overrides):
    found = run_sweep(read_grid(SMOLLM2, (*overrides, "hardware.slices=[1x2, 2x4]")), "ttft")
    plan = make_plan(read_grid(SMOLLM2, (*overrides, "hardware.slices=[1x2, 2x4]")).spec)
    (marked,) = [point for point in found.points if point.chosen]
    assert (marked.values["slice"], marked.values["generate.batch"]) == (plan.slice, plan.generate.batch)
    assert marked.generate_rules == plan.generate.rules
    assert "objective" in marked.best_for


def test_what_plan_takes_is_told_where_it_is_not_among_the_points():
    found = run_sweep(read_grid(SMOLLM2, (), ["generate.batch=1"]))
    assert not any(point.chosen for point in found.points)
    assert found.chosen is not None
    assert found.chosen.values["generate.batch"] != 1


def test_processes_change_no_byte():
    over = ("slice=1x2,2x2,2x4", "model.weights.dtype=float32,bf16")
    grid = grid_of(SMOLLM2, (), over)
    told: list[int] = []
    alone = run_sweep(grid, "ttft", "cost", jobs=1)
    both = run_sweep(grid, "ttft", "cost", jobs=2, advance=told.append)
    assert sweep_to_json(alone) == sweep_to_json(both)
    assert sum(told) == grid.settings


def test_what_is_not_supported_is_a_reason_and_an_error_when_nothing_is():
    over = ["model.config=smollm2-135m,qwen3-8b", "generate.batch=1,2"]
    found = run_sweep(read_grid(SMOLLM2, ("serving.strategies=rendered",), over))
    assert len(found.infeasible) == 2
    assert all(each.reason.startswith("unsupported: ") for each in found.infeasible)
    with pytest.raises(Unsupported, match="query and key norms"):
        run_sweep(read_grid(SMOLLM2, ("serving.strategies=rendered",), ["model.config=qwen3-8b"]))


def test_nothing_feasible_exits_3_with_the_reasons(capsys):
    over = ("slice=1x1", "generate.batch=1,2")
    assert sweep_command(L70B, (), over, "tpot", None, None, 1, "text", False) == 3
    out = capsys.readouterr().out
    assert "2 settings: 0 feasible, 2 infeasible" in out
    assert "HBM per chip: at least" in out


def alive(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    listed = subprocess.run(["ps", "-eo", "pid,pgid,stat"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()[1:]]
    return [int(pid) for pid, own, state in rows if int(own) == group and not state.startswith("Z")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopping_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals):
    command = [sys.executable, "-m", "planner", "sweep", str(L70B), "--jobs", "2", "-o", "sweep.html"]
    over = ["--over", "slice=4x8,8x8,8x16,16x16", "--over", "generate.batch=1..4096"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, *over], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(alive(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(alive(process.pid)) >= 3
        if number == signal.SIGINT:  # a terminal interrupts the whole group, here while processes still start
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, told = process.communicate(timeout=60)
        while alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert alive(process.pid) == []
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in told
    if number == signal.SIGINT:
        assert process.returncode == 2
        assert told.strip() == "interrupted"
