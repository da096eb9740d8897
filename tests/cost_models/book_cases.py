"""The cases of tests/reference/scaling_book.yaml, and the questions that put them to the cost models.

A question takes the inputs of a case and returns what the book answers. Where a case pins its own constants (a peak, a
bandwidth) it is asked of a v5e with those constants.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from cost_models.attention import generate_attention, prefill_attention
from cost_models.chips import Chip, chip
from cost_models.matmul import matmul, weights_pass
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK
from cost_models.torus import TorusAxis

REFERENCE = Path(__file__).parents[1] / "reference" / "scaling_book.yaml"

Inputs = Mapping[str, Any]
Question = Callable[[Inputs], Any]

QUESTIONS: dict[str, Question] = {}

V5E, V5P, H100 = chip("v5e"), chip("v5p"), chip("h100")
DTYPE_OF_BYTES = {4: "float32", 2: "bf16", 1: "int8", 0.5: "int4"}


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Every case of the book by its id."""
    return {case["id"]: case for case in YAML(typ="safe").load(REFERENCE)["cases"]}


def asks(*case_ids: str) -> Callable[[Question], Question]:
    """Register the decorated question for `case_ids`."""

    def register(question: Question) -> Question:
        assert not QUESTIONS.keys() & set(case_ids)
        QUESTIONS.update(dict.fromkeys(case_ids, question))
        return question

    return register


def with_constants(*, peak: float = 0, hbm: float = 0, link: float = 0) -> Chip:
    """A v5e with the peak of every dtype, the HBM or the link bandwidth replaced where one is given."""
    return replace(
        V5E,
        peak_flops_per_s=dict.fromkeys(V5E.peak_flops_per_s, peak) if peak else V5E.peak_flops_per_s,
        hbm_bytes_per_s=hbm or V5E.hbm_bytes_per_s,
        ici_bytes_per_s=link or V5E.ici_bytes_per_s,
    )


def pinned(inputs: Inputs) -> Chip:
    """A v5e with the constants that a case pins; the bandwidth of a wrapped axis is two links."""

    def first(*keys: str) -> float:
        return next((inputs[key] for key in keys if key in inputs), 0)

    return with_constants(
        peak=first("C", "peak_flops_per_s", "int8_ops_per_s"),
        hbm=first("W_hbm", "hbm_bytes_per_s", "bytes_per_s", "hbm_bw"),
        link=first("w_link", "link_bytes_per_s") or first("W_ici_bidi", "W_ici") / 2,
    )


def rings(*sizes: int) -> tuple[TorusAxis, ...]:
    return tuple(TorusAxis(name, size, wraps=True) for name, size in zip("xyz", sizes, strict=False))


def lines(*sizes: int) -> tuple[TorusAxis, ...]:
    return tuple(TorusAxis(name, size, wraps=False) for name, size in zip("xyz", sizes, strict=False))


def intensity(roofline: Roofline, on: Chip = V5E) -> float:
    """bf16 operations per HBM byte of a roofline."""
    return roofline.compute_s * on.flops_per_s("bf16") / (roofline.hbm_s * on.hbm_bytes_per_s)


def multiply(rows: float, d: float, f: float, on: Chip = V5E, each: float = 2) -> Roofline:
    """A matmul of weights and activations of `each` bytes."""
    sizes = {"weight_bytes_per_element": each, "activation_bytes_per_element": each}
    return matmul(rows, d, f, compute_dtype="bf16", chip=on, **sizes)


def weights(rows: float, parameters: float, on: Chip = V5E, each: float = 2, mfu: float = 1) -> Roofline:
    """All matmuls of `parameters` weights of `each` bytes, at a fraction `mfu` of the peak."""
    stack = replace(BOOK, mxu_efficiency=mfu)
    return weights_pass(rows, parameters, weight_bytes_per_element=each, compute_dtype="bf16", chip=on, stack=stack)


def attend(tokens: float, context: float, groups: float, on: Chip = V5E) -> Roofline:
    """Unmasked attention of one KV head of size 1 and `groups` query heads."""
    sizes = {"activation_bytes_per_element": 2, "kv_bytes_per_element": 2}
    return prefill_attention(tokens, context, groups, 1, 1, compute_dtype="bf16", chip=on, causal=False, **sizes)


def attend_once(context: float, groups: float) -> Roofline:
    """Attention of one new token, of one KV head of size 1 and `groups` query heads."""
    sizes = {"activation_bytes_per_element": 2, "kv_bytes_per_element": 2}
    return generate_attention(1, context, groups, 1, 1, compute_dtype="bf16", chip=V5E, **sizes)
