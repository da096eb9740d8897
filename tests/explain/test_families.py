"""Plans of mixtures are explained, drawn and compared as those of dense models are."""

import pytest

from planner.explain import Subject, addresses, explain
from planner.explain.parts import part_flops
from planner.explain.shapes import matmuls
from planner.plan.schema import Plan
from planner.problem.graph import parts_in_order, step_graph
from planner.report import report_html
from tests.plans_of import example_plan
from tests.report.test_page import Reader

COMMON = ("serving.strategies=all", "workload.concurrency=32")
PLANS = {
    "mixtral": ("model.config=mixtral-8x7b",),
    "mixtral, d_model cut": (
        "model.config=mixtral-8x7b",
        "pins.generate.d_model=y",
        "pins.generate.experts=x",
        "hardware.slice=2x4",
        "model.weights.dtype=int8",
    ),
    "deepseek": ("model.config=deepseek-v3", "hardware.chip=v5p", "hardware.slice=4x4x4"),
    "deepseek, weights gathered": (
        "model.config=deepseek-v3",
        "hardware.chip=v5p",
        "hardware.slice=4x4x4",
        "pins.prefill.attention=weight_gathered",
    ),
    "gemma": ("model.config=gemma-2-9b",),
}


@pytest.fixture(params=PLANS.values(), ids=PLANS.keys())
def plan(request: pytest.FixtureRequest) -> Plan:
    return example_plan("llama_3_1_70b_v5e_4x4", *COMMON, *request.param)


def test_the_matmuls_of_a_part_make_up_its_operations(plan: Plan) -> None:
    subject = Subject.of(plan)
    weighed = [part for part in plan.prefill.parts + plan.generate.parts if matmuls(subject, part.address)]
    for part in weighed:
        flops = sum(each.flops for each in matmuls(subject, part.address))
        assert flops == pytest.approx(part_flops(subject, part), rel=1e-4), part.address
    assert len(weighed) == 2 * (2 * (len(subject.machine.sizes.blocks) - 1) + 1)


def test_every_address_has_an_explanation(plan: Plan) -> None:
    for address in addresses(plan):
        assert all(each.sentences for each in explain(plan, address))


@pytest.mark.parametrize("phase", ["prefill", "generate"])
def test_every_collective_stands_on_one_edge_of_a_chain_of_parts(plan: Plan, phase: str) -> None:
    sizes = Subject.of(plan).machine.sizes
    planned = {each.address for each in getattr(plan, phase).collectives}
    graph = step_graph(phase, planned, sizes.blocks, [each.name for each in sizes.matrices])
    carried = [address for _, _, listed in graph.edges.data("collectives") for address in listed]
    assert sorted(carried) == sorted(planned)
    parts = [name.partition(".")[2] for name in parts_in_order(graph)]
    assert parts[0] == "embedding"
    if "prefill.insert.kv_prompt" in planned:
        assert parts.pop() == "insert"
    assert parts[-1] == "sampling"
    assert list(dict.fromkeys(part.partition(".")[0] for part in parts[1:-2])) == list(sizes.blocks[:-1])


def test_the_page_shows_every_part_and_rule(plan: Plan) -> None:
    text = " ".join(Reader(report_html(plan)).texts)
    for phase in (plan.prefill, plan.generate):
        assert all(part.address in text for part in phase.parts)
        assert all(strategy in text for _, strategy in phase.strategy)


def test_experts_are_told_only_of_models_that_have_some() -> None:
    dense = example_plan("llama_3_1_70b_v5e_4x4", *COMMON, "model.config=gemma-2-9b")
    assert "experts" not in dict(dense.generate.rules)
    assert "expert" not in report_html(dense)
    mixture = example_plan("llama_3_1_70b_v5e_4x4", *COMMON, "model.config=mixtral-8x7b")
    assert {"experts", "expert_ff"} & set(dict(mixture.generate.rules))
