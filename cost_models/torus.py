"""Slices of a torus: which shapes exist, which axes wrap, and how an axis is split into mesh axes.

A torus axis of A chips may serve two mesh axes, `y0` (major, stride s) and `y1` (minor, stride 1), A = |y0| * s. The
minor piece is a run of neighbours with its own links: a line. The members of a major piece lie s links apart, and its s
sibling groups all talk at once over the same links: each gets 1/s of a link, and a hop costs s. Neither wraps, even
on a wrapped axis: the closing link belongs to no single minor group, and a major group is not given one. Mesh axes that
together make up a whole torus axis are priced as that axis again (`merge_axes`).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cost_models.chips import Chip, parse_shape

AXIS_NAMES = ("x", "y", "z")


class Links(Protocol):
    """What a collective needs to know of an axis."""

    @property
    def name(self) -> str:
        """Name in the mesh."""

    @property
    def size(self) -> int:
        """Chips along the axis."""

    @property
    def wraps(self) -> bool:
        """Whether the last chip is linked to the first."""

    @property
    def stride(self) -> int:
        """Links between neighbours, and groups that share each of them."""

    @property
    def torus_axis(self) -> str:
        """Name of the torus axis whose links these are."""


@dataclass(frozen=True, slots=True)
class TorusAxis:
    """One whole axis of a slice: `size` chips in a row, a ring when it wraps."""

    name: str
    size: int
    wraps: bool

    @property
    def stride(self) -> int:
        """Neighbours are one link apart."""
        return 1

    @property
    def torus_axis(self) -> str:
        """Its own name."""
        return self.name


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of the device mesh: a whole torus axis, or a piece whose neighbours are `stride` links apart."""

    name: str
    size: int
    torus_axis: str
    wraps: bool = False
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """A shape of chips that can be had. Build it with `parse_slice` or `legal_slices`."""

    chip: Chip
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return shape_text(self.shape)

    @property
    def chips(self) -> int:
        """Chips in the slice."""
        return math.prod(self.shape)

    @property
    def hosts(self) -> int:
        """Hosts that drive the slice."""
        return math.prod(-(-side // host) for side, host in zip(self.shape, self.host_shape, strict=True))

    @property
    def hbm_bytes(self) -> int:
        """HBM of all chips together."""
        return self.chips * self.chip.hbm_bytes

    def flops_per_s(self, dtype: str) -> float:
        """Peak of all chips together when computing in `dtype`."""
        return self.chips * self.chip.flops_per_s(dtype)

    @property
    def axes(self) -> tuple[TorusAxis, ...]:
        """The torus axes x, y, z with their sizes."""
        names = AXIS_NAMES[: len(self.shape)]
        return tuple(map(TorusAxis, names, self.shape, _wrapped(self.chip, self.shape)))

    def axis(self, name: str) -> TorusAxis:
        """The torus axis called `name`."""
        return self.axes[AXIS_NAMES.index(name)]

    @property
    def host_shape(self) -> tuple[int, ...]:
        """The chip's host, turned the way the slice lies."""
        return tuple(sorted(self.chip.host_shape)) if self.chip.torus_dims == 2 else self.chip.host_shape


class IllegalSlice(ValueError):
    """A shape that cannot be ordered; `nearest` are the legal ones closest in chips."""

    def __init__(self, chip: Chip, text: str, nearest: tuple[Slice, ...]) -> None:
        self.chip = chip
        self.text = text
        self.nearest = nearest
        names = " and ".join(str(each) for each in nearest)
        hint = f"nearest {'are' if len(nearest) > 1 else 'is'} {names}"
        super().__init__(f"slice {text} is not a {chip.name} slice; {hint}")


def shape_text(shape: Sequence[int]) -> str:
    """`shape` as it is written: 4x8."""
    return "x".join(map(str, shape))


def parse_slice(chip: Chip, text: str) -> Slice:
    """The slice written as `4x8`, or `IllegalSlice` when `chip` has none of that shape."""
    shape = parse_shape(text)
    if shape is None or not is_legal(chip, shape):
        raise IllegalSlice(chip, text, nearest_slices(chip, shape))
    return Slice(chip, shape)


def is_legal(chip: Chip, shape: tuple[int, ...]) -> bool:
    """Whether `chip` can be had in this shape and orientation.

    Listed shapes, and on a chip whose tori are made of 4x4x4 cubes also A <= B <= C, each a multiple of 4.
    """
    if len(shape) != chip.torus_dims or any(a > b for a, b in zip(sorted(shape), sorted(chip.max_slice), strict=True)):
        return False
    if chip.slices is None or shape in chip.slices:
        return True
    cubes = chip.wrap_rule == "multiples_of_4" and all(side % 4 == 0 for side in shape)
    return cubes and list(shape) == sorted(shape)


def legal_slices(chip: Chip, max_chips: int) -> tuple[Slice, ...]:
    """Every slice of at most `max_chips`, smallest first, then by shape."""
    longest = range(1, min(max(chip.max_slice), max_chips) + 1)
    if chip.slices is not None:
        multiples = [side for side in longest if side % 4 == 0] if chip.wrap_rule == "multiples_of_4" else []
        shapes = {*chip.slices, *itertools.combinations_with_replacement(multiples, chip.torus_dims)}
    else:
        shapes = set(itertools.product(longest, repeat=chip.torus_dims))
    fitting = (shape for shape in shapes if math.prod(shape) <= max_chips and is_legal(chip, shape))
    return tuple(Slice(chip, shape) for shape in sorted(fitting, key=lambda shape: (math.prod(shape), shape)))


def nearest_slices(chip: Chip, shape: tuple[int, ...] | None) -> tuple[Slice, ...]:
    """The same sides in a legal order, as many chips, or the next fewer and the next more; an example without a shape.

    Of slices with the same number of chips the most compact one is offered.
    """
    if shape is not None and is_legal(chip, turned := tuple(sorted(shape))):
        return (Slice(chip, turned),)
    wanted = 8 if shape is None else math.prod(shape)
    slices = legal_slices(chip, min(max(4 * wanted, 16), chip.max_chips))
    at_most = (each for each in slices if each.chips <= wanted)
    at_least = (each for each in slices if each.chips >= wanted)
    fewer = max(at_most, key=lambda each: (each.chips, -max(each.shape)), default=None)
    more = min(at_least, key=lambda each: (each.chips, max(each.shape)), default=None)
    found = (fewer,) if shape is None else (fewer, more)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def split_axis(axis: TorusAxis, sizes: Sequence[int]) -> tuple[MeshAxis, ...]:
    """`axis` as mesh axes of `sizes`, major first: `y0`, `y1`, ...; one size keeps the axis whole, name and wrap."""
    if math.prod(sizes) != axis.size:
        raise ValueError(f"axis {axis.name} has {axis.size} chips, not {shape_text(sizes)}")
    if len(sizes) == 1:
        return (MeshAxis(axis.name, axis.size, axis.name, axis.wraps),)
    strides = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    return tuple(
        MeshAxis(f"{axis.name}{place}", size, axis.name, stride=stride)
        for place, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    )


def merge_axes(axes: Sequence[Links], slice_: Slice) -> tuple[Links, ...]:
    """The links that a set of mesh axes uses, one entry per torus axis, in the order in which they first appear.

    Pieces that make up their torus axis become that axis, with its wrap. Other pieces of one axis become one piece:
    it spans (largest stride) * (its size) chips, and that span over its own chips is what its links are shared by.
    An axis that is none of the torus, such as the devices of a chip, stays as it is.
    """
    groups: dict[str, list[Links]] = {}
    for axis in axes:
        groups.setdefault(axis.torus_axis, []).append(axis)
    return tuple(
        _merge(pieces, slice_.axis(name)) if name in AXIS_NAMES else pieces[0] for name, pieces in groups.items()
    )


def mesh_coordinates(axes: Sequence[MeshAxis], slice_: Slice) -> tuple[tuple[int, ...], ...]:
    """Torus coordinates of the chips in C order over the mesh axes, major first."""
    places = [AXIS_NAMES.index(axis.torus_axis) for axis in axes]
    coordinates = []
    for index in itertools.product(*(range(axis.size) for axis in axes)):
        chip = [0] * len(slice_.shape)
        for axis, place, rank in zip(axes, places, index, strict=True):
            chip[place] += rank * axis.stride
        coordinates.append(tuple(chip))
    return tuple(coordinates)


def mesh_groups(
    axes: Sequence[MeshAxis], over: Sequence[str], slice_: Slice
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Torus coordinates of each group of chips that a collective over the mesh axes `over` joins, in mesh order."""
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    ranks = itertools.product(*(range(axis.size) for axis in axes))
    for rank, chip in zip(ranks, mesh_coordinates(axes, slice_), strict=True):
        outside = tuple(place for axis, place in zip(axes, rank, strict=True) if axis.name not in over)
        groups.setdefault(outside, []).append(chip)
    return tuple(tuple(group) for group in groups.values())


def hosts_touched(group: Sequence[tuple[int, ...]], slice_: Slice) -> int:
    """Hosts that drive the chips of `group`; a host's chips are a block of its shape."""
    shape = slice_.host_shape
    return len({tuple(place // side for place, side in zip(chip, shape, strict=True)) for chip in group})


def _merge(pieces: list[Links], whole: TorusAxis) -> Links:
    size = math.prod(piece.size for piece in pieces)
    if size == whole.size:
        return MeshAxis(whole.name, whole.size, whole.name, whole.wraps)
    if len(pieces) == 1:
        return pieces[0]
    major = max(pieces, key=lambda piece: piece.stride)
    span = major.size * major.stride
    name = "+".join(piece.name for piece in sorted(pieces, key=lambda piece: -piece.stride))
    return MeshAxis(name, size, whole.name, stride=span // size)


def _wrapped(chip: Chip, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which axes are rings (scaling-book, tpus.md § TPU Networking)."""
    if chip.wrap_rule == "axis_of_16":
        return tuple(side == 16 for side in shape)
    if chip.wrap_rule == "multiples_of_4":
        return (all(side % 4 == 0 for side in shape),) * len(shape)
    return (False,) * len(shape)
