"""Fleets that are planned for a request rate behave as their plans say when they are played out."""

import pytest

from planner.simulate import Simulated, simulate
from tests.plans_of import example_plan

LENGTHS = {
    "narrow": (),
    "equal": ("workload.prompt_tokens={mean: 1024, p95: 1024}", "workload.output_tokens={mean: 256, p95: 256}"),
    "wide": ("workload.prompt_tokens={mean: 1000, p95: 2500}", "workload.output_tokens={mean: 256, p95: 600}"),
}
SETTINGS = [
    ("narrow", "interleaved", 5, 1),
    ("narrow", "disaggregated", 12, 1),
    ("equal", "interleaved", 12, 1),
    ("wide", "interleaved", 5, 1),
    ("wide", "disaggregated", 5, 1),
    ("narrow", "interleaved", 5, 4),
    ("narrow", "disaggregated", 20, 4),
]


def replayed(lengths: str, mode: str, rate: int, prompts: int) -> Simulated:
    """Requests at a rate, on the fleet that is planned for it."""
    asked = f"serving={{mode: {mode}}}", f"workload.requests_per_s={rate}", "workload.concurrency=128"
    plan = example_plan("llama_3_1_70b_v5e_4x4", *LENGTHS[lengths], *asked, f"pins={{prefill.prompts: {prompts}}}")
    return simulate(plan, 2500, 0)


@pytest.mark.parametrize(("lengths", "mode", "rate", "prompts"), SETTINGS)
def test_planned_fleets_keep_what_is_promised(lengths: str, mode: str, rate: int, prompts: int) -> None:
    found = replayed(lengths, mode, rate, prompts)
    fleet = found.fleet
    assert fleet is not None
    assert fleet.planned_ttft_p95_s is not None
    assert fleet.planned_tpot_p95_s is not None
    assert fleet.prefill_utilization == pytest.approx(fleet.planned_prefill_utilization, rel=0.1)
    assert fleet.slot_utilization == pytest.approx(fleet.planned_slot_utilization, rel=0.2)
    most = 1.3 if prompts == 1 else 2.2
    pairs = [
        (found.planned_ttft_s, found.ttft_s.mean),
        (found.planned_tpot_s, found.tpot_s.mean),
        (fleet.planned_ttft_p95_s, found.ttft_s.p95),
        (fleet.planned_tpot_p95_s, found.tpot_s.p95),
    ]
    assert [0.85 <= planned / played <= most for planned, played in pairs] == [True] * 4
