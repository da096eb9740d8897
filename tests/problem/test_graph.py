"""The graph of a step has every part in order, and every planned collective on exactly one edge."""

import networkx as nx
import pytest

from planner.plan.schema import Plan
from planner.problem.costs import PART_OF
from planner.problem.graph import BETWEEN_STAGES, INTO, OUT_OF, TO_INSERT, WEIGHTS, WITHIN, parts_in_order, step_graph
from tests.plans_of import example_plan

PARTS = [
    "embedding",
    "attention.qkv",
    "attention.kv_cache",
    "attention.out",
    "mlp.hidden",
    "mlp.out",
    "logits",
    "sampling",
]


@pytest.fixture(params=[(), ("pins.generate.mlp=2d", "pins.prefill.mlp=weight_gathered")], ids=["1d", "2d gathered"])
def plan(request: pytest.FixtureRequest) -> Plan:
    return example_plan("llama_3_1_70b_v5e_4x4", *request.param)


@pytest.mark.parametrize("phase", ["prefill", "generate"])
def test_parts_follow_each_other_and_collectives_stand_on_one_edge_each(plan: Plan, phase: str) -> None:
    planned = [each.address for each in getattr(plan, phase).collectives]
    graph = step_graph(phase, planned)
    assert nx.is_directed_acyclic_graph(graph)
    inserts = f"{phase}.insert.kv_prompt" in planned
    assert parts_in_order(graph) == [f"{phase}.{part}" for part in PARTS + ["insert"] * inserts]
    carried = [address for _, _, listed in graph.edges.data("collectives") for address in listed]
    assert sorted(carried) == sorted(set(planned))


def test_every_collective_that_is_priced_has_an_edge() -> None:
    flows = [flow for within in WITHIN.values() for flow in within]
    on_edges = {
        name
        for *_, names in (*flows, *INTO.values(), *OUT_OF.values(), *WEIGHTS, BETWEEN_STAGES, TO_INSERT)
        for name in names
    }
    assert on_edges == set(PART_OF)


def test_insertion_comes_last_where_it_takes_collectives() -> None:
    assert parts_in_order(step_graph("prefill", ["prefill.insert.kv_prompt"])) == [
        *(f"prefill.{part}" for part in PARTS),
        "prefill.insert",
    ]


def test_nodes_are_plan_addresses() -> None:
    graph = step_graph("generate", [])
    kinds = dict(graph.nodes.data("kind"))
    assert kinds["generate.mlp.hidden"] == "part"
    assert kinds["generate.mlp.w_in"] == "weights"
    assert graph["generate.mlp.hidden"]["generate.mlp.out"]["carries"] == "hidden columns"
