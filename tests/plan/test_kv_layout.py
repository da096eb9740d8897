"""The layout of the KV cache: which kernel reads it, what it is padded to, and that its blocks fit the chip."""

from math import prod
from typing import Any

import pytest

from cost_models.chips import chips
from planner.plan.kv_layout import core_vmem_bytes, kv_layout, kv_layout_of, kv_layout_text
from planner.plan.records import KvLayout
from planner.plan.schema import Generate, GenerateRules, Strategy
from planner.problem.hbm import kv_cache_bytes
from planner.problem.rules import GenerateRules as GenerateTable
from planner.problem.rules import Ways
from planner.problem.sizes import sizes_of
from planner.spec import Spec, spec_from_data, spec_to_data
from tests.plans_of import example_plan

TPUS = [each.name for each in chips() if each.kind == "tpu"]
WAYS = Ways({"x": 2, "y": 4})


def resized(kv_dtype: str, activations: str, chip_name: str, **sizes: int) -> Spec:
    """A llama of other sizes and dtypes."""
    data = spec_to_data(spec_from_data(dict(example_plan("llama_3_1_70b_v5e_4x4").spec)))
    model, page_tokens = data["model"], sizes.pop("page_tokens", 128)
    model |= sizes
    model["kv_cache"] = {"dtype": kv_dtype, "page_tokens": page_tokens}
    model["activations"] = {"dtype": activations}
    data["hardware"] = {"chip": chip_name, "slices": ["2x2x1" if chip_name in ("v4", "v5p", "7x") else "2x2"]}
    return spec_from_data(data)


def layout_of(rules: dict[str, Any], spec: Spec, batch: int = 32, context: int = 4096) -> KvLayout:
    """The layout under these rules on a mesh of x=2, y=4."""
    generate = Generate(
        rules=GenerateRules(**rules),
        strategy=Strategy(attention="?", kv_cache="?", mlp="?", vocab="?"),
        batch=batch,
        context=context,
        page_tokens=spec.model.kv_cache.page_tokens,
        step_s=0.0,
        binds="hbm",
        parts=(),
        collectives=(),
    )
    found = kv_layout(generate, spec.model, spec.model.kv_cache.chosen, spec.hardware.chip, WAYS)
    assert found is not None
    return found


HEADS = {"q_heads": ("y",), "kv_heads": ("y",)}
TOKENS = {"q_heads": ("y", "x"), "kv_heads": ("y",), "kv_tokens": ("x",)}


@pytest.mark.parametrize(
    ("rules", "kv_dtype", "activations", "sizes", "kernel", "stored"),
    [
        (HEADS, "bf16", "bf16", {}, "ragged_paged_attention", (4, 128)),
        (HEADS, "int8", "bf16", {}, "paged_decode", (512,)),
        (TOKENS, "bf16", "bf16", {}, "paged_decode", (512,)),
        (HEADS, "bf16", "bf16", {"head_dim": 64}, None, (4, 128)),
        (HEADS, "int8", "bf16", {"head_dim": 80}, "paged_decode", (384,)),
        (HEADS, "bf16", "bf16", {"kv_heads": 12, "q_heads": 24}, None, (8, 128)),
        (TOKENS, "bf16", "bf16", {"kv_heads": 12, "q_heads": 24}, "paged_decode", (768,)),
        (HEADS, "float32", "float32", {}, None, (4, 128)),
        (HEADS, "int8", "float32", {}, None, (4, 128)),
    ],
)
def test_the_kernel_is_one_that_is_legal_for_the_sizes(
    rules: dict[str, Any], kv_dtype: str, activations: str, sizes: dict[str, int], kernel: str, stored: tuple[int, ...]
) -> None:
    layout = layout_of(rules, resized(kv_dtype, activations, "v5e", **sizes))
    assert (layout.kernel, layout.stored) == (kernel, stored)
    assert layout.scaled is (kv_dtype == "int8")
    assert layout.pinned is (kernel != "ragged_paged_attention")


@pytest.mark.parametrize("chip_name", TPUS)
@pytest.mark.parametrize("page_tokens", [16, 128, 256])
@pytest.mark.parametrize("kv_heads", [4, 32])
def test_two_blocks_of_pages_fit_a_quarter_of_a_core(chip_name: str, page_tokens: int, kv_heads: int) -> None:
    for kv_dtype in ("bf16", "int8"):
        for rules in (HEADS, TOKENS):
            sizes = {"q_heads": 64, "kv_heads": kv_heads, "page_tokens": page_tokens}
            layout = layout_of(rules, resized(kv_dtype, "bf16", chip_name, **sizes))
            if layout.pages_per_block is None:
                continue
            page = page_tokens * prod(layout.stored) * (2 if kv_dtype == "bf16" else 1)
            assert 2 * layout.pages_per_block * page <= core_vmem_bytes(chip_name) // 4
            assert layout.vmem_bytes == core_vmem_bytes(chip_name) // 2
            assert 1 <= layout.pages_per_block <= max(1, 1024 // page_tokens)


def test_every_tpu_tells_its_vmem() -> None:
    assert {name: core_vmem_bytes(name) // 10**6 for name in TPUS} == {
        "v4": 16,
        "v5e": 134,
        "v5p": 64,
        "v6e": 134,
        "7x": 67,
    }


@pytest.mark.parametrize(("kv_dtype", "head_dim"), [("int8", 128), ("int8", 64), ("bf16", 64), ("bf16", 128)])
@pytest.mark.parametrize("rules", [HEADS, TOKENS, {"rows": ("x",), **HEADS}])
def test_hbm_counts_the_layout_that_is_recorded(rules: dict[str, Any], kv_dtype: str, head_dim: int) -> None:
    spec = resized(kv_dtype, "bf16", "v5e", head_dim=head_dim)
    layout = layout_of(rules, spec)
    counted = kv_cache_bytes(GenerateTable(**rules), 32, 4096, 128, sizes_of(spec), WAYS)
    values = layout.page_tokens * prod(layout.stored) * (1 if kv_dtype == "int8" else 2)
    scales = 4 * 128 * 2 * layout.kv_heads if layout.scaled else 0
    assert counted == spec.model.layers * layout.pages_per_layer * (values + scales)


def test_the_record_is_what_would_be_derived_again() -> None:
    plan = example_plan("llama_3_1_70b_v5e_4x4")
    assert plan.generate.kv_layout is not None
    older = plan.model_copy(update={"generate": plan.generate.model_copy(update={"kv_layout": None})})
    assert kv_layout_of(older) == plan.generate.kv_layout == kv_layout_of(plan)


def test_the_layout_is_told_on_one_line() -> None:
    assert kv_layout_text(layout_of(HEADS, resized("int8", "bf16", "v5e", head_dim=80))) == (
        "1025 pages of 128 tokens a layer, 2 KV heads of 80 stored as 384, a scale for each token and head; "
        "read by paged decode"
    )
    assert kv_layout_text(layout_of(HEADS, resized("float32", "float32", "cpu", kv_heads=4))) == (
        "1025 pages of 128 tokens a layer, 1 KV head of 128; read by plain JAX"
    )
