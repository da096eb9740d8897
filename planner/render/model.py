"""ModelSizes: what a rendered package needs to know of the model in a plan's resolved spec."""

from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from planner.errors import ShardwrightError
from planner.plan.schema import Plan
from planner.spec import Model, unpackaged_features
from planner.spec.model import RopeScaling

DTYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""Plan spelling of a dtype -> its name in jax.numpy."""
SIZES = (
    "layers",
    "d_model",
    "d_ff",
    "q_heads",
    "kv_heads",
    "head_dim",
    "vocab",
    "tied_embeddings",
    "norm_eps",
)
N = TypeVar("N", int, float)


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


def model_of(plan: Plan) -> Model:
    """The model section of a plan's resolved spec, with the dtypes that were taken; raises RenderError where it is not
    usable."""
    try:
        model = Model.model_validate(plan.spec.get("model"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RenderError(f"the plan's resolved spec has no usable model: {where}: {first['msg']}") from None
    taken = {} if plan.dtypes is None else dict(plan.dtypes)
    return model.model_copy(
        update={name: getattr(model, name).model_copy(update={"dtype": dtype}) for name, dtype in taken.items()}
    )


def refuse_unpackaged(model: Model) -> None:
    """Raise RenderError for models and dtypes that no package is rendered for yet, by name."""
    if features := unpackaged_features(model):
        raise RenderError(
            f"no package is rendered yet for {', '.join(features)}; packages cover dense models of the llama type"
        )


def read_model(plan: Plan) -> ModelSizes:
    """The model of `plan`; raises RenderError for a model that no package is rendered for."""
    model = model_of(plan)
    refuse_unpackaged(model)
    linear, llama3 = _scaling(model.rope.scaling)
    return ModelSizes(
        **{name: getattr(model, name) for name in SIZES},
        rope_theta=model.rope.theta,
        rope_linear_factor=linear,
        rope_llama3=llama3,
        weights_dtype=model.weights.chosen,
        activations_dtype=model.activations.dtype,
        kv_dtype=model.kv_cache.chosen,
    )


def _scaling(scaling: RopeScaling | None) -> tuple[float | None, Llama3Scaling | None]:
    """(linear factor, llama3 scaling); at most one of them is set."""
    if scaling is None:
        return None, None
    if scaling.type == "linear":
        return _given(scaling.factor, "factor"), None
    return None, Llama3Scaling(
        factor=_given(scaling.factor, "factor"),
        low_freq_factor=_given(scaling.low_freq_factor, "low_freq_factor"),
        high_freq_factor=_given(scaling.high_freq_factor, "high_freq_factor"),
        original_max_positions=_given(scaling.original_max_positions, "original_max_positions"),
    )


def _given(value: N | None, name: str) -> N:
    if value is None:
        raise RenderError(f"spec.model.rope.scaling has no {name}")
    return value
