"""Cases of whole steps: which steps a measured time is made of, on which slice, by which stack."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from case import HBM_RESERVE, Case, metrics_of
from models import Skipped, read_model
from settings import read_setting

from cost_models.placement import kv_bytes_per_chip, weight_bytes_per_chip
from cost_models.stacks import Stack
from cost_models.transformer import Transformer, Work, generate, prefill

SATURATED_SEQUENCES = 256
"""Sequences that a saturated engine is taken to run when memory would hold more; no source states it."""

V4_SLICES = ((2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (4, 8, 8))

STACKS = {
    "esti": "v4-looped-einsum",
    "jax-llm-examples": "v5e-jax-llm-examples",
    "sglang-jax": "v6e-sglang-jax",
    "vllm-tpu": "v6e-sglang-jax",
    "fastertransformer": "fastertransformer-tensorrt-llm",
    "aic-silicon": "hopper-engines",
    "vllm-gpu": "hopper-engines",
    "pytorch-xla": "v4-looped-einsum",
    "jetstream": "v5e-jax-llm-examples",
}
SERVED_THROUGHPUT = ("trt-r1", "tpur-v7x")
"""Families that state concurrency and tokens per second of a server: their quotient is the TPOT."""

STATIC_TENSORRT = ("trt-static", "trt-ttft", "trt-h100vsa100")


def stack_name(row: Mapping[str, Any]) -> str:
    """The stack whose constants price a case: by group, by chip where a group spans several."""
    group = row["group"]
    if group == "tensorrt-llm":
        static = row["family"].startswith(STATIC_TENSORRT)
        return "fastertransformer-tensorrt-llm" if static else "hopper-engines"
    if group == "pytorch-xla" and row["hardware"]["chip"] == "tpu_v5e":
        return "v5e-jax-llm-examples"
    if group == "jax-llm-examples" and row["model"].get("moe"):
        return "v5e-jax-llm-examples-experts"
    if group not in STACKS:
        raise Skipped(f"group {group}: no stack")
    return STACKS[group]


def step_case(row: Mapping[str, Any]) -> Case:
    """The case of a row about prefill, generate or both; raises Skipped with the reason."""
    if row["phase"] in ("compute", "memory-bandwidth"):
        raise Skipped("single-kernel microbenchmark, not a step")
    if row["tier"] == "D":
        raise Skipped("tier D: setting incomplete or pathological by the source")
    model, metrics = read_model(row), metrics_of(row)
    if row["tier"] == "C" and row["family"] not in SERVED_THROUGHPUT:
        return _saturated(row, model, metrics)
    if row["hardware"].get("n_chips") is None:
        return _unknown_slice(row, model, metrics)
    if row["batch"] is None:
        raise Skipped("batch not given")
    setting = read_setting(row, model)
    sequences = row["batch"] / setting.replicas
    measured_s, runs = _runs(row, metrics, sequences)
    longest = runs[-1][1]
    return _built(
        row,
        measured_s,
        lambda stack: sum(count * setting.seconds(work, stack) for count, work in runs),
        sum(count * setting.bare_s(work) for count, work in runs),
        setting.hbm_share(longest) if _batch_was_held(row) else None,
    )


def _batch_was_held(row: Mapping[str, Any]) -> bool:
    """Whether the whole batch was in memory: not when a server may queue, nor when eight layers stood for all."""
    return row["tier"] == "A" and not row["family"].startswith("esti-d")


def _runs(
    row: Mapping[str, Any], metrics: Mapping[str, float], sequences: float
) -> tuple[float, list[tuple[float, Work]]]:
    """The measured seconds and the steps that they are made of."""
    phase, prompt = row["phase"], row["input_len"]
    if phase == "generate":
        for key in ("latency_per_step", "itl_median"):
            if key in metrics:
                return metrics[key], [(1, generate(sequences, _read_context(row)))]
        raise Skipped(f"no step time among {', '.join(metrics)}")
    if phase == "prefill":
        if prompt is None:
            raise Skipped("prompt length not given")
        if "latency_total" in metrics:
            return metrics["latency_total"], [(1, prefill(sequences, prompt))]
        if "throughput_in" in metrics:
            return prompt / metrics["throughput_in"], [(1, prefill(1, prompt))]
        raise Skipped(f"no prefill time among {', '.join(metrics)}")
    return _end_to_end(row, metrics, sequences)


def _end_to_end(
    row: Mapping[str, Any], metrics: Mapping[str, float], sequences: float
) -> tuple[float, list[tuple[float, Work]]]:
    """One prefill and then the steps at their mean context; a served TPOT holds its share of the others' prefills.

    TPOT = T_step + B / output * T_prefill(one prompt): every sequence that ends lets in one prompt.
    """
    prompt, output = row["input_len"], row["output_len"]
    if prompt is None or output is None:
        raise Skipped("lengths not given")
    decode = generate(sequences, prompt + (row.get("cached_len") or 0) + output / 2)
    if "tpot_mean" in metrics:
        return metrics["tpot_mean"], [(sequences / output, prefill(1, prompt)), (1, decode)]
    if "itl_median" in metrics:
        return metrics["itl_median"], [(1, decode)]
    first = prefill(sequences, prompt, row.get("cached_len") or 0)
    if "latency_total" in metrics:
        return metrics["latency_total"], [(1, first), (output, decode)]
    if "throughput_out" in metrics and row["family"] in SERVED_THROUGHPUT:
        return row["batch"] / metrics["throughput_out"], [(sequences / output, prefill(1, prompt)), (1, decode)]
    if "throughput_out" in metrics and row["family"].startswith(STATIC_TENSORRT):
        return float(row["batch"] * output / metrics["throughput_out"]), [(1, first), (output, decode)]
    raise Skipped(f"no time among {', '.join(metrics)}")


def _read_context(row: Mapping[str, Any]) -> float:
    """Tokens that a decode step reads; of jax-llm-examples half, as its context is the allocation (assumed)."""
    context = row["context_len"]
    if context is None:
        raise Skipped("context not given")
    return float(context / 2 if row["family"].startswith("jle-llama70b") else context)


def _unknown_slice(row: Mapping[str, Any], model: Transformer, metrics: Mapping[str, float]) -> Case:
    """A case of which only batch per chip is known: the fastest slice that holds it, as its Pareto curve has it."""
    per_chip = row.get("batch_per_chip")
    if row["group"] != "esti" or per_chip is None:
        raise Skipped("number of chips not given")
    candidates = []
    for shape in V4_SLICES:
        sequences = per_chip * math.prod(shape)
        setting = read_setting(row, model, shape)
        measured_s, [(_, work)] = _runs(row, metrics, sequences)
        if sequences >= 1 and setting.hbm_share(work) < 1:
            candidates.append((setting, work))
    if not candidates:
        raise Skipped("no slice holds it")
    return _built(
        row,
        measured_s,
        lambda stack: min(setting.seconds(work, stack) for setting, work in candidates),
        min(setting.bare_s(work) for setting, work in candidates),
        None,
    )


def _saturated(row: Mapping[str, Any], model: Transformer, metrics: Mapping[str, float]) -> Case:
    """GPU seconds of an output token at saturation: one prefill and all steps of as many sequences as memory holds."""
    if "throughput_out_per_gpu" not in metrics or not row["input_len"]:
        raise Skipped("tier C: throughput of an unknown batch or of unknown lengths")
    setting, prompt, output = read_setting(row, model), row["input_len"], row["output_len"]
    layout = setting.layouts(generate(1, 1))[0]
    free = (1 - HBM_RESERVE) * setting.chip.hbm_bytes - weight_bytes_per_chip(model, layout, setting.numerics)
    sequence_bytes = kv_bytes_per_chip(model, generate(1, prompt + output), layout, setting.numerics)
    sequences = min(SATURATED_SEQUENCES, math.floor(free / sequence_bytes))
    if sequences < 1:
        raise Skipped("tier C: no sequence fits by our count of memory")
    runs = [(1, prefill(sequences, prompt)), (output, generate(sequences, prompt + output / 2))]
    gpus = layout.chips / (sequences * output)
    return _built(
        row,
        1 / next(each["value"] for each in row["measured"] if each["metric"] == "throughput_out_per_gpu"),
        lambda stack: gpus * sum(count * setting.seconds(work, stack) for count, work in runs),
        gpus * sum(count * setting.bare_s(work) for count, work in runs),
        None,
    )


def _built(
    row: Mapping[str, Any],
    measured_s: float,
    seconds: Callable[[Stack], float],
    bare_s: float,
    hbm_share: float | None,
) -> Case:
    strategy = ", ".join(f"{key} {value}" for key, value in (row["strategy"] or {"any": ""}).items() if key != "note")
    chips = f"{row['hardware'].get('n_chips') or '?'} x {row['hardware']['chip']}"
    return Case(
        id=row["id"],
        group=row["group"],
        family=row["family"],
        phase=row["phase"],
        tier=row["tier"],
        rank_set=row.get("rank_set"),
        stack_name=stack_name(row),
        measured_s=measured_s,
        seconds=seconds,
        bare_s=bare_s,
        hbm_share=hbm_share,
        sparse=bool((row["model"] or {}).get("moe")),
        label=f"{strategy}; batch {row['batch'] or row.get('batch_per_chip')}; {chips}",
    )
