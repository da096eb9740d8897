"""A prefill and a generate step of every strategy, compiled for TPU: what the plan says, and no more."""

import pytest

from benchmarks.audits import cases
from planner.plan.schema import Plan
from planner.verify import Audit, verify_plan


@pytest.fixture(scope="module", params=cases("small"), ids=lambda case: case.name)
def audited(request: pytest.FixtureRequest) -> tuple[Plan, Audit]:
    plan = request.param.plan()
    return plan, verify_plan(plan, buckets=[plan.prefill.tokens])


def test_nothing_differs_from_the_plan(audited: tuple[Plan, Audit]):
    plan, audit = audited
    assert audit.differences == ()
    assert audit.target == "tpu"
    assert [step.step.name for step in audit.steps] == [
        f"prefill {plan.prefill.tokens}",
        f"insert {plan.prefill.tokens}",
        "generate",
    ]


def test_generate_moves_little_more_than_weights_and_kv_once(audited: tuple[Plan, Audit]):
    _, audit = audited
    prefill, insert, generate = (step.traffic for step in audit.steps)
    assert prefill
    assert insert is None
    assert generate
    assert 1 <= generate.over_least < 1.1
