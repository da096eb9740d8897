"""The device meshes a slice allows: torus axes kept whole or cut in two, at most three mesh axes.

Every mesh is priced as it would be rendered, so a torus axis kept whole and the same axis cut into two pieces that play
the same role are two candidates: the first makes one collective where the second makes two.
"""

from collections.abc import Collection, Iterator
from itertools import product

from cost_models.torus import MeshAxis, Slice, TorusAxis, split_axis

MAX_AXES = 3

Mesh = tuple[MeshAxis, ...]


def cuts(axis: TorusAxis) -> list[Mesh]:
    """The axis whole, and every way to cut it into a major and a minor piece."""
    halves = [(axis.size // minor, minor) for minor in range(2, axis.size) if axis.size % minor == 0]
    return [split_axis(axis, sizes) for sizes in ((axis.size,), *halves)]


def meshes(slice_: Slice) -> list[Mesh]:
    """The meshes of a slice, fewest axes first, one for each up to a swap of equal torus axes."""
    return list(without_renamed(all_meshes(slice_)))


def all_meshes(slice_: Slice) -> list[Mesh]:
    """Every mesh of a slice, fewest axes first, those that a swap of equal torus axes makes alike among them."""
    axes = [axis for axis in slice_.axes if axis.size > 1] or list(slice_.axes[:1])
    found = [tuple(piece for pieces in choice for piece in pieces) for choice in product(*map(cuts, axes))]
    return sorted((mesh for mesh in found if len(mesh) <= MAX_AXES), key=len)


def axis_texts(mesh: Mesh) -> tuple[str, ...]:
    """The axes of a mesh as they are pinned: `x=4`, `y0=2`."""
    return tuple(f"{axis.name}={axis.size}" for axis in mesh)


def meshes_named(slice_: Slice, wanted: Collection[str]) -> list[Mesh]:
    """The mesh of a slice whose axes are written so, in whatever order; none where the slice has none such."""
    return [mesh for mesh in all_meshes(slice_) if set(axis_texts(mesh)) == set(wanted)]


def without_renamed(found: list[Mesh]) -> Iterator[Mesh]:
    """One mesh of each kind: torus axes of equal size and wraparound are interchangeable."""
    seen: set[tuple[tuple[tuple[int, int, bool], ...], ...]] = set()
    for mesh in found:
        by_torus: dict[str, list[tuple[int, int, bool]]] = {}
        for axis in mesh:
            by_torus.setdefault(axis.torus_axis, []).append((axis.size, axis.stride, axis.wraps))
        key = tuple(sorted(tuple(parts) for parts in by_torus.values()))
        if key not in seen:
            seen.add(key)
            yield mesh
