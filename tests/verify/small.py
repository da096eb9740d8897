"""A small llama on eight v5e chips, whose programs compile for TPU within seconds."""

from collections.abc import Sequence

from benchmarks.audits import Case
from planner.plan.schema import Plan

PLAIN = (
    "pins={generate.mesh: [x=2, y=4], generate.rows: none, generate.q_heads: [x, y], generate.kv_heads: [x, y], "
    "generate.d_ff: [x, y], generate.vocab: [x, y], prefill.copies: none, prefill.prompts: 1, prefill.chunk: none, "
    "prefill.tokens: none, prefill.q_heads: [x, y], prefill.d_ff: [x, y]}"
)
"""No prompts together, no chunks and no second copies; every table cuts heads, d_ff and vocabulary over all chips."""


def small_plan(overrides: Sequence[str] = ()) -> Plan:
    """The plan of the small model, with parts of its spec set otherwise."""
    return Case("small", "small.yaml", tuple(overrides)).plan()
