"""What a case ran: its chips, model, dtypes, and the layouts that its strategy allows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from models import Skipped

from cost_models.chips import Chip, chip, parse_shape
from cost_models.devices import device, device_axis
from cost_models.placement import (
    KvSharding,
    Layout,
    kv_bytes_per_chip,
    weight_bytes_per_chip,
    weight_gathered,
    weight_stationary_2d,
)
from cost_models.stacks import Stack
from cost_models.step import fastest_step, roofline_s, step
from cost_models.torus import Links, Slice, TorusAxis, split_axis
from cost_models.transformer import Numerics, Transformer, Work, generate

NODE_GPUS = 8
INFINIBAND_BYTES_PER_S = 25e9
"""One GPU's share of the eight 200 Gb/s ports that multi-node FastTransformer cases name."""

DTYPES = {"fp16": "bf16", "bf16": "bf16", "int8": "int8", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}
CHIPS = {
    "tpu_v4": "v4",
    "tpu_v5e": "v5e",
    "tpu_v5p": "v5p",
    "tpu_v6e": "v6e",
    "tpu_v7x": "7x",
    "a100_sxm_80gb": "a100",
    "h100_sxm": "h100",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
}


UNSTATED = {"jle-r1": {"tp": 64, "ep": 8}, "jle-scout": {"tp": 16}}
"""Strategies of cases that state none. Of DeepSeek-R1 that of the published code, jax-llm-examples,
deepseek_r1_jax/model.py: experts over one mesh axis, their width over the other, heads over both. Of Scout a guess."""

BF16_ATTENTION = ("gpt-oss-120b",)
"""Models whose published weights are narrow in the experts alone (their quantization_config)."""


def catalogue_chip(row: Mapping[str, Any]) -> Chip:
    """The chip of a case."""
    name = row["hardware"]["chip"]
    if name not in CHIPS:
        raise Skipped(f"chip {name} is not priced here")
    return chip(CHIPS[name])


def _numerics(row: Mapping[str, Any], on: Chip) -> Numerics:
    """Dtypes as stated; activations and KV cache that the source leaves out count as bf16.

    A GPU engine multiplies fp8 weights in fp8; int8 weights on a TPU are converted to bf16 first. Experts that alone
    are narrow are widened in the kernel.
    """
    stated = row["dtype"]
    weights = _dtype(stated["weights"])
    if row["model"]["name"] in BF16_ATTENTION:
        return Numerics("bf16", "bf16", _dtype(stated.get("kv_cache")), experts=weights)
    narrow = on.switched and weights in ("fp8", "fp4") and "fp8" in on.peak_flops_per_s
    return Numerics(weights, "bf16", _dtype(stated.get("kv_cache")), "fp8" if narrow else "bf16")


def _dtype(name: str | None) -> str:
    """The catalogue's name of a dtype; one that is not stated is taken as bf16."""
    if name is None or name.startswith(("unspecified", "bf16")):
        return "bf16"
    if name not in DTYPES:
        raise Skipped(f"dtype {name} unknown")
    return DTYPES[name]


@dataclass(frozen=True)
class Setting:
    """Model, dtypes and chips of a case, with the layouts that its strategy allows for a given work."""

    model: Transformer
    numerics: Numerics
    chip: Chip
    layouts: Callable[[Work], list[Layout]]
    replicas: int = 1

    def seconds(self, work: Work, stack: Stack) -> float:
        """Seconds of a step of one replica under its fastest layout."""
        layouts = self.layouts(work)
        if len(layouts) == 1:
            return step(self.model, work, layouts[0], self.numerics, self.chip, stack).total_s
        return fastest_step(self.model, work, layouts, self.numerics, self.chip, stack).total_s

    def bare_s(self, work: Work) -> float:
        """The bare roofline of that step."""
        return roofline_s(self.model, work, self.layouts(work)[0], self.numerics, self.chip)

    def hbm_share(self, work: Work) -> float:
        """Bytes of one chip over its HBM, the context of `work` cached as the next generate step will read it."""
        cached = generate(work.sequences, work.context_tokens)
        layout = self.layouts(cached)[0]
        weights = weight_bytes_per_chip(self.model, layout, self.numerics)
        return (weights + kv_bytes_per_chip(self.model, cached, layout, self.numerics)) / self.chip.hbm_bytes


