"""The packages of the two llama examples, compiled by the TPU compiler; no TPU is needed."""

import pytest

from planner.plan.make import make_plan
from planner.spec import load_spec
from planner.verify import Audit, verify_plan
from planner.verify.build import Step, compiled, devices_for, imported_package
from tests.verify.test_audit import EXAMPLES

# The larger one is among the plans that `make audit` compiles.
EXAMPLES_OF_LLAMA = ["llama_3_1_8b_v5e_2x4", pytest.param("llama_3_1_70b_v5e_4x4", marks=pytest.mark.exhaustive)]


@pytest.fixture(scope="module", params=EXAMPLES_OF_LLAMA)
def audit(request: pytest.FixtureRequest) -> Audit:
    return verify_plan(plan := make_plan(load_spec(EXAMPLES / f"{request.param}.yaml")), buckets=[plan.prefill.tokens])


def test_every_phase_compiles(audit: Audit):
    assert (audit.target, [step.failure for step in audit.steps]) == ("tpu", [None, None, None])


def test_the_collectives_are_the_planned_ones(audit: Audit):
    rows = [row for step in audit.steps for row in step.rows]
    assert rows
    assert {row.status for row in rows} == {"matched"}


def test_the_memory_is_within_the_budget(audit: Audit):
    assert all(line.ok for step in audit.steps for line in step.memory)
    assert [line.verdict for line in audit.total] == ["within", "within"]


def test_steps_move_little_more_than_weights_and_kv(audit: Audit):
    generate = audit.steps[-1].traffic
    assert generate is not None
    assert 1 <= generate.over_least < 1.01


def test_nothing_differs_from_the_plan(audit: Audit):
    assert audit.differences == ()


def test_a_cache_that_does_not_fit_is_a_finding():
    plan = make_plan(load_spec(EXAMPLES / "llama_3_1_8b_v5e_2x4.yaml"))
    generate = plan.generate.model_copy(update={"context": 20 * plan.generate.context})
    with imported_package(plan.model_copy(update={"generate": generate})) as package:
        mesh = package.make_mesh(devices_for(plan, "tpu"))
        program = compiled(Step("insert", 1024), lambda: package.lower_insert(package.MODEL, mesh, plan.prefill.tokens))
    assert program.failure is not None
    assert program.failure.startswith("RESOURCE_EXHAUSTED: Ran out of memory on HBM")
