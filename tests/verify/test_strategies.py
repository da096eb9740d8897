"""A prefill and a generate step of every strategy, compiled for TPU: what the plan says, and no more."""

import pytest

from benchmarks.audits import cases
from planner.plan.schema import Plan
from planner.problem.planned import INSERTION
from planner.verify import Audit, verify_plan


@pytest.fixture(scope="module", params=cases("small"), ids=lambda case: case.name)
def audited(request: pytest.FixtureRequest) -> tuple[Plan, Audit]:
    plan = request.param.plan()
    return plan, verify_plan(plan, buckets=[plan.prefill.tokens])


def test_nothing_differs_from_the_plan(audited: tuple[Plan, Audit]):
    plan, audit = audited
    assert audit.differences == ()
    assert audit.target == "tpu"
    hands_over = plan.pool is not None and plan.prefill.prompts > 1
    reading = ("prefill", "hand-over", "insert") if hands_over else ("prefill", "insert")
    assert [step.step.name for step in audit.steps] == [
        *(f"{name} {plan.prefill.tokens}" for name in reading),
        "generate",
    ]


def test_a_prompt_is_brought_to_where_it_is_inserted_by_one_program(audited: tuple[Plan, Audit]):
    plan, audit = audited
    planned = {each.address for each in plan.prefill.collectives if each.address.startswith(INSERTION)}
    brings = "hand_over" if plan.pool else "insert"
    found = {row.address for step in audit.steps if step.step.phase == brings for row in step.rows}
    assert found == planned


def test_generate_moves_little_more_than_weights_and_kv_once(audited: tuple[Plan, Audit]):
    _, audit = audited
    traffic = {step.step.phase: step.traffic for step in audit.steps}
    assert traffic["prefill"]
    assert traffic["insert"] is None
    assert traffic["generate"]
    assert 1 <= traffic["generate"].over_least < 1.1
