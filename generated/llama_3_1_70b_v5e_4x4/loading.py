# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Weights from a checkpoint onto the chips: padded, quantised and cut as the plan says.

Each block of an array that chips of this host hold is read and placed by itself, so host memory holds one block of one
array at a time, and no host reads what its chips do not need.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from .checkpoint import EVERYTHING, Checkpoint
from .config import Config
from .weights import Copies, Layer, Weights, abstract_weights

Box = tuple[slice, ...]
Make = Callable[[int, Box], np.ndarray]
Arrays = tuple[np.ndarray, np.ndarray]
SUMMED = {"w_q": (2,), "w_kv": (2,), "w_o": (0, 1), "w_in": (1,), "w_down": (0,)}
"""Dimensions of one layer's weight over which products are summed: a scale is the same along them."""


def load_weights(checkpoint: Checkpoint, config: Config, mesh: Mesh) -> Weights:
    """The model of `checkpoint` on the chips of `mesh`."""
    abstract = abstract_weights(config, mesh)
    stored = Stored(checkpoint, config, range(config.kv_heads_stored))
    copied = Stored(checkpoint, config.for_prefill, config.read_kv_heads)
    return Weights(
        layers=Layer(**dict(_layer_arrays(stored, abstract.layers))),
        prefill_layers=Copies(**dict(_matrices(copied, abstract.prefill_layers))),
        **dict(_whole_arrays(stored, abstract)),
    )


