# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The same model in plain NumPy: whole, unpadded, float32."""

from collections.abc import Sequence

import numpy as np

from ..checkpoint import Checkpoint
from ..config import NORM_EPS, Config
from ..loading import quantise
from ..model import rope_frequencies


class PlainModel:
    """Logits of a checkpoint's model."""

    def __init__(self, checkpoint: Checkpoint, config: Config) -> None:
        """The model of `checkpoint`, of the sizes of `config`."""
        self._checkpoint, self._config = checkpoint, config

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """[tokens, vocab]: the logits after each of `ids`."""
        embedding = self._read("embedding")
        x = embedding[list(ids)]
        for layer in range(self._config.layers):
            x = x + self._attention(layer, _norm(x, self._read("attention_norm", layer)))
            h = _norm(x, self._read("mlp_norm", layer))
            gate, up = h @ self._read("gate", layer).T, h @ self._read("up", layer).T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self._read("down", layer).T
        x = _norm(x, self._read("final_norm"))
        return np.asarray(x @ self._read("lm_head").T)

    def _attention(self, layer: int, h: np.ndarray) -> np.ndarray:
        config, tokens = self._config, h.shape[0]
        q, k, v = ((h @ self._read(part, layer).T).reshape(tokens, -1, config.head_dim) for part in ("q", "k", "v"))
        group = config.q_heads // config.kv_heads
        q, k, v = _rotate(q), np.repeat(_rotate(k), group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(config.head_dim)
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out = np.einsum("hqk,khd->qhd", weights / weights.sum(axis=-1, keepdims=True), v)
        return np.asarray(out.reshape(tokens, -1) @ self._read("o", layer).T)

    def _read(self, part: str, layer: int | None = None) -> np.ndarray:
        matrix = self._checkpoint.read(part, layer).astype(np.float32)
        if matrix.ndim == 1:
            return matrix
        values, scales = quantise(matrix, (1,))
        return np.asarray(values * scales[:, None])


def _norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + NORM_EPS) * weight)


def _rotate(x: np.ndarray) -> np.ndarray:
    angles = np.arange(x.shape[0])[:, None, None] * rope_frequencies(x.shape[2])
    first, second = np.split(x, 2, axis=2)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=2)
