# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Checkpoints: GGUF files and safetensors under Hugging Face's names, checked whole before anything is loaded.

Files are mapped into memory, so a host reads the rows and columns that its own chips hold, and no more.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .config import Config

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
READABLE = frozenset({"F32", "BF16", "F16", "I8"})
"""Dtypes of safetensors that this package reads."""
SCALE = "_scale"
"""What an int8 tensor's scales, one for each output, are called after the tensor's own name."""
EVERYTHING = slice(None)


class CheckpointError(ValueError):
    """A file that does not hold the planned model."""


class Checkpoint(Protocol):
    """Named matrices of a model, each [outputs, inputs] (norms: [d_model])."""

    def read(
        self, part: str, layer: int | None = None, rows: slice = EVERYTHING, columns: slice = EVERYTHING
    ) -> np.ndarray:
        """Some rows and columns of a matrix, as floats, or as int8 where that is what is stored."""

    def scales(self, part: str, layer: int | None, rows: slice = EVERYTHING) -> np.ndarray | None:
        """float32 scales of some rows of a matrix that is stored as int8; None for one that is not."""


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
        found = {name: tuple(int(size) for size in reversed(each.shape)) for name, each in self._tensors.items()}
        _check(path, {name: shape for name, shape in found.items() if name not in DERIVED}, GGUF, "blk", config)

    def read(
        self, part: str, layer: int | None = None, rows: slice = EVERYTHING, columns: slice = EVERYTHING
    ) -> np.ndarray:
        """Some rows (whole heads of queries and keys) and columns, queries and keys in half-split rotary order."""
        tensor = self._tensors[_name(GGUF, "blk", part, layer)]
        matrix: np.ndarray = self._dequantize(tensor.data[rows], tensor.tensor_type)
        if part in ("q", "k"):
            # The file interleaves each head's rotary halves.
            pairs = matrix.reshape(-1, self._config.head_dim // 2, 2, matrix.shape[1])
            matrix = pairs.swapaxes(1, 2).reshape(matrix.shape)
        return matrix if matrix.ndim == 1 else matrix[:, columns]

    def scales(self, part: str, layer: int | None, rows: slice = EVERYTHING) -> np.ndarray | None:
        """None: what the file quantises is dequantised block by block."""
        return None


class SafetensorsCheckpoint:
    """Hugging Face llama weights: one safetensors file, or a folder with one or with an index of several."""

    def __init__(self, path: Path, config: Config) -> None:
        """The file or folder at `path`, checked against the planned sizes and dtypes."""
        from safetensors import safe_open

        self._slices: dict[str, Any] = {}
        for shard in _shards(path):
            file: Any = safe_open(shard, framework="numpy")
            self._slices |= {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        shapes = {name: tuple(each.get_shape()) for name, each in self._slices.items()}
        dtypes = {name: str(each.get_dtype()) for name, each in self._slices.items()}
        quantised = {f"{name}{SCALE}" for name, dtype in dtypes.items() if dtype == "I8"}
        weights = {name: shape for name, shape in shapes.items() if name not in quantised}
        told = [f"{name} is {dtypes[name]}" for name in weights if dtypes[name] not in READABLE]
        told += [f"{name} is missing, the scales of int8 values" for name in sorted(quantised - set(shapes))]
        _check(path, weights, HUGGING_FACE, "model.layers", config, told)

    def read(
        self, part: str, layer: int | None = None, rows: slice = EVERYTHING, columns: slice = EVERYTHING
    ) -> np.ndarray:
        """Some rows and columns as they are stored."""
        tensor = self._slices[_name(HUGGING_FACE, "model.layers", part, layer)]
        found: np.ndarray = tensor[rows] if len(tensor.get_shape()) == 1 else tensor[rows, columns]
        return found

    def scales(self, part: str, layer: int | None, rows: slice = EVERYTHING) -> np.ndarray | None:
        """float32 scales of some rows of an int8 matrix."""
        name = _name(HUGGING_FACE, "model.layers", part, layer)
        if self._slices[name].get_dtype() != "I8":
            return None
        found: np.ndarray = self._slices[f"{name}{SCALE}"][rows].astype(np.float32)
        return found.reshape(-1)


class RandomCheckpoint:
    """Random matrices of the right shapes, the same for the same seed."""

    def __init__(self, config: Config, seed: int = 0) -> None:
        """Matrices for a model of the sizes of `config`."""
        self._config, self._seed = config, seed

    def read(
        self, part: str, layer: int | None = None, rows: slice = EVERYTHING, columns: slice = EVERYTHING
    ) -> np.ndarray:
        """Some rows and columns of normal numbers scaled by 1 / sqrt(inputs); norms are near one."""
        shape = shape_of(self._config, part)
        number = [*HUGGING_FACE].index(part)
        random = np.random.default_rng((self._seed, number, 0 if layer is None else layer + 1))
        values = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            return 1 + np.float32(0.1) * values[rows]
        return values[rows, columns] * np.float32(shape[1] ** -0.5)

    def scales(self, part: str, layer: int | None, rows: slice = EVERYTHING) -> np.ndarray | None:
        """None: the matrices are floats."""
        return None


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
        if absent := sorted(name for name in names if not (path / name).is_file()):
            raise CheckpointError(f"{index} names {', '.join(absent)}, which {path} does not hold")
        return [path / name for name in sorted(names)]
    if (path / "model.safetensors").is_file():
        return [path / "model.safetensors"]
    raise CheckpointError(f"{path} holds neither model.safetensors nor model.safetensors.index.json")


def _name(names: Mapping[str, str], layers: str, part: str, layer: int | None) -> str:
    return names[part] if layer is None else f"{layers}.{layer}.{names[part]}"


def shape_of(config: Config, part: str) -> tuple[int, ...]:
    """The planned shape of a matrix, [outputs, inputs]."""
    d_model, q, kv = config.d_model, config.q_heads * config.head_dim, config.kv_heads * config.head_dim
    shapes = {"q": (q, d_model), "k": (kv, d_model), "v": (kv, d_model), "o": (d_model, q)}
    shapes |= {"gate": (config.d_ff, d_model), "up": (config.d_ff, d_model), "down": (d_model, config.d_ff)}
    shapes |= {"embedding": (config.vocab, d_model), "lm_head": (config.vocab, d_model)}
    return shapes.get(part, (d_model,))


def _planned(names: Mapping[str, str], layers: str, config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(name, shape) of all tensors of the planned model."""
    for part in ("embedding", "final_norm", "lm_head"):
        yield names[part], shape_of(config, part)
    for layer in range(config.layers):
        for part in LAYER_PARTS:
            yield _name(names, layers, part, layer), shape_of(config, part)


def _check(
    path: Path,
    found: Mapping[str, tuple[int, ...]],
    names: Mapping[str, str],
    layers: str,
    config: Config,
    told: list[str] | None = None,
) -> None:
    """Raise CheckpointError that lists every way in which a file's tensors are not the planned model's."""
    planned = dict(_planned(names, layers, config))
    unknown = set(found) - set(planned)
    wrong = list(told or [])
    wrong += [f"{name} is missing" for name in planned if name not in found]
    wrong += [f"{name} is no part of the planned model" for name in sorted(unknown)]
    wrong += [
        f"{name} is {found[name]}; the plan has {shape}"
        for name, shape in planned.items()
        if found.get(name, shape) != shape
    ]
    if wrong:
        raise CheckpointError(f"{path} does not hold the planned model:\n" + "\n".join(f"  {line}" for line in wrong))
