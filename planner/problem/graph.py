"""The graph of one step: what is computed, in which order, what flows between, and which collectives that takes.

Nodes are plan addresses: the parts of a step (`generate.mlp.hidden`) and the weights they read (`generate.mlp.w_in`).
Node attributes: `kind`, "part" or "weights". Edge attributes: `carries`, what flows, and `collectives`, the addresses
of the planned collectives that bring it where it is needed. Layers repeat from attention.qkv to mlp.out.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import networkx as nx

StepGraph: TypeAlias = "nx.DiGraph[str]"

FLOWS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("embedding", "attention.qkv", "residual stream", ("embedding.lookup", "attention.norm", "attention.tokens")),
    (
        "attention.qkv",
        "attention.kv_cache",
        "queries, keys, values",
        (
            "attention.q",
            "attention.kv",
            "attention.qkv",
            "attention.q_to_batch",
            "attention.q_to_tokens",
            "attention.kv_tokens",
        ),
    ),
    (
        "attention.kv_cache",
        "attention.out",
        "attention output",
        (
            "attention.softmax",
            "attention.o_from_tokens",
            "attention.o_to_heads",
            "attention.o_rows",
            "attention.o_tokens",
        ),
    ),
    ("attention.out", "mlp.hidden", "residual stream", ("attention.out", "mlp.norm", "mlp.tokens", "mlp.rows")),
    ("mlp.hidden", "mlp.out", "hidden columns", ("mlp.hidden", "mlp.hidden_rows")),
    (
        "mlp.out",
        "logits",
        "residual stream",
        ("mlp.out", "logits.last", "logits.norm", "logits.residual", "logits.rows"),
    ),
    ("logits", "sampling", "best candidates", ("sampling.candidates", "sampling.tokens")),
)
WEIGHTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("attention.w_q", "attention.qkv", ("attention.gather_w_q", "attention.gather_w_q_scale")),
    ("attention.w_kv", "attention.qkv", ("attention.gather_w_kv", "attention.gather_w_kv_scale")),
    ("attention.w_o", "attention.out", ("attention.gather_w_o", "attention.gather_w_o_scale")),
    ("mlp.w_in", "mlp.hidden", ("mlp.gather_w_in", "mlp.gather_w_in_scale")),
    ("mlp.w_down", "mlp.out", ("mlp.gather_w_down", "mlp.gather_w_down_scale")),
)


def step_graph(phase: str, planned: Iterable[str]) -> StepGraph:
    """The graph of one step of `phase`, given the addresses of its planned collectives."""
    addresses = set(planned)
    graph: StepGraph = nx.DiGraph()

    def here(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{phase}.{name}" for name in names if f"{phase}.{name}" in addresses)

    for source, target, carries, names in FLOWS:
        graph.add_node(f"{phase}.{source}", kind="part")
        graph.add_node(f"{phase}.{target}", kind="part")
        graph.add_edge(f"{phase}.{source}", f"{phase}.{target}", carries=carries, collectives=here(names))
    for source, target, names in WEIGHTS:
        graph.add_node(f"{phase}.{source}", kind="weights")
        graph.add_edge(f"{phase}.{source}", f"{phase}.{target}", carries="weights", collectives=here(names))
    return graph


def parts_in_order(graph: StepGraph) -> list[str]:
    """The parts of a step in the order in which they run."""
    return [node for node in nx.topological_sort(graph) if graph.nodes[node]["kind"] == "part"]
