"""Rule tables of every kind, for a tiny model on up to 8 devices."""

from dataclasses import replace
from functools import partial
from typing import Any

from planner.plan.schema import CopyRules
from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from tests.render.plans import TINY
from tests.render.plans import Case as AnyCase

XY, FLAT, SPLIT = {"x": 2, "y": 4}, {"x": 8}, {"x": 2, "y0": 2, "y1": 2}
ODD: dict[str, Any] = {**TINY, "q_heads": 9, "kv_heads": 3, "d_ff": 90, "vocab": 250, "tied_embeddings": True}
MQA: dict[str, Any] = {**TINY, "q_heads": 6, "kv_heads": 1}
EIGHT: dict[str, Any] = {**TINY, "q_heads": 12, "kv_heads": 4}
LLAMA3: dict[str, Any] = {
    **TINY,
    "rope": {
        "theta": 10000.0,
        "scaling": {
            "type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_positions": 64,
        },
    },
}
LINEAR: dict[str, Any] = {**TINY, "rope": {"theta": 10000.0, "scaling": {"type": "linear", "factor": 2.0}}}
Case = partial(AnyCase, model=TINY)

CASES = [
    Case("one_device", {"x": 1, "y": 1}, G(), P()),
    Case("no_axes", {}, G(), P()),
    Case(
        "ones_named",
        {"x": 1, "y": 1},
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",)),
        P(tokens=("x",)),
    ),
    Case(
        "megatron",
        FLAT,
        G(q_heads=("x",), kv_heads=("x",), d_ff=("x",), vocab=("x",)),
        P(q_heads=("x",), kv_heads=("x",), d_ff=("x",), vocab=("x",)),
    ),
    Case(
        "heads_by_batch",
        XY,
        G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y")),
        P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "heads_by_batch_kept",
        {"x": 4, "y": 2},
        G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("y", "x")),
        P(tokens=("y",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("y", "x")),
    ),
    Case(
        "two_d",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        P(d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "two_d_sequence_parallel",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
        P(tokens=("y",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
    ),
    Case(
        "two_d_gathered",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    ),
    Case(
        "two_d_all_gathered",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        P(tokens=("x", "y"), vocab=("x", "y")),
    ),
    Case(
        "batch_everywhere",
        XY,
        G(batch=("x", "y"), q_heads=("x", "y"), d_ff=("x", "y"), vocab=("x", "y")),
        P(tokens=("x", "y"), q_heads=("x", "y"), d_ff=("x", "y"), vocab=("x", "y")),
        model=ODD,
    ),
    Case(
        "scattered_and_exchanged",
        XY,
        G(batch=("x", "y"), d_model=("x",), q_heads=("y",), d_ff=("y",), vocab=("x",)),
        P(tokens=("y",), d_model=("x",), d_ff=("y",), vocab=("x",)),
        model=ODD,
    ),
    Case(
        "copied_kv_heads",
        XY,
        G(q_heads=("y", "x"), kv_heads=("y",), d_ff=("x", "y"), vocab=("y",)),
        P(tokens=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("x",), vocab=("y",)),
        model=EIGHT,
    ),
    Case(
        "multi_query",
        SPLIT,
        G(batch=("x", "y1"), d_model=("x",), q_heads=("y0", "y1"), d_ff=("y0", "y1"), vocab=("x", "y0")),
        P(tokens=("y0", "y1"), d_model=("x",), q_heads=("y1",), d_ff=("y0", "y1"), vocab=("x", "y0")),
        model=MQA,
    ),
    Case(
        "pieces",
        SPLIT,
        G(batch=("x", "y1"), d_model=("x",), q_heads=("y0", "y1"), kv_heads=("y0",), d_ff=("y1", "y0"), vocab=("y0",)),
        P(tokens=("y1", "y0"), d_model=("x",), q_heads=("y0",), kv_heads=("y0",), d_ff=("y1",), vocab=("y0",)),
    ),
    Case(
        "pieces_partly_kept",
        SPLIT,
        G(batch=("x", "y0", "y1"), q_heads=("x", "y0", "y1"), d_ff=("x", "y0"), vocab=("y1",)),
        P(tokens=("x", "y1", "y0"), q_heads=("y0",), d_ff=("x",), vocab=("y1",)),
        model=EIGHT,
    ),
    Case(
        "two_d_model_axes",
        SPLIT,
        G(batch=("x",), d_model=("x", "y0"), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y1",)),
        P(tokens=("y0", "y1"), d_model=("x",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y1",)),
        model=LLAMA3,
    ),
    Case(
        "two_d_model_axes_kept",
        SPLIT,
        G(batch=("y0",), d_model=("x", "y0"), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=()),
        P(d_model=("x", "y0"), d_ff=("y1",)),
        model=LINEAR,
    ),
    Case(
        "few_rows",
        XY,
        G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
        P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
        model=ODD,
        smallest_shard=8,
    ),
    Case(
        "spare_axis_for_tokens",
        XY,
        G(q_heads=("y",), kv_heads=("y",)),
        P(tokens=("x", "y"), q_heads=("y",), kv_heads=("y",)),
    ),
]
WIDE: dict[str, Any] = {**TINY, "q_heads": 8, "kv_heads": 2}
ALL: dict[str, Any] = {**TINY, "q_heads": 8, "kv_heads": 8}
ONE_KV: dict[str, Any] = {**TINY, "q_heads": 8, "kv_heads": 1}
GENERATE_CASES = [
    Case("rows_of_data", XY, G(rows=("x", "y")), P()),
    Case(
        "rows_beside_heads",
        XY,
        G(rows=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
        P(q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("y",)),
        model=ALL,
    ),
    Case(
        "rows_in_every_block",
        XY,
        G(rows=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("x", "y"), vocab=("x", "y")),
        P(q_heads=("y",), kv_heads=("y",), d_ff=("x", "y"), vocab=("x", "y")),
        model=ALL,
    ),
    Case(
        "rows_by_all_to_all",
        SPLIT,
        G(rows=("x",), batch=("y1",), q_heads=("y0", "y1"), kv_heads=("y0",), d_ff=("x", "y0"), vocab=("x", "y1")),
        P(q_heads=("y0", "y1"), kv_heads=("y0",), d_ff=("x", "y0"), vocab=("x", "y1")),
        model=WIDE,
    ),
    Case(
        "rows_of_two_d",
        SPLIT,
        G(rows=("y0",), batch=("x",), d_model=("x",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y0", "y1"), vocab=()),
        P(d_model=("x",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y0", "y1")),
        model=WIDE,
    ),
    Case(
        "rows_apart_in_each_block",
        SPLIT,
        G(rows=("x", "y0"), q_heads=("y1",), d_ff=("y0", "y1"), vocab=("x",)),
        P(q_heads=("y1",), d_ff=("y0", "y1"), vocab=("x",)),
        model=ONE_KV,
    ),
    Case(
        "rows_of_three_axes",
        SPLIT,
        G(rows=("x", "y0", "y1"), d_ff=("x", "y1"), vocab=("y0",)),
        P(d_ff=("x", "y1"), vocab=("y0",)),
        model=ODD,
    ),
    Case(
        "rows_summed_whole",
        XY,
        G(rows=("x",), d_model=("y",), batch=("y",), d_ff=("x",), vocab=("x",)),
        P(d_model=("y",), d_ff=("x",), vocab=("x",)),
        smallest_shard=8,
    ),
    Case("tokens_alone", FLAT, G(q_heads=("x",), kv_tokens=("x",)), P(q_heads=("x",)), model=ONE_KV),
    Case(
        "tokens_beside_heads",
        XY,
        G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",), d_ff=("x", "y"), vocab=("y",)),
        P(tokens=("y",), q_heads=("x", "y"), kv_heads=("x",), d_ff=("x", "y"), vocab=("y",)),
        model=WIDE,
    ),
    Case(
        "tokens_of_padded_heads",
        {"x": 2, "y": 2},
        G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",)),
        P(q_heads=("x", "y"), kv_heads=("x",)),
        model={**ODD, "q_heads": 9, "kv_heads": 3},
    ),
    Case(
        "tokens_of_whole_groups",
        XY,
        G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",)),
        P(tokens=("x",), q_heads=("y",)),
        model=ALL,
    ),
    Case(
        "tokens_by_all_to_all",
        SPLIT,
        G(batch=("y0",), q_heads=("x", "y0", "y1"), kv_heads=("x",), kv_tokens=("y1",), d_ff=("y0",), vocab=("x",)),
        P(q_heads=("x", "y0", "y1"), kv_heads=("x",), d_ff=("y0",), vocab=("x",)),
        model=ALL,
    ),
    Case(
        "tokens_by_all_to_all_padded",
        SPLIT,
        G(batch=("x",), q_heads=("x", "y0", "y1"), kv_tokens=("y0", "y1"), d_ff=("y0",), vocab=("x",)),
        P(tokens=("y1",), q_heads=("x", "y0"), d_ff=("y0",), vocab=("x",)),
        model=ODD,
    ),
    Case(
        "tokens_of_copied_heads",
        SPLIT,
        G(q_heads=("x", "y0", "y1"), kv_heads=("x",), kv_tokens=("y1",), d_ff=("y0", "y1"), vocab=("x",)),
        P(q_heads=("x", "y0", "y1"), kv_heads=("x",), d_ff=("y0", "y1"), vocab=("x",)),
        model=WIDE,
    ),
    Case(
        "tokens_of_two_d",
        SPLIT,
        G(
            batch=("x",),
            d_model=("x",),
            q_heads=("y0", "y1"),
            kv_heads=("y0",),
            kv_tokens=("y1",),
            d_ff=("y0", "y1"),
            vocab=("y0",),
        ),
        P(d_model=("x",), q_heads=("y0", "y1"), kv_heads=("y0",), d_ff=("y0", "y1"), vocab=("y0",)),
        model=WIDE,
    ),
    Case(
        "tokens_and_rows",
        SPLIT,
        G(rows=("x",), q_heads=("y0", "y1"), kv_heads=("y0",), kv_tokens=("y1",), d_ff=("x", "y0"), vocab=("y1",)),
        P(q_heads=("y0", "y1"), kv_heads=("y0",), d_ff=("x", "y0"), vocab=("y1",)),
        model=WIDE,
        page_tokens=2,
    ),
    Case(
        "tokens_summed_whole",
        XY,
        G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",)),
        P(q_heads=("x", "y"), kv_heads=("x",)),
        model=WIDE,
        smallest_shard=8,
    ),
]
GENERATE_CASES = [replace(case, page_tokens=min(case.page_tokens, 4)) for case in GENERATE_CASES]
"""The residual stream cut by sequences, the cache by tokens; in pages so small that every chip has some of each."""
INT8 = [
    replace(case, name=f"{case.name}_int8", weights="int8")
    for case in CASES
    if case.name in ("two_d_all_gathered", "batch_everywhere", "pieces")
]


def _read(name: str, kind: str, prompts: int = 1, chunk: int | None = None, **changes: Any) -> AnyCase:
    """A case of another name that reads so many prompts together, a chunk of each at a time."""
    found = next(case for case in CASES if case.name == name)
    return replace(found, name=f"{name}_{kind}", prompts=prompts, chunk=chunk, **changes)


def _copied(
    name: str, mesh: dict[str, int], generate: G, prefill: P, model: dict[str, Any] = TINY, **copies: CopyRules
) -> AnyCase:
    """A case whose prefill reads second copies of weights."""
    return Case(f"copied_{name}", mesh, generate, prefill, model=model, copies=copies)


READS = [
    _read("one_device", "two_prompts", 2),
    _read("spare_axis_for_tokens", "prompts_apart", 8),
    _read("spare_axis_for_tokens", "parts_of_prompts", 2),
    _read("spare_axis_for_tokens", "parts_of_two_prompts", 3),
    _read("two_d_all_gathered", "prompts_and_parts", 4, weights="int8"),
    _read("two_d", "prompts_over_d_model", 4),
    _read("two_d_sequence_parallel", "prompts_over_d_model", 2),
    _read("batch_everywhere", "prompts_kept", 2),
    _read("copied_kv_heads", "prompts_apart", 2),
    _read("pieces_partly_kept", "picks_of_prompts", 4),
    _read("one_device", "chunks", chunk=16),
    _read("heads_by_batch", "chunks", chunk=16, model={**TINY, "q_heads": 8, "kv_heads": 2}),
    _read("two_d", "chunks", chunk=16, model={**TINY, "q_heads": 8, "kv_heads": 8}),
    _read("multi_query", "chunks", chunk=8, model={**TINY, "q_heads": 8, "kv_heads": 1}),
    _read("scattered_and_exchanged", "chunks_of_prompts", 4, 16),
    _read("pieces_partly_kept", "chunks_of_prompts", 2, 24),
    _read("two_d_gathered", "chunks_of_prompts_apart", 2, 8, weights="int8"),
]
"""Cases that read several prompts together, or in chunks; the last chunk of a bucket may be padded."""
INT8_CACHES = [
    replace(case, name=f"{case.name}_int8_cache", kv_cache="int8")
    for case in (*CASES, *GENERATE_CASES)
    if case.name in ("one_device", "two_d", "batch_everywhere", "pieces_partly_kept", "rows_by_all_to_all")
    or case.name in ("tokens_by_all_to_all_padded", "tokens_of_two_d", "tokens_and_rows")
]
"""Caches of int8 values with a scale for each token and head, cut in every way."""
_ONE_D = G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y"))
_HALVED = P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y"))
COPIED = [
    _copied("mlp", XY, _ONE_D, _HALVED, mlp=CopyRules(d_ff=("y",))),
    _copied(
        "both",
        XY,
        _ONE_D,
        _HALVED,
        mlp=CopyRules(d_ff=("y",)),
        attention=CopyRules(q_heads=("y",), kv_heads=("y",)),
    ),
    _copied(
        "gathered_over_d_model",
        XY,
        _ONE_D,
        P(tokens=("x", "y"), vocab=("x", "y")),
        ODD,
        attention=CopyRules(d_model=("x",)),
        mlp=CopyRules(d_model=("y",), d_ff=("x",)),
    ),
    _copied(
        "heads_of_some_parts",
        SPLIT,
        G(q_heads=("y0", "y1", "x"), kv_heads=("y0", "y1"), d_ff=("x",), vocab=("y0",)),
        P(tokens=("x", "y0"), q_heads=("y1",), kv_heads=("y1",), vocab=("y0",)),
        EIGHT,
        attention=CopyRules(q_heads=("y1",), kv_heads=("y1",)),
    ),
    _copied(
        "heads_gathered",
        SPLIT,
        G(d_model=("x",), q_heads=("y0", "y1"), kv_heads=("y0", "y1"), d_ff=("y0", "y1"), vocab=("y0",)),
        P(tokens=("y0",), d_model=("x",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y0",)),
        EIGHT,
        attention=CopyRules(d_model=("x", "y0"), q_heads=("y1",), kv_heads=("y1",)),
        mlp=CopyRules(d_model=("x",), d_ff=("y1",)),
    ),
    _copied(
        "padded_heads_whole",
        XY,
        G(q_heads=("y", "x"), kv_heads=("y",), d_ff=("x", "y")),
        P(tokens=("x", "y")),
        ODD,
        attention=CopyRules(),
        mlp=CopyRules(d_ff=("x",)),
    ),
    _copied(
        "padded_further",
        SPLIT,
        G(q_heads=("x",), kv_heads=("x",), d_ff=("x", "y0")),
        P(tokens=("y1",), q_heads=("x",), kv_heads=("x",), d_ff=("x",)),
        {**ODD, "q_heads": 15, "kv_heads": 5},
        attention=CopyRules(q_heads=("x", "y1"), kv_heads=("x", "y1")),
    ),
]
"""Cases that read second copies: of every block, cut over fewer axes or over others, of heads that pad differently."""


_MADE = G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y"))
POOLS = [
    Case(
        "apart",
        XY,
        _MADE,
        P(tokens=("y",), q_heads=("x",), kv_heads=("x",), d_ff=("x",), vocab=("x",)),
        pool={"x": 2, "y": 2},
        stored=G(q_heads=("x",), kv_heads=("x",), d_ff=("x", "y"), vocab=("x",)),
    ),
    Case(
        "apart_padded",
        XY,
        _MADE,
        P(tokens=("x",), d_model=("y",), vocab=()),
        model=ODD,
        pool={"x": 2, "y": 2},
        stored=G(d_model=("y",), q_heads=("x",), kv_heads=("x",), d_ff=("x",)),
        prompts=2,
    ),
    Case(
        "apart_in_stages",
        XY,
        _MADE,
        P(tokens=("y0",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y0",)),
        pool=SPLIT,
        stored=G(q_heads=("y0", "y1"), kv_heads=("y0", "y1"), d_ff=("y1",), vocab=("y0",)),
        stages="x",
    ),
    Case(
        "apart_prompts_in_stages",
        XY,
        _MADE,
        P(tokens=("y0",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y0",)),
        pool=SPLIT,
        stored=G(q_heads=("y0", "y1"), kv_heads=("y0", "y1"), d_ff=("y1",), vocab=("y0",)),
        stages="x",
        prompts=4,
    ),
    Case(
        "apart_in_four_stages",
        XY,
        _MADE,
        P(d_model=("x",), vocab=("x",)),
        model={**EIGHT, "layers": 4},
        pool=XY,
        stored=G(d_model=("x",), vocab=("x",)),
        stages="y",
        prompts=2,
    ),
]
"""Cases whose prefill has a slice of its own, some with pipeline stages."""
