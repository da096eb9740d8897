"""Dtypes that a spec leaves to the solver: `dtype: [bf16, int8]` of weights, of the KV cache, or of both."""

from itertools import product

from planner.spec.base import Dtype
from planner.spec.schema import Spec


def leaves_dtypes_open(spec: Spec) -> bool:
    """Whether a dtype of the spec is a list."""
    return isinstance(spec.model.weights.dtype, tuple) or isinstance(spec.model.kv_cache.dtype, tuple)


def with_dtypes(spec: Spec, weights: Dtype, kv_cache: Dtype) -> Spec:
    """The spec with these dtypes, and no other choice."""
    model = spec.model
    changes = {
        "weights": model.weights.model_copy(update={"dtype": weights}),
        "kv_cache": model.kv_cache.model_copy(update={"dtype": kv_cache}),
    }
    return spec.model_copy(update={"model": model.model_copy(update=changes)})


def resolutions(spec: Spec) -> tuple[Spec, ...]:
    """The spec with each choice of dtypes, those of weights slowest, in the order in which they are written."""
    if not leaves_dtypes_open(spec):
        return (spec,)
    pairs = product(spec.model.weights.allowed, spec.model.kv_cache.allowed)
    return tuple(with_dtypes(spec, weights, kv_cache) for weights, kv_cache in pairs)
