# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Weights from a checkpoint onto the chips: padded and cut as the plan says.

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

from .checkpoint import Checkpoint
from .config import Config
from .weights import Copies, Layer, Weights, abstract_weights

Box = tuple[slice, ...]
Make = Callable[[int, Box], np.ndarray]


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


def _whole_arrays(stored: Stored, abstract: Weights) -> Iterator[tuple[str, jax.Array]]:
    """(field of Weights, its array on the chips) of what no layer has."""
    yield "final_norm", _array(abstract.final_norm, partial(stored.norm, "final_norm", None))
    for part in ("embedding",):
        _say(f"loading {part}")
        target = getattr(abstract, part)
        yield part, _array(target, partial(stored.vocabulary, part))


def _layer_arrays(stored: Stored, abstract: Layer) -> Iterator[tuple[str, jax.Array]]:
    """(field of Layer, the array of all layers on the chips), one at a time."""
    for norm in ("attention_norm", "mlp_norm"):
        yield norm, _stack(getattr(abstract, norm), partial(stored.norm, norm))
    yield from _matrices(stored, abstract)


def _matrices(stored: Stored, abstract: Layer | Copies) -> Iterator[tuple[str, jax.Array]]:
    """(field, the array of all layers on the chips) of those matrices that there are, one at a time."""
    for name in (name for name in ("w_q", "w_kv", "w_o", "w_in", "w_down") if hasattr(abstract, name)):
        target = getattr(abstract, name)
        _say(f"loading {name} of {target.shape[0]} layers")
        yield name, _stack(target, getattr(stored, name))


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
