"""Sweeps over modes and request rates: one proved fleet for each setting."""

from pathlib import Path

from planner.plan.make import make_plan
from planner.spec import load_spec
from planner.sweep.grid import read_grid
from planner.sweep.reasons import reason_lines
from planner.sweep.run import run_sweep
from planner.sweep.schema import Sweep
from tests.plans_of import SPECS

SPEC = SPECS / "llama_3_1_70b_v5e_4x4.yaml"
RATE = (
    "serving.strategies=all",
    "hardware={chip: v5e, slices: [2x4, 4x4]}",
    "workload.requests_per_s=10",
    "limits.ttft=1 s",
)


def sweep(*over: str, overrides: tuple[str, ...] = RATE) -> Sweep:
    return run_sweep(read_grid(Path(SPEC), overrides, over))


def test_every_setting_is_the_fleet_that_plan_takes():
    found = sweep("serving.mode=interleaved,disaggregated", "generate.batch=64", "slice=4x4")
    assert len(found.points) == 2
    for point in found.points:
        pinned = ("pins={slice: 4x4, generate.batch: 64}", f"serving.mode={point.values['serving.mode']}")
        plan = make_plan(load_spec(SPEC, [*RATE, *pinned]))
        assert point.fleet is not None
        assert plan.fleet is not None
        assert (point.chips, point.fleet.slices) == (plan.chips, plan.fleet.slices)


def test_more_chips_buy_latency_along_the_frontier():
    found = sweep("serving.mode=auto", "generate.batch=32..256")
    frontier = sorted(found.frontier, key=lambda point: point.service.tpot_s)
    costs = [point.service.chip_seconds_per_million_tokens for point in frontier]
    assert len(costs) > 2
    assert costs == sorted(costs, reverse=True)


def test_settings_whose_fleet_is_too_large_say_so():
    found = sweep("generate.batch=8", overrides=(*RATE, "hardware.fleet_chips=16"))
    assert [each.conflicts[0].limit for each in found.infeasible] == ["fleet_chips", "fleet_chips"]
    assert "hardware.fleet_chips: at least" in "".join(reason_lines(found, everything=False))
