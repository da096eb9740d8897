"""Kernels that read the cache fit the on-chip memory of every chip, whatever it holds of the KV heads."""

import pytest

from planner.plan.kv_layout import kv_layout_of
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import spec_from_data
from planner.verify.build import Step
from tests.verify.edited import verified

LLAMA_7B = {"layers": 2, "d_model": 4096, "d_ff": 11008, "q_heads": 32, "kv_heads": 32, "head_dim": 128}
"""Two of the 32 layers, which are all alike."""


def plan_of(page_tokens: int, kv_dtype: str) -> Plan:
    """A plan for v4, whose cores have the least VMEM, with all KV heads on every chip."""
    lengths = {"mean": 512, "p95": 1024}
    model = {"family": "llama", "max_positions": 4096, "vocab": 32000, **LLAMA_7B, "weights": {"dtype": "bf16"}}
    data = {
        "version": 1,
        "name": "all_heads",
        "model": model | {"kv_cache": {"dtype": kv_dtype, "page_tokens": page_tokens}},
        "hardware": {"chip": "v4", "slices": ["2x2x1"]},
        "workload": {"prompt_tokens": lengths, "output_tokens": lengths, "concurrency": 16},
        "pins": {"generate.kv_cache": "batch", "generate.batch": 16},
    }
    return make_plan(spec_from_data(data))


@pytest.mark.parametrize(("page_tokens", "kv_dtype"), [(256, "bf16"), (256, "int8"), (128, "int8"), (16, "bf16")])
def test_a_kernel_fits_vmem_with_all_kv_heads(page_tokens: int, kv_dtype: str, monkeypatch: pytest.MonkeyPatch):
    """Bug log B4, sglang-jax#408 and #182, vllm#19490: 32 KV heads on a chip, and 16 MiB of VMEM."""
    plan = plan_of(page_tokens, kv_dtype)
    layout = kv_layout_of(plan)
    assert layout
    assert (layout.kernel, layout.kv_heads) == ("paged_decode", 32)
    (step,) = verified(plan, [], Step("generate"), monkeypatch).steps
    assert step.failure is None
    assert not [copy for copy in step.copies if copy.array.startswith("cache") and copy.purpose is None]