def read_setting(row: Mapping[str, Any], model: Transformer, shape: tuple[int, ...] | None = None) -> Setting:
    on = catalogue_chip(row)
    numerics = _numerics(row, on)
    strategy = row["strategy"] or UNSTATED.get(row["family"], {})
    if row["group"] == "esti":
        return _esti_setting(row, model, numerics, on, shape)
    expert_ways = strategy.get("moe_ep", 1)
    if expert_ways > 1 and f"-tp{expert_ways}-ep{expert_ways}-" in row["id"] and strategy["tp"] == expert_ways**2:
        raise Skipped("number of GPUs contradictory: the source multiplies the ways of tensors and experts")
    if "tp" not in strategy:
        raise Skipped("strategy not given" if not strategy.get("ep") else "experts over several nodes: not priced")
    replicas = strategy.get("dp", 1) * (1 if model.mixture else strategy.get("attention_dp", 1))
    layout = _switched_layout(strategy) if on.switched else _torus_layout(row, on, strategy, replicas)
    return Setting(model, numerics, device(on), lambda work: [layout], replicas)


def _expert_ways(strategy: Mapping[str, Any]) -> int:
    """Parts into which the experts of a replica fall, each with whole ones."""
    return int(strategy.get("moe_ep") or strategy.get("ep") or 1)


def _switched_layout(strategy: Mapping[str, Any]) -> Layout:
    """Tensor parallelism in and across nodes, pipeline stages; or whole attention on every GPU and experts over all."""
    ways, expert_ways = strategy["tp"], _expert_ways(strategy)
    nodes = max(1, ways // NODE_GPUS)
    axes = (TorusAxis("x", ways // nodes, False),) if ways > 1 else ()
    if strategy.get("attention_dp", 1) == ways == expert_ways > 1:
        return Layout(experts=axes)
    if ways % expert_ways:
        raise Skipped(f"{ways} ways do not hold {expert_ways} parts of experts")
    return Layout(
        axes,
        nodes=nodes,
        network_bytes_per_s=INFINIBAND_BYTES_PER_S,
        stages=strategy.get("pp", 1),
        whole_experts=expert_ways,
    )


def _torus_layout(row: Mapping[str, Any], on: Chip, strategy: Mapping[str, Any], replicas: int) -> Layout:
    """1D tensor parallelism over a whole slice and the devices of its chips, or over the part of one replica."""
    ways = strategy["tp"]
    shape = parse_shape(str(row["hardware"].get("topology"))) or (1,) * on.torus_dims
    axes: tuple[Links, ...] = Slice(on, shape).axes
    devices = math.prod(shape) * on.devices_per_chip
    if devices != ways * replicas:
        raise Skipped(f"{ways} ways and {replicas} replicas do not make up {devices} devices")
    if replicas > 1:
        last = Slice(on, shape).axes[-1]
        axes = (*axes[:-1], split_axis(last, (replicas, last.size // replicas))[1])
    if on.devices_per_chip > 1:
        axes = (*axes, device_axis(on))
    return Layout(hidden=axes, whole_experts=_expert_ways(strategy))


def _esti_setting(
    row: Mapping[str, Any], model: Transformer, numerics: Numerics, on: Chip, shape: tuple[int, ...] | None
) -> Setting:
    """Layouts of arXiv:2211.05102: as stated, else 2D weight-stationary, or in prefill also weight-gathered."""
    strategy = row["strategy"] or {}
    sides = shape or parse_shape(str(row["hardware"].get("topology")))
    assert sides is not None
    axes = Slice(on, sides).axes
    ffn = strategy.get("ffn") or ""
    stated: KvSharding | None = {"batch": "batch", "head": "heads"}.get(strategy.get("attention") or "")  # type: ignore[assignment]

    def layouts(work: Work) -> list[Layout]:
        multiquery = model.kv_heads == 1
        kv: KvSharding = stated or ("batch" if work.phase == "generate" and multiquery else "heads")
        if ffn == "WS 1D":
            return [Layout(hidden=axes, kv=kv)]
        stationary = list(weight_stationary_2d(axes, kv))
        if work.phase == "generate":
            return stationary
        if ffn == "WG XYZ":
            return [Layout(gathered=axes)]
        gathered = list(weight_gathered(axes, work.sequences))
        if ffn.startswith("WG") and gathered:
            return gathered
        return stationary if ffn else [*stationary, *gathered]

    return Setting(model, numerics, on, layouts)
