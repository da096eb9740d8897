"""Groups of chips in every spelling, on any mesh."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.verify.groups import axes_of

SIZES = {"x": 2, "y": 4}


@pytest.mark.parametrize(
    ("attributes", "axes"),
    [
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", ("y",)),
        ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", ("x",)),
        ("replica_groups={{0,4,1,5,2,6,3,7}}", ("x", "y")),
        ("replica_groups={}", ("x", "y")),
        ("channel_id=1", ("x", "y")),
        ("replica_groups=[2,4]<=[8]", ("y",)),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", ("x",)),
        ("replica_groups=[1,8]<=[8]", ("x", "y")),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}, use_global_device_ids=true", ("y",)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0','axis_1'}", ("x", "y")),
        ("replica_groups=mesh['a'=2,'b'=2,'c'=2] {'b','c'}", ("y",)),
        ("source_target_pairs={{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4}}", ("y",)),
        ("source_target_pairs={{0,4},{4,0}}", ("x",)),
        ("replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}", ()),
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", None),
        ("replica_groups={{0,5},{1,4},{2,7},{3,6}}", None),
        ("replica_groups=<unheard of>", None),
    ],
)
def test_axes_of_groups(attributes: str, axes: tuple[str, ...] | None):
    assert axes_of(attributes, SIZES) == axes


@st.composite
def mesh_and_axes(draw: st.DrawFn) -> tuple[dict[str, int], tuple[str, ...]]:
    sizes = {f"a{index}": size for index, size in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))}
    return sizes, tuple(name for name in sizes if draw(st.booleans()))


def groups_along(sizes: dict[str, int], axes: tuple[str, ...]) -> np.ndarray:
    """int[groups, members]: chips that differ along `axes` only."""
    ids = np.arange(prod(sizes.values())).reshape(tuple(sizes.values()))
    order = [index for index, name in enumerate(sizes) if name not in axes]
    order += [index for index, name in enumerate(sizes) if name in axes]
    return ids.transpose(order).reshape(-1, prod(sizes[name] for name in axes))


@given(mesh_and_axes())
def test_every_spelling_of_the_same_groups_is_the_same_axes(mesh: tuple[dict[str, int], tuple[str, ...]]):
    sizes, axes = mesh
    expected = tuple(name for name in axes if sizes[name] > 1)
    groups = groups_along(sizes, axes)
    rows = ",".join("{" + ",".join(map(str, row)) + "}" for row in groups)
    names = list(sizes)
    order = [names.index(name) for name in names if name not in axes] + [names.index(name) for name in axes]
    dims, transposed = ",".join(map(str, sizes.values())), ",".join(map(str, order))
    printed = ",".join(f"'{name}'={size}" for name, size in sizes.items())
    assert axes_of(f"replica_groups={{{rows}}}", sizes) == expected
    assert axes_of(f"replica_groups=[{groups.shape[0]},{groups.shape[1]}]<=[{dims}]T({transposed})", sizes) == expected
    quoted = ",".join(f"'{name}'" for name in axes)
    assert axes_of(f"replica_groups=mesh[{printed}] {{{quoted}}}", sizes) == expected


@given(mesh_and_axes())
def test_a_ring_along_one_axis_is_that_axis(mesh: tuple[dict[str, int], tuple[str, ...]]):
    sizes, _ = mesh
    names = list(sizes)
    for index, name in enumerate(names):
        places = product(*(range(size) for size in sizes.values()))
        chip = {place: number for number, place in enumerate(places)}
        pairs = [
            (number, chip[(*place[:index], (place[index] + 1) % sizes[name], *place[index + 1 :])])
            for place, number in chip.items()
        ]
        text = ",".join(f"{{{source},{target}}}" for source, target in pairs)
        assert axes_of(f"source_target_pairs={{{text}}}", sizes) == ((name,) if sizes[name] > 1 else ())
