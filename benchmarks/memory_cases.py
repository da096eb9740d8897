"""Cases about bytes: whether a setting fits, and what follows from the size of the KV cache."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from case import HBM_RESERVE
from models import Skipped, read_model
from settings import read_setting

from cost_models.chips import UnknownChip
from cost_models.placement import kv_bytes_per_chip
from cost_models.transformer import generate

V4_HBM_BYTES = 32 * 2**30
"""HBM of the TPU v4 chips whose longest contexts are published, as their paper counts it."""


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
        except UnknownChip as missing:
            skipped[row["id"]] = f"chip {missing.name} is not in the catalogue"
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
        budget = row["kv_memory_fraction"] * V4_HBM_BYTES
        return MemoryCase(row["id"], row["group"], "tokens", measured["value"], budget / token_bytes)
    if measured["metric"] == "kv_cache_total":
        total = row["batch"] * row["context_len"] * model.layers * model.kv_width * setting.numerics.kv_bytes
        return MemoryCase(row["id"], row["group"], "bytes", measured["value"], total)
    raise Skipped(f"no setting for {measured['metric']}")
