"""Counts that follow from the sizes of a model: parameters, and bytes of keys and values."""

from collections.abc import Mapping

from planner.spec.base import Dtype
from planner.spec.model import Mla, Model, Moe

DTYPE_BYTES: Mapping[Dtype, int] = {"float32": 4, "bf16": 2, "int8": 1}


def parameter_count(model: Model) -> int:
    """Learned numbers of the language model: no vision tower, no extra prediction layers, tied embeddings once."""
    embeddings = model.vocab * model.d_model * (1 if model.tied_embeddings else 2)
    moe_layers = model.layers - model.moe.dense_layers if model.moe else 0
    mlps = (model.layers - moe_layers) * _mlp(model, model.d_ff)
    if model.moe:
        mlps += moe_layers * _experts(model, model.moe)
    attention = _latent_attention(model, model.mla) if model.mla else _attention(model)
    return embeddings + model.layers * (attention + _layer_norms(model)) + mlps + _norm(model, model.d_model)


def kv_values_per_token(model: Model) -> int:
    """Numbers that one token leaves in the caches of all layers."""
    if model.mla:
        return model.layers * (model.mla.kv_rank + model.mla.rope_head_dim)
    return model.layers * 2 * model.kv_heads * model.head_dim


def kv_bytes_per_token(model: Model, dtype: Dtype) -> int:
    """Bytes that one token leaves in the caches of all layers, each taken as attending to everything, unpadded."""
    return kv_values_per_token(model) * DTYPE_BYTES[dtype]


def unpackaged_features(model: Model) -> tuple[str, ...]:
    """What no package is rendered for yet in this model; empty for a dense model of the llama architecture."""
    scaling = model.rope.scaling.type if model.rope.scaling else None
    features = {
        f"model family {model.family}": model.family not in ("llama", "mistral"),
        "mixture of experts": model.moe is not None,
        "latent attention": model.mla is not None,
        "sliding windows": model.sliding_window is not None,
        f"activation {model.activation}": model.activation != "silu" or not model.gated_mlp,
        f"{model.norm} norms": model.norm != "rms",
        "parallel attention and MLP": model.parallel_block,
        "norms after attention and MLP": model.post_norms,
        "query and key norms": model.qk_norm,
        "biases": model.qkv_bias or model.out_bias or model.mlp_bias,
        "attention sinks": model.attention_sinks,
        f"rope scaling {scaling}": scaling not in (None, "linear", "llama3"),
    }
    return tuple(feature for feature, present in features.items() if present)


def is_packaged(model: Model) -> bool:
    """Whether a package can be rendered: a dense model of the llama architecture."""
    return not unpackaged_features(model)


def _attention(model: Model) -> int:
    """Projections of one layer with ordinary heads, their biases, head norms and sinks."""
    q_width, kv_width = model.q_heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    weights = model.d_model * (2 * q_width + kv_width)
    biases = model.qkv_bias * (q_width + kv_width) + model.out_bias * model.d_model
    return weights + biases + model.qk_norm * 2 * model.head_dim + model.attention_sinks * model.q_heads


def _latent_attention(model: Model, mla: Mla) -> int:
    """Projections of one layer with latent attention, and the norms of its latents."""
    head = mla.nope_head_dim + mla.rope_head_dim
    if mla.q_rank is None:
        query = model.d_model * model.q_heads * head
    else:
        query = mla.q_rank * (model.d_model + 1 + model.q_heads * head)
    latent = model.d_model * (mla.kv_rank + mla.rope_head_dim) + mla.kv_rank
    expansion = mla.kv_rank * model.q_heads * (mla.nope_head_dim + mla.v_head_dim)
    return query + latent + expansion + model.q_heads * mla.v_head_dim * model.d_model


def _mlp(model: Model, width: int) -> int:
    """One dense MLP, or one expert, of hidden width `width`."""
    inputs = 2 if model.gated_mlp else 1
    return (inputs + 1) * model.d_model * width + model.mlp_bias * (inputs * width + model.d_model)


def _experts(model: Model, moe: Moe) -> int:
    """The experts of one layer, routed and shared, and their router."""
    router = moe.experts * (model.d_model + moe.router_bias)
    return router + (moe.experts + moe.shared_experts) * _mlp(model, moe.d_ff)


def _layer_norms(model: Model) -> int:
    """The norms of one layer on the residual stream."""
    before = 1 if model.parallel_block else 2
    return before * (2 if model.post_norms else 1) * _norm(model, model.d_model)


def _norm(model: Model, width: int) -> int:
    return width * (2 if model.norm == "layer" else 1)
