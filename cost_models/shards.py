"""How an array lies on a mesh: the shape that one chip holds, and what padding and replicas add to its bytes.

A layout names the mesh axes that shard each dimension; a mesh gives each axis its size. An axis that no dimension names
holds copies, and computes copies (scaling-book, sharding.md § A unified notation).
"""

import math
from collections.abc import Mapping, Sequence

from cost_models.dtypes import array_bytes

Layout = Sequence[Sequence[str]]
"""Mesh axes of each dimension; none where it is whole: [["x"], ["y", "z"], []]."""

Mesh = Mapping[str, int]
"""Chips along each mesh axis."""


def local_shape(
    shape: Sequence[int], layout: Layout, mesh: Mesh, multiples: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Elements that one chip holds of each dimension; a dimension that does not divide is padded until it does.

    `multiples` are those that a kernel rounds each local dimension up to: lanes, tiles.
    """
    used = [axis for axes in layout for axis in axes]
    if len(used) != len(set(used)):
        raise ValueError(f"mesh axes {', '.join(used)} shard two dimensions at once")
    local = (-(-size // _ways(axes, mesh)) for size, axes in zip(shape, layout, strict=True))
    return tuple(-(-size // step) * step for size, step in zip(local, multiples or [1] * len(shape), strict=True))


def replicas(layout: Layout, mesh: Mesh) -> int:
    """Chips that hold the same shard: the product of the mesh axes that shard nothing."""
    return math.prod(mesh.values()) // _ways([axis for axes in layout for axis in axes], mesh)


def chip_bytes(
    shape: Sequence[int], layout: Layout, mesh: Mesh, dtype: str, multiples: Sequence[int] | None = None
) -> int:
    """Bytes of one chip's shard, padding included."""
    return array_bytes(math.prod(local_shape(shape, layout, mesh, multiples)), dtype)


def mesh_bytes(
    shape: Sequence[int], layout: Layout, mesh: Mesh, dtype: str, multiples: Sequence[int] | None = None
) -> int:
    """Bytes on all chips together, padding and replicas included."""
    return math.prod(mesh.values()) * chip_bytes(shape, layout, mesh, dtype, multiples)


def padding_bytes(
    shape: Sequence[int], layout: Layout, mesh: Mesh, dtype: str, multiples: Sequence[int] | None = None
) -> int:
    """Bytes of one replica that hold nothing: its shards less the array itself."""
    copies = replicas(layout, mesh)
    return mesh_bytes(shape, layout, mesh, dtype, multiples) // copies - array_bytes(math.prod(shape), dtype)


def kv_head_copies(kv_heads: int, ways: int) -> int:
    """Copies of each KV head when the cache is laid over `ways` by heads: a head is never cut, so beyond K they repeat.

    Y <= K without copies     (scaling-book, inference.md § Sharding the KV cache)
    """
    if kv_heads % ways and ways % kv_heads:
        raise ValueError(f"{kv_heads} KV heads do not lie evenly on {ways} chips")
    return max(1, ways // kv_heads)


def _ways(axes: Sequence[str], mesh: Mesh) -> int:
    return math.prod(mesh[axis] for axis in axes)
