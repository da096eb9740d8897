# Rendered from plan.yaml (sha256 4c93cc8a). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Weights from a GGUF file or safetensors, padded, quantised and placed as the plan says.

Host memory holds one stacked array at a time; each chip is given its own part of it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh

from .config import Config
from .sharding import GENERATE
from .weights import Layer, Weights, abstract_weights

LAYER_PARTS = ("attention_norm", "q", "k", "v", "o", "mlp_norm", "gate", "up", "down")
HUGGING_FACE = {
    "embedding": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "lm_head": "lm_head.weight",
    "attention_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
GGUF = {
    "embedding": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "lm_head": "output.weight",
    "attention_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "mlp_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}
DERIVED = frozenset({"rope_freqs.weight"})
"""GGUF tensors that follow from the model's sizes, which the plan holds."""


class CheckpointError(ValueError):
    """A file that does not hold the planned model."""


class Checkpoint(Protocol):
    """Named matrices of a model, each [outputs, inputs] (norms: [d_model])."""

    def read(self, part: str, layer: int | None = None) -> np.ndarray:
        """One matrix as float32 or bfloat16."""


class GgufCheckpoint:
    """A llama-architecture GGUF file; its blocks are dequantised to float32."""

    def __init__(self, path: Path, config: Config) -> None:
        """The file at `path`, checked against the planned sizes."""
        import gguf

        self._dequantize = gguf.quants.dequantize
        self._config = config
        reader = gguf.GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        architecture = reader.fields["general.architecture"].contents()
        if architecture != "llama":
            raise CheckpointError(f"{path} holds a {architecture} model; this package runs llama")
        _check_names(path, set(self._tensors) - DERIVED, _expected(GGUF, "blk", config))

    def read(self, part: str, layer: int | None = None) -> np.ndarray:
        """One matrix, query and key rows in half-split rotary order."""
        tensor = self._tensors[_name(GGUF, "blk", part, layer)]
        matrix: np.ndarray = self._dequantize(tensor.data, tensor.tensor_type)
        if part in ("q", "k"):
            # The file interleaves each head's rotary halves; query and key have head counts of their own.
            heads = self._config.q_heads if part == "q" else self._config.kv_heads
            pairs = matrix.reshape(heads, self._config.head_dim // 2, 2, -1)
            matrix = pairs.swapaxes(1, 2).reshape(matrix.shape)
        return matrix


class SafetensorsCheckpoint:
    """Hugging Face llama weights: one safetensors file, or a folder with one or with an index of several."""

    def __init__(self, path: Path, config: Config) -> None:
        """The file or folder at `path`, checked against the planned sizes."""
        from safetensors import safe_open

        self._files = {
            name: file
            for file in (safe_open(shard, framework="numpy") for shard in _shards(path))
            for name in file.keys()  # noqa: SIM118
        }
        _check_names(path, set(self._files), _expected(HUGGING_FACE, "model.layers", config))

    def read(self, part: str, layer: int | None = None) -> np.ndarray:
        """One matrix as it is stored."""
        name = _name(HUGGING_FACE, "model.layers", part, layer)
        matrix: np.ndarray = self._files[name].get_tensor(name)
        return matrix


class RandomCheckpoint:
    """Random matrices of the right shapes, the same for the same seed."""

    def __init__(self, config: Config, seed: int = 0) -> None:
        """Matrices for a model of the sizes of `config`."""
        self._config, self._seed = config, seed

    def read(self, part: str, layer: int | None = None) -> np.ndarray:
        """One matrix of normal numbers scaled by 1 / sqrt(inputs); norms are near one."""
        shape = _shape(self._config, part)
        number = [*HUGGING_FACE].index(part)
        random = np.random.default_rng((self._seed, number, 0 if layer is None else layer + 1))
        values = random.standard_normal(shape, dtype=np.float32)
        return 1 + 0.1 * values if len(shape) == 1 else values * np.float32(shape[1] ** -0.5)


def open_checkpoint(path: Path, config: Config) -> Checkpoint:
    """The checkpoint at `path`: a .gguf file, a .safetensors file, or a folder of safetensors."""
    if not path.exists():
        raise CheckpointError(f"no weights at {path}")
    return GgufCheckpoint(path, config) if path.suffix == ".gguf" else SafetensorsCheckpoint(path, config)


def _shards(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return [path / name for name in sorted(names)]
    if (path / "model.safetensors").is_file():
        return [path / "model.safetensors"]
    raise CheckpointError(f"{path} holds neither model.safetensors nor model.safetensors.index.json")


def _name(names: dict[str, str], layers: str, part: str, layer: int | None) -> str:
    return names[part] if layer is None else f"{layers}.{layer}.{names[part]}"


def _expected(names: dict[str, str], layers: str, config: Config) -> set[str]:
    """Names of all tensors of the planned model."""
    whole = {names["embedding"], names["final_norm"], names["lm_head"]}
    return whole | {_name(names, layers, part, layer) for layer in range(config.layers) for part in LAYER_PARTS}


def _check_names(path: Path, found: set[str], expected: set[str]) -> None:
    if missing := sorted(expected - found):
        raise CheckpointError(f"{path} lacks {len(missing)} of the planned model's tensors, such as {missing[0]}")
    unknown = sorted(found - expected)
    if unknown:
        raise CheckpointError(f"{path} holds what the planned model lacks ({len(unknown)}), such as {unknown[0]}")


def _shape(config: Config, part: str) -> tuple[int, ...]:
    """The planned shape of a matrix, [outputs, inputs]."""
    d_model, q, kv = config.d_model, config.q_heads * config.head_dim, config.kv_heads * config.head_dim
    shapes = {"q": (q, d_model), "k": (kv, d_model), "v": (kv, d_model), "o": (d_model, q)}
    shapes |= {"gate": (config.d_ff, d_model), "up": (config.d_ff, d_model), "down": (d_model, config.d_ff)}
    shapes |= {"embedding": (config.vocab, d_model), "lm_head": (config.vocab, d_model)}
    return shapes.get(part, (d_model,))


def _pad(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """`array` with zeros added at the end of `axis` up to `size`."""
    padding = [(0, 0)] * array.ndim
    padding[axis] = (0, size - array.shape[axis])
    return np.pad(array, padding)


def _store_q_heads(config: Config, heads: np.ndarray, kv_shards: int) -> np.ndarray:
    """`heads` [q_heads, ...] as stored: the heads of each shard's KV heads, then zero heads up to an equal share."""
    rest = heads.shape[1:]
    groups = _pad(heads.reshape(config.kv_heads, -1, *rest), 0, config.kv_heads_stored)
    shards = groups.reshape(kv_shards, -1, *rest)
    return _pad(shards, 1, config.q_heads_stored // kv_shards).reshape(-1, *rest)


class _Stored:
    """The stored arrays of a model, made layer by layer from a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, config: Config, kv_shards: int) -> None:
        self._checkpoint, self._config, self._kv_shards = checkpoint, config, kv_shards

    def _read(self, part: str, layer: int | None) -> np.ndarray:
        matrix = self._checkpoint.read(part, layer)
        if matrix.shape != (planned := _shape(self._config, part)):
            raise CheckpointError(f"{part} is {matrix.shape} in the checkpoint; the planned model has {planned}")
        return matrix

    def norm(self, part: str, layer: int | None = None) -> np.ndarray:
        return self._read(part, layer)

    def vocabulary(self, part: str) -> np.ndarray:
        return _pad(self._read(part, None), 0, self._config.vocab_stored)

    def w_q(self, layer: int) -> np.ndarray:
        heads = self._read("q", layer).reshape(self._config.q_heads, self._config.head_dim, -1)
        return _store_q_heads(self._config, heads, self._kv_shards)

    def w_kv(self, layer: int) -> np.ndarray:
        shape = (self._config.kv_heads, self._config.head_dim, -1)
        pairs = np.stack([self._read(part, layer).reshape(shape) for part in ("k", "v")], axis=1)
        stored = _pad(pairs, 0, self._config.kv_heads_stored)
        return stored.reshape(-1, *stored.shape[2:])

    def w_o(self, layer: int) -> np.ndarray:
        heads = self._read("o", layer).T.reshape(self._config.q_heads, self._config.head_dim, -1)
        return _store_q_heads(self._config, heads, self._kv_shards)

    def w_in(self, layer: int) -> np.ndarray:
        gate_up = np.stack([self._read("gate", layer).T, self._read("up", layer).T], axis=1)
        return _pad(gate_up, 2, self._config.d_ff_stored)

    def w_down(self, layer: int) -> np.ndarray:
        return _pad(self._read("down", layer).T, 0, self._config.d_ff_stored)


def quantise(weight: np.ndarray, summed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(int8 values, float32 scales): one scale per output channel, the largest magnitude over the `summed` axes."""
    wide = weight.astype(np.float32)
    largest = np.abs(wide).max(axis=summed, keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(wide / scale).astype(np.int8), scale.squeeze(summed)


def _place(array: jax.ShapeDtypeStruct, host: np.ndarray) -> jax.Array:
    """`host` on the chips, each holding its part."""
    if host.shape != array.shape:
        raise AssertionError(f"made {host.shape} where {array.shape} is stored")
    return jax.make_array_from_callback(array.shape, array.sharding, lambda index: host[index])


def _stack(abstract: Any, make: Callable[[int], np.ndarray]) -> np.ndarray:
    """The arrays of all layers in one, in the stored dtype."""
    host = np.empty(abstract.shape, abstract.dtype)
    for layer in range(abstract.shape[0]):
        host[layer] = make(layer)
    return host


def load_weights(checkpoint: Checkpoint, config: Config, mesh: Mesh) -> Weights:
    """The model of `checkpoint` on the chips of `mesh`."""
    return Weights(**dict(_arrays(checkpoint, config, mesh)))


def _arrays(checkpoint: Checkpoint, config: Config, mesh: Mesh) -> Iterator[tuple[str, Any]]:
    """(field of Weights, its arrays on the chips)."""
    abstract = abstract_weights(config, mesh)
    kv_shards = int(np.prod([mesh.shape[axis] for axis in GENERATE.kv_heads], dtype=int))
    stored = _Stored(checkpoint, config, kv_shards)
    yield "final_norm", _place(abstract.final_norm, stored.norm("final_norm").astype(np.float32))
    for part in ("embedding", "lm_head"):
        _say(f"loading {part}")
        values, scales = quantise(stored.vocabulary(part), (1,))
        yield part, _place(getattr(abstract, part), values)
        yield f"{part}_scale", _place(getattr(abstract, f"{part}_scale"), scales)
    yield "layers", Layer(**dict(_layer_arrays(stored, abstract.layers)))


def _layer_arrays(stored: _Stored, abstract: Layer) -> Iterator[tuple[str, jax.Array]]:
    """(field of Layer, the array of all layers on the chips), one at a time."""
    for norm in ("attention_norm", "mlp_norm"):
        target = getattr(abstract, norm)
        yield norm, _place(target, _stack(target, partial(stored.norm, norm)))
    summed = {"w_q": (2,), "w_kv": (2,), "w_o": (0, 1), "w_in": (0,), "w_down": (0,)}
    for name, axes in summed.items():
        _say(f"loading and quantising {name} of {abstract.w_q.shape[0]} layers")
        target, target_scale = getattr(abstract, name), getattr(abstract, f"{name}_scale")
        host, scales = np.empty(target.shape, np.int8), np.empty(target_scale.shape, np.float32)
        for layer in range(target.shape[0]):
            host[layer], scales[layer] = quantise(getattr(stored, name)(layer), axes)
        yield name, _place(target, host)
        yield f"{name}_scale", _place(target_scale, scales)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
