"""ModelSizes: what a rendered package needs to know of the model in a plan's resolved spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import ShardwrightError
from planner.plan.schema import Plan

DTYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""Plan spelling of a dtype -> its name in jax.numpy."""
PACKAGED_FAMILIES = ("llama",)


class RenderError(ShardwrightError):
    """A plan that rendered packages do not support, or a folder that must not be written."""


@dataclass(frozen=True)
class Llama3Scaling:
    """Frequency-dependent stretch of rotary positions, as in Llama 3.1."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int


@dataclass(frozen=True)
class ModelSizes:
    """Sizes and dtypes of a llama-type dense model."""

    layers: int
    d_model: int
    d_ff: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    norm_eps: float
    rope_theta: float
    rope_linear_factor: float | None
    rope_llama3: Llama3Scaling | None
    weights_dtype: str
    activations_dtype: str
    kv_dtype: str

    @property
    def jax_dtypes(self) -> tuple[str, str, str]:
        """Names in jax.numpy of the dtypes of weights, activations and KV cache."""
        return DTYPES[self.weights_dtype], DTYPES[self.activations_dtype], DTYPES[self.kv_dtype]


def read_model(plan: Plan) -> ModelSizes:
    """The model of `plan`; raises RenderError, naming the field, for what is not packaged."""
    model = _mapping(plan.spec, "model")
    family = model.get("family")
    if family not in PACKAGED_FAMILIES:
        raise RenderError(f"spec.model.family {family} has no package yet; packaged: {', '.join(PACKAGED_FAMILIES)}")
    rope = _mapping(model, "rope")
    linear, llama3 = _scaling(rope.get("scaling"))
    sizes = {
        name: int(model[name]) for name in ("layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab")
    }
    return ModelSizes(
        **sizes,
        tied_embeddings=bool(model["tied_embeddings"]),
        norm_eps=float(model["norm_eps"]),
        rope_theta=float(rope["theta"]),
        rope_linear_factor=linear,
        rope_llama3=llama3,
        weights_dtype=_dtype(model, "weights", ("float32", "bf16", "int8")),
        activations_dtype=_dtype(model, "activations", ("float32", "bf16")),
        kv_dtype=_dtype(model, "kv_cache", ("float32", "bf16")),
    )


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if not isinstance(value, Mapping):
        raise RenderError(f"the plan's resolved spec has no section {key}")
    return value


def _dtype(model: Mapping[str, Any], part: str, packaged: tuple[str, ...]) -> str:
    dtype = str(_mapping(model, part).get("dtype"))
    if dtype not in packaged:
        raise RenderError(f"spec.model.{part}.dtype {dtype} has no package yet; packaged: {', '.join(packaged)}")
    return dtype


def _scaling(scaling: Mapping[str, Any] | None) -> tuple[float | None, Llama3Scaling | None]:
    """(linear factor, llama3 scaling); at most one of them is set."""
    if not scaling:
        return None, None
    match scaling.get("type"):
        case "linear":
            return float(scaling["factor"]), None
        case "llama3":
            return None, Llama3Scaling(
                factor=float(scaling["factor"]),
                low_freq_factor=float(scaling["low_freq_factor"]),
                high_freq_factor=float(scaling["high_freq_factor"]),
                original_max_positions=int(scaling["original_max_positions"]),
            )
        case other:
            raise RenderError(f"spec.model.rope.scaling type {other} has no package yet; packaged: linear, llama3")
