"""Cases of one collective timed alone, on a torus or through a switch."""

import math
from collections.abc import Mapping
from typing import Any

from case import Case, metrics_of
from models import Skipped
from settings import catalogue_chip

from cost_models.chips import Chip, parse_shape
from cost_models.collectives import all_gather_s, all_reduce_s, all_to_all_s
from cost_models.stacks import Stack
from cost_models.torus import Slice, TorusAxis

SWITCH_STACKS = {
    "col-custom-trtllm": "hopper-tensorrt-llm-all-reduce",
    "col-custom-vllm": "hopper-vllm-all-reduce",
    "col-nccl": "hopper-nccl",
    "col-h100jax": "hopper-jax-collectives",
}
OPERATIONS = {"all_reduce": all_reduce_s, "all_gather": all_gather_s, "reduce_scatter": all_gather_s}


def collective_case(row: Mapping[str, Any]) -> Case:
    """The case of a row about one collective; raises Skipped with the reason."""
    if row["tier"] == "D":
        raise Skipped("tier D: setting incomplete or pathological by the source")
    on = catalogue_chip(row)
    name, axes = _collective_stack(row, on)
    operation, moved = row["strategy"]["op"], row.get("message_bytes")
    measured_s = metrics_of(row).get("latency")
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
