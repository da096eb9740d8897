"""Random small specs of real models, chips, stacks and workloads: what is priced and bounded is the planner's own."""

from typing import Any

from hypothesis import strategies as st

from cost_models.stacks import step_stacks
from planner.spec import Spec, spec_from_data

SMALL_SLICES = {
    "cpu": ("2x2", "2x4"),
    "v4": ("2x2x1", "2x2x2"),
    "v5e": ("1x1", "2x2", "2x4"),
    "v5p": ("2x2x1", "2x2x2"),
    "v6e": ("2x2", "2x4"),
    "h100": ("2", "4", "8"),
}
LARGE_SLICES = {
    "v4": ("4x4x4",),
    "v5e": ("4x4", "4x8", "16x16"),
    "v5p": ("2x4x4", "4x4x4", "4x8x8"),
    "v6e": ("4x4",),
}
STACKS = tuple(each.name for each in step_stacks())


@st.composite
def models(draw) -> dict[str, Any]:
    """A dense model: tiny, or as wide as those that are served."""
    kv_heads, wide = draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.booleans())
    dtype = draw(st.sampled_from(["bf16", "float32"]))
    return {
        "family": "llama",
        "layers": draw(st.sampled_from([24, 80] if wide else [1, 2, 5])),
        "d_model": draw(st.sampled_from([2048, 4096, 8192] if wide else [64, 192, 256, 1024])),
        "d_ff": draw(st.sampled_from([5632, 14336, 28672] if wide else [48, 200, 512, 3072])),
        "q_heads": kv_heads * draw(st.sampled_from([1, 2, 3, 8])),
        "kv_heads": kv_heads,
        "head_dim": draw(st.sampled_from([32, 64, 128])),
        "vocab": draw(st.sampled_from([257, 4096, 50257, 128256])),
        "max_positions": 8192,
        "tied_embeddings": draw(st.booleans()),
        "weights": {"dtype": draw(st.sampled_from([dtype, "int8"]))},
        "activations": {"dtype": dtype},
        "kv_cache": {"dtype": dtype, "page_tokens": draw(st.sampled_from([8, 64]))},
    }


@st.composite
def tokens(draw, most: int) -> dict[str, int]:
    """A distribution of lengths."""
    mean = draw(st.integers(min_value=1, max_value=most))
    return {"mean": mean, "p95": mean + draw(st.integers(min_value=0, max_value=most))}


@st.composite
def servings(draw) -> dict[str, Any]:
    """Whole prompts or chunks, plain steps or drafts."""
    found = {"chunked_prefill": draw(st.sampled_from(["off", "off", "auto", 48, 100, 512]))}
    if draw(st.integers(0, 2)) == 0:
        found["speculation"] = {
            "drafted_tokens": draw(st.sampled_from([1, 3, 4])),
            "acceptance": draw(st.sampled_from([0.0, 0.3, 0.85])),
            "draft_step": draw(st.sampled_from([1e-9, 1e-6, 1e-4])),
        }
    return found


@st.composite
def specs(draw, slices: dict[str, tuple[str, ...]] = SMALL_SLICES, concurrency: int = 12, most_slices: int = 2) -> Spec:
    """A whole spec on some of these slices."""
    name = draw(st.sampled_from(sorted(slices)))
    allowed = draw(st.lists(st.sampled_from(slices[name]), min_size=1, max_size=most_slices, unique=True))
    limits = {
        limit: draw(st.sampled_from([1e-4, 1e-3, 1e-2, 0.1, 1.0]))
        for limit in ("ttft", "tpot")
        if draw(st.integers(0, 5)) == 0
    }
    return spec_from_data(
        {
            "version": 1,
            "name": "random",
            "model": draw(models()),
            "hardware": {
                "chip": name,
                "slices": allowed,
                "stack": draw(st.sampled_from(STACKS)),
                "reserve": draw(st.sampled_from([0.0, 0.08, 0.5, 0.9])),
            },
            "workload": {
                "prompt_tokens": draw(tokens(1500)),
                "output_tokens": draw(tokens(600)),
                "concurrency": draw(st.integers(min_value=1, max_value=concurrency)),
                "max_context": 2200,
            },
            "limits": limits,
            "serving": draw(servings()),
            "objective": draw(st.sampled_from(["cost", "throughput", "latency"])),
        }
    )
