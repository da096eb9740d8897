"""Software stacks: launch costs, efficiencies and overlap, which belong to the program and not to the chip."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from cost_models.roofline import Overlap


@dataclass(frozen=True, slots=True)
class Stack:
    """What a software stack adds to the chip's physics. Seconds and fractions; see stacks.toml for what each means."""

    name: str
    title: str
    collective_launch_s: float
    step_s: float
    mxu_efficiency: float
    hbm_efficiency: float
    ici_efficiency: float
    latency: Literal["max", "sum"]
    ring_factor: Literal["asymptotic", "exact"]
    overlap: Overlap
    weight_passes: float
    hop_s: float | None = None
    """Seconds per hop where the stack's differs from the chip's."""
    switch_steps: Literal["one", "log2", "ranks"] = "one"
    """Hops of a collective through a switch of N chips: 1, log2(N) or N - 1."""
    partial_overlap_tokens: float = 0.0
    """Token rows m0 whose compute the load of a matmul's weights does not hide: the operations count 1 + m0 / rows."""
    attention_efficiency: float = 1.0
    """Fraction of the peak rate that the prefill attention kernel reaches, masked pairs left out."""
    layer_s: float = 0.0
    """Seconds of each layer that no byte and no operation explains: launches, norms, small kernels."""
    sequence_layer_s: float = 0.0
    """Seconds of each layer for each sequence that a chip decodes."""
    cached_token_layer_s: float = 0.0
    """Least seconds to attend to one cached token in one layer, however few bytes it has."""
    elementwise_passes: float = 0.0
    """Times the activations of a layer cross HBM outside its matmuls."""
    hidden_fraction: float = 0.0
    """Seconds of collectives that a second of local work hides."""
    kv_group_reads: float = 0.0
    """Further reads of the KV cache for each further query head of a KV head; 0 when the kernel shares them."""
    network_call_s: float = 0.0
    """Seconds of a collective that leaves its node, besides its steps."""
    network_efficiency: float = 1.0
    """Fraction of the peak rate of the links between nodes."""
    ramp_s: float = 0.0
    """Seconds of a collective for the square root of a megabyte on the wire: protocols below their full rate."""
    all_reduce_rate: float = 1.0
    """Rate of the bytes of an all-reduce over that of a gather: switches that sum, kernels that fuse both halves."""
    pair_rate: float = 1.0
    """Rate of the bytes of a collective of two chips over that of a larger one."""
    one_shot_bytes: float = 0.0
    """Largest all-reduce whose kernel fetches all operands at once: one step, N / 2 times the bytes."""
    chips: tuple[str, ...] = ()
    """Chips whose measurements made the constants; empty when the stack is not fitted."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)


@cache
def stacks() -> tuple[Stack, ...]:
    """Every stack of stacks.toml: those that plans may name."""
    return _read("stacks.toml")


@cache
def measured_stacks() -> tuple[Stack, ...]:
    """Every stack of measured.toml: constants fitted to published measurements by benchmarks/fit.py."""
    return _read("measured.toml")


def stack(name: str) -> Stack:
    """The stack called `name`."""
    for catalogue in (stacks, measured_stacks):
        for each in catalogue():
            if each.name == name:
                return each
    known = (each.name for each in (*stacks(), *measured_stacks()))
    raise LookupError(f'unknown stack "{name}"; known are {", ".join(known)}')


def default_stack(chip_name: str) -> Stack:
    """The stack that stands for the rendered JAX packages on a chip until they are measured there; see its errors in
    docs/cost-models.md. A chip without measurements borrows from its closest relative."""
    return stack(_DEFAULTS[chip_name])


_DEFAULTS = {
    "v4": "v4-looped-einsum",
    "v5p": "v4-looped-einsum",
    "v5e": "v5e-jax-llm-examples",
    "v6e": "v6e-sglang-jax",
    "7x": "v6e-sglang-jax",
    "a100": "hopper-engines",
    "h100": "hopper-engines",
    "h200": "hopper-engines",
    "b200": "hopper-engines",
    "gb200": "hopper-engines",
    "cpu": "cpu",
}


def _read(file: str) -> tuple[Stack, ...]:
    tables = tomllib.loads(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))
    return tuple(_stack(name, table) for name, table in tables.items())


def _stack(name: str, table: dict[str, Any]) -> Stack:
    rows = {key: row for key, row in table.items() if key != "title"}
    values = {key: row["value"] for key, row in rows.items()}
    values["chips"] = tuple(values.get("chips", ()))
    sources = MappingProxyType({key: row["source"] for key, row in rows.items()})
    return Stack(name=name, title=table["title"], sources=sources, **values)


BOOK = stack("book")
CPU = stack("cpu")
