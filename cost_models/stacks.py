"""Software stacks: launch costs, efficiencies and overlap, which belong to the program and not to the chip."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    masked_pairs: Literal["skipped", "visited"] = "skipped"
    """Whether prefill attention skips the pairs that the causal mask hides."""
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
    fallback: str | None = None
    """Name of the stack that prices larger all-reduces; None where this one does."""
    chips: tuple[str, ...] = ()
    """Chips whose measurements made the constants; empty when the stack is not fitted."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def prices_steps(self) -> bool:
        """Whether its constants stand for whole steps, not for collectives that are timed alone."""
        return self.sources["mxu_efficiency"] != "not fitted"

    def exposed_fraction(self, local_s: float, communication_s: float) -> float:
        """The part of a block's collectives that local work does not hide: max(0, T_comm - ov * T_local) / T_comm."""
        if communication_s == 0:
            return 1.0
        return max(0.0, 1 - self.hides * local_s / communication_s)

    @property
    def hides(self) -> float:
        """Seconds of collectives that a second of local work of their block hides."""
        return 1.0 if self.overlap == "everything" else self.hidden_fraction

    def at_peak(self) -> "Stack":
        """This stack as if its kernels lost nothing: what it carries and visits, at the rates of the chip."""
        return replace(
            self,
            mxu_efficiency=1.0,
            hbm_efficiency=1.0,
            attention_efficiency=1.0,
            partial_overlap_tokens=0.0,
            sequence_layer_s=0.0,
            cached_token_layer_s=0.0,
        )


@cache
def stacks() -> tuple[Stack, ...]:
    """Every stack of stacks.toml: those that plans may name."""
    return _read("stacks.toml")


@cache
def measured_stacks() -> tuple[Stack, ...]:
    """Every stack of measured.toml: constants fitted to published measurements by benchmarks/fit.py."""
    return _read("measured.toml")


def step_stacks() -> tuple[Stack, ...]:
    """The stacks whose constants price whole steps, not collectives alone: those that a plan may be priced with."""
    return tuple(each for each in (*stacks(), *measured_stacks()) if each.prices_steps)


def stack(name: str) -> Stack:
    """The stack called `name`."""
    for catalogue in (stacks, measured_stacks):
        for each in catalogue():
            if each.name == name:
                return each
    known = (each.name for each in (*stacks(), *measured_stacks()))
    raise LookupError(f'unknown stack "{name}"; known are {", ".join(known)}')


def default_stack(chip_name: str, *, experts: bool = False) -> Stack:
    """The stack that stands for the rendered JAX packages of dense models, or of mixtures, on a chip until they are
    measured there. A chip without measurements borrows from its closest relative, or where nobody named one takes the
    book's."""
    return stack(_default(chip_name, experts)[0])


def accuracy_text(chip_name: str, priced: Stack, *, experts: bool = False) -> str:
    """What to expect of predictions for a chip that were priced with a stack; the scores are in docs/cost-models.md."""
    name, expectation = _default(chip_name, experts)
    if priced.name == name:
        return f"{name}: {expectation}"
    if priced.name == "book":
        return ": ".join(_UNMEASURED)
    return f"{priced.name}: constants of other software ({priced.title}), unmeasured on {chip_name}"


def _default(chip_name: str, experts: bool) -> tuple[str, str]:
    """The default stack of a chip, and what to expect of it."""
    if chip_name not in _DEFAULTS:
        return _UNMEASURED
    name, expectation = _DEFAULTS[chip_name]
    if experts:
        return _EXPERTS.get(chip_name, (name, "constants of dense models, unmeasured with experts"))
    return name, expectation


_V4, _V6E, _GPUS = "v4-looped-einsum", "v6e-sglang-jax", ("a100", "h100", "h200", "b200", "gb200")
_SERVED = "served steps of engines with CUDA graphs within 20 %; JAX adds launches, unmeasured"
_UNMEASURED = ("book", "rooflines at peak rates, a lower bound: published steps took 1 to 2 times as long, 3 at worst")
_DEFAULTS = {
    "v4": (_V4, "published steps within 10 % where collectives are looped by hand, 1.4 times as long else"),
    "v5p": (_V4, "constants of v4, where published steps are within 10 %; v5p itself is unmeasured"),
    "v5e": ("v5e-jax-llm-examples", "decode steps of a 70B model within 10 %; prefill and other models are unmeasured"),
    "v6e": (_V6E, "published steps of dense models within 15 %"),
    "7x": (_V6E, "constants of v6e, where published steps are within 15 %; those of 7x came out up to 51 % too long"),
    **dict.fromkeys(_GPUS, ("hopper-engines", _SERVED)),
    "cpu": ("cpu", "virtual devices share the host's cores: right within a factor of about two"),
}
_EXPERTS = {
    "v5e": (
        "v5e-jax-llm-examples-experts",
        "decode steps of DeepSeek-R1 within 10 %; all else is unmeasured",
    ),
    "v6e": (_V6E, "constants of dense models: with experts one model's prefill came out 59 % too short"),
    "7x": (_V6E, "constants of dense models on v6e: served steps with experts came out 5 to 20 % off"),
    **dict.fromkeys(_GPUS, ("hopper-engines", "constants of dense models: served steps with experts were 30 % off")),
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
