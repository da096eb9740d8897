"""The graph of one step: what is computed, in which order, what flows between, and which collectives that takes.

Nodes are plan addresses: the parts of a step (`generate.mlp.hidden`) and the weights they read (`generate.mlp.w_in`).
Node attributes: `kind`, "part" or "weights". Edge attributes: `carries`, what flows, and `collectives`, the addresses
of the planned collectives that bring it where it is needed. Layers repeat all blocks but the
last, the vocabulary; a mixture runs its dense MLPs, those of its first layers and its shared experts, before the rest.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeAlias

import networkx as nx

StepGraph: TypeAlias = "nx.DiGraph[str]"

Flow = tuple[str, str, str, tuple[str, ...]]

WITHIN: Mapping[str, tuple[Flow, ...]] = {
    "attention": (
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
    ),
    "mlp": (("mlp.hidden", "mlp.out", "hidden columns", ("mlp.hidden", "mlp.hidden_rows")),),
    "experts": (("experts.hidden", "experts.out", "hidden columns", ("experts.hidden", "experts.hidden_rows")),),
    "vocab": (("logits", "sampling", "best candidates", ("sampling.candidates", "sampling.tokens")),),
}
"""The flows inside each block."""
INTO: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "attention": ("attention.qkv", ("attention.norm", "attention.tokens")),
    "mlp": ("mlp.hidden", ("mlp.norm", "mlp.tokens", "mlp.rows")),
    "experts": (
        "experts.hidden",
        ("experts.norm", "experts.tokens", "experts.rows", "experts.router", "experts.dispatch"),
    ),
    "vocab": ("logits", ("logits.last", "logits.norm", "logits.residual", "logits.rows")),
}
"""The part that reads the residual stream in each block, and what brings it there."""
OUT_OF: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vocab": ("embedding", ("embedding.lookup",)),
    "attention": ("attention.out", ("attention.out",)),
    "mlp": ("mlp.out", ("mlp.out",)),
    "experts": ("experts.out", ("experts.combine", "experts.out")),
}
"""The part that adds to the residual stream in each block, and what brings it back."""
WEIGHTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("attention.w_latent", "attention.qkv", ("attention.gather_w_latent", "attention.gather_w_latent_scale")),
    ("attention.w_q", "attention.qkv", ("attention.gather_w_q", "attention.gather_w_q_scale")),
    ("attention.w_kv", "attention.qkv", ("attention.gather_w_kv", "attention.gather_w_kv_scale")),
    ("attention.w_o", "attention.out", ("attention.gather_w_o", "attention.gather_w_o_scale")),
    ("mlp.w_in", "mlp.hidden", ("mlp.gather_w_in", "mlp.gather_w_in_scale")),
    ("mlp.w_down", "mlp.out", ("mlp.gather_w_down", "mlp.gather_w_down_scale")),
    ("experts.w_router", "experts.hidden", ("experts.gather_w_router",)),
    ("experts.w_in", "experts.hidden", ("experts.gather_w_in", "experts.gather_w_in_scale")),
    ("experts.w_down", "experts.out", ("experts.gather_w_down", "experts.gather_w_down_scale")),
)
WEIGHTS_OF_HEADS = ("w_q", "w_kv", "w_o")
DENSE = ("attention", "mlp", "vocab")


def flows(blocks: Sequence[str]) -> list[Flow]:
    """What flows in a step of these blocks, the vocabulary last: its embedding comes first, its logits at the end."""
    found = []
    for before, after in zip((blocks[-1], *blocks), blocks, strict=False):
        (source, leaving), (target, arriving) = OUT_OF[before], INTO[after]
        found += [(source, target, "residual stream", leaving + arriving), *WITHIN[after]]
    return found


BETWEEN_STAGES = ("pipeline", ("pipeline.rows",))
"""The part that hands the residual stream from one pipeline stage to the next, where there are any."""


TO_INSERT = ("insert", ("insert.kv_prompt",))
"""The part that brings prompts that were read to where they are inserted, where that takes collectives."""


def step_graph(
    phase: str, planned: Iterable[str], blocks: Sequence[str] = DENSE, weights: Container[str] = WEIGHTS_OF_HEADS
) -> StepGraph:
    """The graph of one step of `phase`, given the addresses of its planned collectives, the model's blocks and the
    weights of its attention."""
    addresses = set(planned)
    graph: StepGraph = nx.DiGraph()

    def here(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{phase}.{name}" for name in names if f"{phase}.{name}" in addresses)

    for source, target, carries, names in flows(blocks):
        graph.add_node(f"{phase}.{source}", kind="part")
        graph.add_node(f"{phase}.{target}", kind="part")
        graph.add_edge(f"{phase}.{source}", f"{phase}.{target}", carries=carries, collectives=here(names))
    if here(BETWEEN_STAGES[1]):
        last = f"{phase}.{OUT_OF[blocks[-2]][0]}"
        graph.add_node(f"{phase}.{BETWEEN_STAGES[0]}", kind="part")
        graph.add_edge(
            last, f"{phase}.{BETWEEN_STAGES[0]}", carries="residual stream", collectives=here(BETWEEN_STAGES[1])
        )
        graph.add_edge(f"{phase}.{BETWEEN_STAGES[0]}", f"{phase}.logits", carries="residual stream", collectives=())
    if here(TO_INSERT[1]):
        graph.add_node(f"{phase}.{TO_INSERT[0]}", kind="part")
        graph.add_edge(
            f"{phase}.sampling", f"{phase}.{TO_INSERT[0]}", carries="keys, values", collectives=here(TO_INSERT[1])
        )
    for source, target, names in WEIGHTS:
        block, _, name = source.partition(".")
        if block in blocks and (block != "attention" or name in weights):
            graph.add_node(f"{phase}.{source}", kind="weights")
            graph.add_edge(f"{phase}.{source}", f"{phase}.{target}", carries="weights", collectives=here(names))
    return graph


def parts_in_order(graph: StepGraph) -> list[str]:
    """The parts of a step in the order in which they run."""
    return [node for node in nx.topological_sort(graph) if graph.nodes[node]["kind"] == "part"]