class Stored:
    """The stored arrays of a model, block by block: of one layer, a box of an array as weights.py declares it."""

    def __init__(self, checkpoint: Checkpoint, config: Config, kv_heads: Sequence[int]) -> None:
        """The arrays of `checkpoint`, `kv_heads` in this order; those beyond the model's are zeros."""
        self._checkpoint, self._config = checkpoint, config
        self._kv_heads = [head if head < config.kv_heads else None for head in kv_heads]
        self._q_heads = stored_q_heads(config, self._kv_heads)

    def norm(self, part: str, layer: int | None, box: Box) -> np.ndarray:
        """A norm's weights."""
        return self._checkpoint.read(part, layer, box[0])

    def vocabulary(self, part: str, box: Box) -> np.ndarray:
        """Rows of the embedding or the output matrix."""
        return self._rows(part, None, box[0], box[1], self._config.vocab)

    def w_q(self, layer: int, box: Box) -> np.ndarray:
        """[q_heads, head_dim, d_model]."""
        return self._heads(layer, [("q", head) for head in self._q_heads[box[0]]], box)

    def w_kv(self, layer: int, box: Box) -> np.ndarray:
        """[2 * kv_heads, head_dim, d_model]."""
        numbers = range(2 * len(self._kv_heads))[box[0]]
        return self._heads(layer, [("kv"[i % 2], self._kv_heads[i // 2]) for i in numbers], box)

    def w_o(self, layer: int, box: Box) -> np.ndarray:
        """[q_heads, head_dim, d_model]."""
        return np.stack([self._o_head(layer, head, box[2]) for head in self._q_heads[box[0]]])

    def w_in(self, layer: int, box: Box) -> np.ndarray:
        """[2, d_model, d_ff]."""
        parts = ("gate", "up")[box[0]]
        return np.stack([self._rows(part, layer, box[2], box[1], self._config.d_ff).T for part in parts])

    def w_down(self, layer: int, box: Box) -> np.ndarray:
        """[d_ff, d_model]."""
        real = _cut(box[0], self._config.d_ff)
        found = self._checkpoint.read("down", layer, box[1], real).T
        return _pad(found, box[0].stop - box[0].start)

    def quantised(self, name: str, layer: int, box: Box) -> Arrays:
        """(int8 values, float32 scales) of a box: as the file has them, or made here from whole outputs."""
        read = getattr(self, name)
        found: np.ndarray = read(layer, box)
        if found.dtype == np.int8:
            return found, self._file_scales(name, layer, box)
        shape, summed = self._shape(name), SUMMED[name]
        whole = tuple(slice(0, shape[dim]) if dim in summed else each for dim, each in enumerate(box))
        values, scales = quantise(found if whole == box else read(layer, whole), summed)
        own = tuple(each if dim in summed else EVERYTHING for dim, each in enumerate(box))
        return values[own], scales

    def quantised_vocabulary(self, part: str, box: Box) -> Arrays:
        """(int8 values, float32 scales) of rows of the embedding or the output matrix."""
        found = self.vocabulary(part, box)
        if found.dtype != np.int8:
            return quantise(found, (1,))
        return found, self._scale_rows(part, None, box[0], self._config.vocab)

    def _file_scales(self, name: str, layer: int, box: Box) -> np.ndarray:
        """The scales of an int8 box that the file has."""
        if name in ("w_o", "w_down"):
            return self._scale_rows("o" if name == "w_o" else "down", layer, box[-1], self._config.d_model)
        if name == "w_in":
            parts = ("gate", "up")[box[0]]
            return np.stack([self._scale_rows(part, layer, box[2], self._config.d_ff) for part in parts])
        numbers = range(2 * len(self._kv_heads))
        pairs = [("kv"[i % 2], self._kv_heads[i // 2]) for i in numbers]
        heads = [("q", head) for head in self._q_heads] if name == "w_q" else pairs
        return np.stack([self._head_scales(part, layer, head) for part, head in heads[box[0]]])

    def _head_scales(self, part: str, layer: int, head: int | None) -> np.ndarray:
        """The scales of a head's rows, ones for a zero head."""
        if head is None:
            return np.ones(self._config.head_dim, np.float32)
        return self._scale_rows(part, layer, self._head_rows(head), None)

    def _scale_rows(self, part: str, layer: int | None, rows: slice, size: int | None) -> np.ndarray:
        """Scales of rows, ones beyond the real `size`."""
        found = self._checkpoint.scales(part, layer, rows if size is None else _cut(rows, size))
        assert found is not None
        return np.concatenate([found, np.ones(rows.stop - rows.start - found.shape[0], np.float32)])

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of one layer's stored array."""
        config = self._config
        return {
            "w_q": (config.q_heads_stored, config.head_dim, config.d_model),
            "w_kv": (2 * config.kv_heads_stored, config.head_dim, config.d_model),
            "w_o": (config.q_heads_stored, config.head_dim, config.d_model),
            "w_in": (2, config.d_model, config.d_ff_stored),
            "w_down": (config.d_ff_stored, config.d_model),
        }[name]

    def _rows(self, part: str, layer: int | None, rows: slice, columns: slice, size: int) -> np.ndarray:
        """Rows of a matrix that has `size` of them, zeros beyond."""
        found = self._checkpoint.read(part, layer, _cut(rows, size), columns)
        return _pad(found, rows.stop - rows.start)

    def _heads(self, layer: int, heads: list[tuple[str, int | None]], box: Box) -> np.ndarray:
        """Heads of projections stacked, each (part, head); None is a zero head."""
        real = {
            (part, head): self._checkpoint.read(part, layer, self._head_rows(head), box[2])
            for part, head in heads
            if head is not None
        }
        shape = self._config.head_dim, box[2].stop - box[2].start
        dtype = next(iter(real.values())).dtype if real else np.float32
        zeros = np.zeros(shape, dtype)
        return np.stack([zeros if head is None else real[part, head] for part, head in heads])

    def _o_head(self, layer: int, head: int | None, rows: slice) -> np.ndarray:
        """[head_dim, d_model] of one query head's output projection; None is a zero head."""
        columns = self._head_rows(head or 0)
        found = self._checkpoint.read("o", layer, rows, columns).T
        return np.zeros_like(found) if head is None else found

    def _head_rows(self, head: int) -> slice:
        return slice(head * self._config.head_dim, (head + 1) * self._config.head_dim)


def stored_q_heads(config: Config, kv_heads: Sequence[int | None]) -> list[int | None]:
    """The query head stored at each place: those of each shard's KV heads, then zero heads (None) up to its share."""
    group, share = config.q_heads // config.kv_heads, config.q_heads_stored // config.kv_shards
    held = len(kv_heads) // config.kv_shards
    found: list[int | None] = []
    for shard in range(config.kv_shards):
        for head in kv_heads[shard * held : (shard + 1) * held]:
            found += [None] * group if head is None else range(head * group, (head + 1) * group)
        found += [None] * (share - held * group)
    return found


def _cut(rows: slice, size: int) -> slice:
    """The part of `rows` below `size`."""
    return slice(min(rows.start, size), min(rows.stop, size))


def _pad(array: np.ndarray, rows: int) -> np.ndarray:
    """`array` with rows of zeros added up to `rows`."""
    if array.shape[0] == rows:
        return array
    return np.pad(array, [(0, rows - array.shape[0])] + [(0, 0)] * (array.ndim - 1))


def quantise(weight: np.ndarray, summed: tuple[int, ...]) -> Arrays:
    """(int8 values, float32 scales): one scale per output channel, the largest magnitude over the `summed` axes."""
    wide = weight.astype(np.float32)
    largest = np.abs(wide).max(axis=summed, keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(wide / scale).astype(np.int8), scale.squeeze(summed)


def _boxes(array: jax.ShapeDtypeStruct) -> list[tuple[Box, list[jax.Device]]]:
    """Every block of an array that devices of this process hold, with those devices."""
    found: dict[Any, list[jax.Device]] = {}
    for device, index in array.sharding.addressable_devices_indices_map(array.shape).items():
        spans = tuple(each.indices(size)[:2] for each, size in zip(index, array.shape, strict=True))
        found.setdefault(spans, []).append(device)
    return [(tuple(slice(*span) for span in spans), devices) for spans, devices in found.items()]


def _joined(array: jax.ShapeDtypeStruct, blocks: Iterator[tuple[list[jax.Device], np.ndarray]]) -> jax.Array:
    """An array from its blocks, each on the devices that hold it; one block at a time is in host memory."""
    placed = [jax.device_put(block, device) for devices, block in blocks for device in devices]
    return jax.make_array_from_single_device_arrays(array.shape, array.sharding, placed)


def _array(array: jax.ShapeDtypeStruct, make: Callable[[Box], np.ndarray]) -> jax.Array:
    """An array on the chips, from what `make` says of each block."""
    blocks = ((devices, make(box).astype(array.dtype, copy=False)) for box, devices in _boxes(array))
    return _joined(array, blocks)


def _stack(array: jax.ShapeDtypeStruct, make: Make) -> jax.Array:
    """An array of all layers on the chips, from what `make` says of a block of each layer."""

    def block(box: Box) -> np.ndarray:
        host = np.empty([each.stop - each.start for each in box], array.dtype)
        for index, layer in enumerate(range(box[0].start, box[0].stop)):
            host[index] = make(layer, box[1:])
        return host

    return _array(array, block)


def _quantised(
    values: jax.ShapeDtypeStruct, scales: jax.ShapeDtypeStruct, summed: tuple[int, ...], make: Callable[[Box], Arrays]
) -> tuple[jax.Array, jax.Array]:
    """An int8 array and its scales on the chips; dimensions in `summed` are those of `values` that `scales` lacks."""
    made: dict[Any, np.ndarray] = {}

    def block(box: Box) -> np.ndarray:
        found, kept = make(box)
        made[tuple((each.start, each.stop) for dim, each in enumerate(box) if dim not in summed)] = kept
        return found

    placed = _array(values, block)
    return placed, _array(scales, lambda box: made[tuple((each.start, each.stop) for each in box)])


def _quantised_stack(stored: Stored, name: str, values: jax.ShapeDtypeStruct, scales: jax.ShapeDtypeStruct) -> Any:
    """The int8 array of all layers called `name`, and its scales."""
    summed = tuple(dim + 1 for dim in SUMMED[name])

    def block(box: Box) -> Arrays:
        sizes = [each.stop - each.start for each in box]
        host = np.empty(sizes, np.int8)
        kept = np.empty([size for dim, size in enumerate(sizes) if dim not in summed], np.float32)
        for index, layer in enumerate(range(box[0].start, box[0].stop)):
            host[index], kept[index] = stored.quantised(name, layer, box[1:])
        return host, kept

    return _quantised(values, scales, summed, block)


def _whole_arrays(stored: Stored, abstract: Weights) -> Iterator[tuple[str, jax.Array]]:
    """(field of Weights, its array on the chips) of what no layer has."""
    yield "final_norm", _array(abstract.final_norm, partial(stored.norm, "final_norm", None))
    for part in ("embedding", "lm_head"):
        _say(f"loading {part}")
        target = getattr(abstract, part)
        scale = getattr(abstract, f"{part}_scale")
        values, scales = _quantised(target, scale, (1,), partial(stored.quantised_vocabulary, part))
        yield part, values
        yield f"{part}_scale", scales


def _layer_arrays(stored: Stored, abstract: Layer) -> Iterator[tuple[str, jax.Array]]:
    """(field of Layer, the array of all layers on the chips), one at a time."""
    for norm in ("attention_norm", "mlp_norm"):
        yield norm, _stack(getattr(abstract, norm), partial(stored.norm, norm))
    yield from _matrices(stored, abstract)


def _matrices(stored: Stored, abstract: Layer | Copies) -> Iterator[tuple[str, jax.Array]]:
    """(field, the array of all layers on the chips) of those matrices that there are, one at a time."""
    for name in (name for name in ("w_q", "w_kv", "w_o", "w_in", "w_down") if hasattr(abstract, name)):
        target = getattr(abstract, name)
        _say(f"loading and quantising {name} of {target.shape[0]} layers")
        values, scales = _quantised_stack(stored, name, target, getattr(abstract, f"{name}_scale"))
        yield name, values
        yield f"{name}_scale", scales


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
