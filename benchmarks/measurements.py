"""Cases of a measurements file, ready to be priced: what was run, how long it took, and what cannot be read."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from settings import Skipped, catalogue_chip, read_model, read_setting

from cost_models.chips import Chip, UnknownChip, parse_shape
from cost_models.collectives import all_gather_s, all_reduce_s, all_to_all_s
from cost_models.stacks import Stack
from cost_models.torus import Slice, TorusAxis
from cost_models.transformer import (
    Transformer,
    Work,
    generate,
    kv_bytes_per_chip,
    prefill,
    weight_bytes_per_chip,
)

DEFAULT_FILE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "measurements.yaml"

HBM_RESERVE = 0.1
"""Fraction of HBM that activations and the runtime keep."""

SATURATED_SEQUENCES = 256
"""Sequences that a saturated engine is taken to run when memory would hold more; no source states it."""

V4_SLICES = ((2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (4, 8, 8))

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

    @property
    def pathological(self) -> bool:
        """Whether the case was listed beforehand as one that no sane model fits."""
        small_all_to_all = "nccl" in self.stack_name and "alltoall" in self.id and (self.bytes_moved or 0) < 1e6
        two_full_gpus = self.family.startswith("trt-v014") and "-tp2-fp16-" in self.id
        return self.id in PATHOLOGICAL or small_all_to_all or two_full_gpus


def load_rows(path: Path) -> list[dict[str, Any]]:
    """The raw cases of a file."""
    rows = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return list(rows)


def read(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Case], dict[str, str]]:
    """The cases that can be priced, and the reason of each that cannot, by id."""
    cases: list[Case] = []
    skipped: dict[str, str] = {}
    for row in rows:
        try:
            if row["phase"] != "memory":
                cases.append(_case(row))
        except Skipped as reason:
            skipped[row["id"]] = str(reason)
        except UnknownChip as missing:
            skipped[row["id"]] = f"chip {missing.name} is not in the catalogue"
    return cases, skipped


def _case(row: Mapping[str, Any]) -> Case:
    phase = row["phase"]
    if phase == "collective":
        return _collective(row)
    if phase in ("compute", "memory-bandwidth"):
        raise Skipped("single-kernel microbenchmark, not a step")
    if row["tier"] == "D":
        raise Skipped("tier D: setting incomplete or pathological by the source")
    model = read_model(row)
    return _step_case(row, model)


# --- what was measured ---

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
STATIC_TENSORRT = ("trt-static", "trt-ttft", "trt-h100vsa100")


def stack_name(row: Mapping[str, Any]) -> str:
    """The stack whose constants price a case: by group, by chip where a group spans several."""
    group = row["group"]
    if group == "tensorrt-llm":
        static = row["family"].startswith(STATIC_TENSORRT)
        return "fastertransformer-tensorrt-llm" if static else "hopper-engines"
    if group == "pytorch-xla" and row["hardware"]["chip"] == "tpu_v5e":
        return "v5e-jax-llm-examples"
    if group not in STACKS:
        raise Skipped(f"group {group}: no stack")
    return STACKS[group]


UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "tok/s": 1.0, "1/s": 1.0}


def _metrics(row: Mapping[str, Any]) -> dict[str, float]:
    return {each["metric"]: each["value"] * UNITS.get(each["unit"], 1.0) for each in row["measured"]}


def _step_case(row: Mapping[str, Any], model: Transformer) -> Case:
    metrics = _metrics(row)
    if row["tier"] == "C":
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
        label=f"{strategy}; batch {row['batch'] or row.get('batch_per_chip')}; {chips}",
    )


# --- memory ---


@dataclass(frozen=True)
class MemoryCase:
    """A case about bytes: whether a setting fits, or a length or a size that follows from the KV cache."""

    id: str
    group: str
    quantity: str
    measured: float
    predicted: float


def read_memory(rows: Iterable[Mapping[str, Any]]) -> tuple[list[MemoryCase], dict[str, str]]:
    """The memory cases that can be counted, and the reason of each that cannot, by id."""
    cases: list[MemoryCase] = []
    skipped: dict[str, str] = {}
    for row in rows:
        if row["phase"] != "memory":
            continue
        try:
            cases.append(_memory_case(row))
        except Skipped as reason:
            skipped[row["id"]] = str(reason)
    return cases, skipped


def _memory_case(row: Mapping[str, Any]) -> MemoryCase:
    measured = row["measured"][0]
    model = read_model(row)
    setting = read_setting(row, model)
    if measured["metric"] == "fits":
        share = setting.hbm_share(generate(row["batch"], row["input_len"] + row["output_len"]))
        return MemoryCase(row["id"], row["group"], "fits", measured["value"], share < 1 - HBM_RESERVE)
    token = generate(row["batch"] or 1, 1)
    token_bytes = kv_bytes_per_chip(model, token, setting.layouts(token)[0], setting.numerics)
    if measured["metric"] == "max_context_len":
        budget = row["kv_memory_fraction"] * 32 * 2**30
        return MemoryCase(row["id"], row["group"], "tokens", measured["value"], budget / token_bytes)
    if measured["metric"] == "kv_cache_total":
        total = row["batch"] * row["context_len"] * model.layers * model.kv_width * setting.numerics.kv_bytes
        return MemoryCase(row["id"], row["group"], "bytes", measured["value"], total)
    raise Skipped(f"no setting for {measured['metric']}")


# --- collectives ---

SWITCH_STACKS = {
    "col-custom-trtllm": "hopper-tensorrt-llm-all-reduce",
    "col-custom-vllm": "hopper-vllm-all-reduce",
    "col-nccl": "hopper-nccl",
    "col-h100jax": "hopper-jax-collectives",
}
OPERATIONS = {"all_reduce": all_reduce_s, "all_gather": all_gather_s, "reduce_scatter": all_gather_s}


def _collective(row: Mapping[str, Any]) -> Case:
    if row["tier"] == "D":
        raise Skipped("tier D: setting incomplete or pathological by the source")
    on = catalogue_chip(row)
    name, axes = _collective_stack(row, on)
    operation, moved = row["strategy"]["op"], row.get("message_bytes")
    measured_s = _metrics(row).get("latency")
    if moved is None or measured_s is None:
        raise Skipped("bytes or time not given")
    ways = math.prod(axis.size for axis in axes)

    def seconds(stack: Stack) -> float:
        if operation == "alltoall":
            return all_to_all_s(moved * ways, axes, on, stack)
        return OPERATIONS[operation](moved, axes, on, stack)

    wire = moved * (1 - 1 / ways) * (2 if operation == "all_reduce" else 1)
    rate = on.ici_bytes_per_s * (1 if on.switched else sum(2 if axis.wraps else 1 for axis in axes))
    return Case(
        id=row["id"],
        group=row["group"],
        family=row["family"],
        phase=row["phase"],
        tier=row["tier"],
        rank_set=None,
        stack_name=name,
        measured_s=measured_s,
        seconds=seconds,
        bare_s=wire / rate,
        hbm_share=None,
        label=f"{operation} over {ways}, {moved} bytes",
        bytes_moved=moved,
    )


def _collective_stack(row: Mapping[str, Any], on: Chip) -> tuple[str, tuple[TorusAxis, ...]]:
    """The stack and the axes of a collective; a group of 4 devices of TPU 7x is read as one line."""
    ways = row["strategy"].get("n_devices")
    if row["strategy"].get("axis") == "group of 4 shards":
        return "tpu-collectives", (TorusAxis("x", 4, False),)
    if row["strategy"]["op"] not in (*OPERATIONS, "alltoall") or ways is None:
        raise Skipped("collective or its group not stated")
    if on.switched:
        name = next((value for key, value in SWITCH_STACKS.items() if row["id"].startswith(key)), None)
        if name is None:
            raise Skipped(f"family {row['family']}: no stack")
        return name, (TorusAxis("x", ways, False),)
    shape = parse_shape(str(row["hardware"]["topology"])) or ()
    axes = Slice(on, shape).axes
    if math.prod(shape) == ways:
        return "tpu-collectives", axes
    return "tpu-collectives", (next(axis for axis in axes if axis.size == ways),)
