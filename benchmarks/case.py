"""One published case that can be priced, and the cases that were named before any fit as ones no sane model fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cost_models.stacks import Stack

HBM_RESERVE = 0.1
"""Fraction of HBM that activations and the runtime keep."""

PATHOLOGICAL = frozenset(
    {
        "esti-f7-wg-b64",
        "esti-f8-mha-head-ctx512",
        "esti-f8-mha-head-ctx2048",
        "esti-s1-chatbot",
        "esti-f6-2d-c256",
        "esti-f6-1d-c256",
        "esti-d2-palm-generate-b4",
        "esti-d3-palm-generate-b4",
        "esti-d4-palm-generate-b4",
        "esti-d2-palm-generate-b32",
        "esti-f1p-540b-int8-bpc1",
        "esti-f1p-8b-int8-bpc0p5",
        "sgl-qwen-7b_tp4-gen-i1024-c128",
        "sgl-qwen2.5-7b_tp1-gen-i1024-c128",
        "ft-89b-tp8-i128o8-b1",
        "ft-89b-tp8-i128o8-b2",
        "ft-1.3b-tp1-i512o32-b32",
        "ft-1.3b-tp1-i512o32-b64",
        "ft-530b-tp8pp3-i20o8-b256",
        "col-v6e256-psum",
        "aic-2026-04-06-llama-3-1-70b-h100-sxm-vllm-fp8-agg-8192x1024-c64-tp2-ep1-773",
        "aic-meta-llama-llama-3-1-8b-instruct-meta-llama-llama-3-1-8b-instruct-h200-sxm-sglang-agg-1000x1000-c512-tp4-epnon",
    }
)
"""Cases named before this model was fitted (docs/cost-models.md says why); reports show figures with and without."""


@dataclass(frozen=True)
class Case:
    """One case that can be priced. `seconds` gives the measured quantity under a stack, `bare_s` its bare roofline."""

    id: str
    group: str
    family: str
    phase: str
    tier: str
    rank_set: str | None
    stack_name: str
    measured_s: float
    seconds: Callable[[Stack], float]
    bare_s: float
    hbm_share: float | None
    """HBM bytes of the busiest chip, weights and KV cache, over its capacity; None where the run proves nothing."""
    label: str
    """Strategy, batch and chips, for residuals."""
    bytes_moved: float | None = None
    sparse: bool = False
    """Whether the model is a mixture of experts."""

    @property
    def pathological(self) -> bool:
        """Whether the case was listed beforehand as one that no sane model fits."""
        small_all_to_all = "nccl" in self.stack_name and "alltoall" in self.id and (self.bytes_moved or 0) < 1e6
        two_full_gpus = self.family.startswith("trt-v014") and "-tp2-fp16-" in self.id
        return self.id in PATHOLOGICAL or small_all_to_all or two_full_gpus


UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "tok/s": 1.0, "1/s": 1.0}


def metrics_of(row: Mapping[str, Any]) -> dict[str, float]:
    """What was measured, by metric, in seconds and tokens per second."""
    return {each["metric"]: each["value"] * UNITS.get(each["unit"], 1.0) for each in row["measured"]}
