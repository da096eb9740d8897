"""Which constants of which stack are fitted, their plausible values, and which cases belong to one family."""

from collections.abc import Callable
from dataclasses import dataclass

from case import Case


@dataclass(frozen=True)
class Fit:
    """What is fitted for a stack: plausible values of its constants, and which cases belong to one family."""

    stack_name: str
    plausible: dict[str, float]
    family: Callable[[Case], str] = lambda case: case.family
    sparse: bool = False
    """Whether the stack is that of mixtures of experts."""


def _collective_family(case: Case) -> str:
    operation, ways = case.label.split(",")[0].split(" over ")
    return f"{operation}-{ways}"


def _llama_batch(case: Case) -> str:
    """The batch of a jax-llm-examples case: the table has one model and two strategies."""
    return case.id.split("-")[3]


def _deepseek_batch(case: Case) -> str:
    """The batch of a DeepSeek-R1 case."""
    return case.id.split("-")[2]


def _model_family(case: Case) -> str:
    """Model, chip and engine of a case."""
    return case.family


FITS = (
    Fit(
        "v4-looped-einsum",
        {
            "mxu_efficiency": 0.9,
            "hbm_efficiency": 0.8,
            "ici_efficiency": 0.9,
            "attention_efficiency": 0.5,
            "hop_s": 5e-6,
            "partial_overlap_tokens": 80,
            "elementwise_passes": 8,
        },
    ),
    Fit(
        "v5e-jax-llm-examples",
        {
            "mxu_efficiency": 0.95,
            "hbm_efficiency": 0.95,
            "ici_efficiency": 0.6,
            "hop_s": 0.6e-6,
            "hidden_fraction": 0.3,
            "step_s": 1e-4,
        },
        _llama_batch,
    ),
    Fit(
        "v5e-jax-llm-examples-experts",
        {"layer_s": 1e-4, "hbm_efficiency": 0.8, "ici_efficiency": 0.5},
        _deepseek_batch,
        sparse=True,
    ),
    Fit(
        "v6e-sglang-jax",
        {
            "mxu_efficiency": 0.9,
            "hbm_efficiency": 0.9,
            "ici_efficiency": 0.7,
            "attention_efficiency": 0.25,
            "layer_s": 6e-5,
            "step_s": 5e-4,
            "elementwise_passes": 2,
            "sequence_layer_s": 7e-7,
            "cached_token_layer_s": 8e-10,
        },
    ),
    Fit(
        "fastertransformer-tensorrt-llm",
        {
            "mxu_efficiency": 0.85,
            "hbm_efficiency": 0.9,
            "ici_efficiency": 0.4,
            "network_efficiency": 0.7,
            "attention_efficiency": 0.3,
            "hop_s": 5e-6,
            "network_call_s": 2e-5,
            "layer_s": 1e-4,
            "kv_group_reads": 0.4,
        },
    ),
    Fit(
        "hopper-engines",
        {
            "mxu_efficiency": 0.85,
            "hbm_efficiency": 0.85,
            "ici_efficiency": 0.65,
            "attention_efficiency": 0.7,
            "hop_s": 1e-6,
            "layer_s": 4.5e-5,
        },
        _model_family,
    ),
    Fit(
        "hopper-nccl",
        {
            "ici_efficiency": 0.75,
            "hop_s": 0.75e-6,
            "collective_launch_s": 4.7e-6,
            "ramp_s": 4e-6,
            "all_reduce_rate": 1.2,
            "pair_rate": 0.8,
        },
        _collective_family,
    ),
    Fit(
        "hopper-tensorrt-llm-all-reduce",
        {"ici_efficiency": 0.65, "collective_launch_s": 3e-6},
        _collective_family,
    ),
    Fit("hopper-vllm-all-reduce", {"collective_launch_s": 4e-6}, _collective_family),
    Fit(
        "hopper-jax-collectives",
        {"ici_efficiency": 0.8, "collective_launch_s": 1.3e-4},
        lambda case: case.id,
    ),
    Fit(
        "tpu-collectives",
        {"ici_efficiency": 0.95, "collective_launch_s": 1.3e-5},
        lambda case: case.id,
    ),
)
