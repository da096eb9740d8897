"""Replica groups and permute pairs in HLO text -> the mesh axes that a collective runs over.

Ids are positions in `mesh.devices.flat`. Three spellings of groups are in use:

    {{0,4},{1,5}}                      listed; {} or nothing is all chips together
    [2,4]<=[4,2]T(1,0)                 iota over [4,2], transposed by (1,0), reshaped to two groups of four
    mesh['a'=2,'b'=4] {'b'}            along axes of a mesh of the compiler's own
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

Axes = tuple[str, ...]
Groups = list[list[int]]
Sizes = Mapping[str, int]
"""Mesh axis -> size, major first."""

_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=\{?mesh\[([^\]]+)\][^{]*\{([^}]*)\}")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_MESH_AXIS = re.compile(r"'([^']+)'=(\d+)")


def axes_of(attributes: str, sizes: Sizes) -> Axes | None:
    """The mesh axes over which an instruction with these attributes communicates, major first.

    None when its groups are no set of mesh axes.
    """
    if pairs := _PAIRS.search(attributes):
        moves = [ints(pair) for pair in re.findall(r"\{(\d+,\d+)\}", pairs[1])]
        return _varying([move for move in moves if move[0] != move[1]], sizes)
    groups = groups_in(attributes, prod(sizes.values()))
    if groups is None:
        return None
    axes = _varying(groups, sizes)
    ways = prod(sizes[axis] for axis in axes)
    return axes if all(len(set(group)) == len(group) == ways for group in groups) else None


def groups_in(attributes: str, chips: int) -> Groups | None:
    """The groups of chips in the attributes of an instruction, or None when they are spelled in an unknown way."""
    if listed := _LISTED.search(attributes):
        return [ints(group) for group in re.findall(r"\{([\d,]+)\}", listed[1])] or [list(range(chips))]
    if iota := _IOTA.search(attributes):
        return _iota(ints(iota[1]), ints(iota[2]), ints(iota[3] or ""))
    if mesh := _MESH.search(attributes):
        return _along(
            {name: int(size) for name, size in _MESH_AXIS.findall(mesh[1])}, re.findall(r"'([^']+)'", mesh[2])
        )
    return None if "replica_groups=" in attributes else [list(range(chips))]


def ints(text: str) -> list[int]:
    """The numbers in a list such as `0,4,8`."""
    return [int(number) for number in text.split(",") if number]


def _iota(shape: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> Groups:
    """Groups of an iota over `dims`, transposed by `order`, reshaped to `shape` = [groups, members]."""
    strides = [prod(dims[index + 1 :]) for index in range(len(dims))]
    order = order or range(len(dims))
    ids = [
        sum(place * strides[axis] for place, axis in zip(places, order, strict=True))
        for places in product(*(range(dims[axis]) for axis in order))
    ]
    members = shape[-1]
    return [ids[start : start + members] for start in range(0, len(ids), members)]


def _along(sizes: Sizes, axes: Sequence[str]) -> Groups:
    """The groups of chips that differ only along `axes`."""
    names = list(sizes)
    grouped: dict[tuple[int, ...], list[int]] = {}
    for chip, places in enumerate(product(*(range(size) for size in sizes.values()))):
        fixed = tuple(place for name, place in zip(names, places, strict=True) if name not in axes)
        grouped.setdefault(fixed, []).append(chip)
    return list(grouped.values())


def _varying(groups: Groups, sizes: Sizes) -> Axes:
    """The axes along which the members of any group differ."""
    places = list(product(*(range(size) for size in sizes.values())))
    return tuple(
        name
        for index, name in enumerate(sizes)
        if any(len({places[chip][index] for chip in group}) > 1 for group in groups)
    )
