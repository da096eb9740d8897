"""The model of a case as the cost models know it: dense, with experts, with latents, with windows."""

from collections.abc import Mapping
from typing import Any

from cost_models.blocks import AttentionKind
from cost_models.mla import Latent
from cost_models.moe import Mixture
from cost_models.transformer import Transformer

WINDOWS = {
    "128 on every other layer": (128, 0.5),
    "4096 on every other layer": (4096, 0.5),
    "8192-token chunks on 3 of 4 layers": (8192, 0.75),
}
"""What cases say of windows: tokens, and the part of the layers that has one. A chunk counts as a window."""


class Skipped(Exception):
    """A case that the model does not express; the message is the reason."""


def read_model(row: Mapping[str, Any]) -> Transformer:
    """The model of a row; raises Skipped with what is missing."""
    model = row["model"]
    if model is None:
        raise Skipped("no model given")
    latent, mixture = _latent(model), _mixture(model)
    needed = ["n_layers", "d_model", "d_ff", "n_heads", "n_kv_heads"] + ([] if latent else ["d_head"])
    if any(model.get(key) is None for key in needed):
        raise Skipped("model dimensions incomplete")
    return Transformer(
        layers=model["n_layers"],
        d_model=model["d_model"],
        d_ff=model["d_ff"],
        q_heads=model.get("n_heads_padded_to") or model["n_heads"],
        kv_heads=_padded_kv_heads(model),
        head_dim=latent.query_head_dim if latent else model["d_head"],
        vocab=0 if row["family"] == "esti-f8" else model["vocab"],
        gated=model["ffn_act"] in ("swiglu", "geglu"),
        parallel_block=bool(model["parallel_block"]),
        mixture=mixture,
        latent=latent,
        attention=_attention(model),
    )


def _padded_kv_heads(model: Mapping[str, Any]) -> int:
    """KV heads as stored; a multihead model pads them with its query heads."""
    if model["n_kv_heads"] == model["n_heads"]:
        return int(model.get("n_heads_padded_to") or model["n_kv_heads"])
    return int(model["n_kv_heads"])


def _mixture(model: Mapping[str, Any]) -> Mixture | None:
    """Routed and shared experts, all of one width."""
    moe = model.get("moe")
    if not moe:
        return None
    if any(moe.get(key) is None for key in ("n_experts", "top_k", "d_ff_expert")):
        raise Skipped("sizes of experts incomplete")
    shared = (moe.get("n_shared_experts") or 0) * moe["d_ff_expert"]
    return Mixture(moe["n_experts"], moe["top_k"], moe["d_ff_expert"], shared, moe.get("n_dense_layers") or 0)


def _latent(model: Mapping[str, Any]) -> Latent | None:
    """Sizes of latent attention."""
    if model.get("attention") != "MLA":
        return None
    mla = model["mla"]
    return Latent(mla["kv_lora"], mla["qk_rope"], mla["qk_nope"], mla["v_head"], mla["q_lora"])


def _attention(model: Mapping[str, Any]) -> tuple[AttentionKind, ...]:
    """Layers with a window, and the others."""
    stated = model.get("sliding_window") or model.get("chunked_attention")
    if stated is None:
        return ()
    if stated not in WINDOWS:
        raise Skipped(f"window not understood: {stated}")
    window, part = WINDOWS[stated]
    local = round(model["n_layers"] * part)
    return AttentionKind(local, window), AttentionKind(model["n_layers"] - local)
