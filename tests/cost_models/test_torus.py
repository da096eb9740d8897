"""Slices, wraparound, and splitting an axis into mesh axes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.chips import Chip, chip, chips
from cost_models.torus import (
    IllegalSlice,
    MeshAxis,
    TorusAxis,
    legal_slices,
    merge_axes,
    mesh_coordinates,
    parse_slice,
    split_axis,
)

V5E, V5P, CPU_CHIP = chip("v5e"), chip("v5p"), chip("cpu")


@pytest.mark.parametrize(
    ("name", "shape", "wraps"),
    [
        ("v5e", "4x4", (False, False)),
        ("v5e", "8x16", (False, True)),
        ("v5e", "16x16", (True, True)),
        ("v6e", "2x4", (False, False)),
        ("v5p", "2x2x4", (False, False, False)),
        ("v5p", "2x4x4", (False, False, False)),
        ("v5p", "4x4x4", (True, True, True)),
        ("v4", "8x8x12", (True, True, True)),
        ("7x", "4x4x8", (True, True, True)),
        ("cpu", "4x4", (False, False)),
        ("cpu", "16x16", (False, False)),
        ("h100", "8", (False,)),
    ],
)
def test_which_axes_wrap(name: str, shape: str, wraps: tuple[bool, ...]) -> None:
    assert tuple(axis.wraps for axis in parse_slice(chip(name), shape).axes) == wraps


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("v5e", "4x5", "slice 4x5 is not a v5e slice; nearest are 4x4 and 4x8"),
        ("v5e", "4x2", "slice 4x2 is not a v5e slice; nearest is 2x4"),
        ("v5e", "32x32", "slice 32x32 is not a v5e slice; nearest is 16x16"),
        ("v5e", "2x2x2", "slice 2x2x2 is not a v5e slice; nearest is 2x4"),
        ("v5e", "four by four", "slice four by four is not a v5e slice; nearest is 2x4"),
        ("cpu", "eight", "slice eight is not a cpu slice; nearest is 2x4"),
        ("v5e", "0x4", "slice 0x4 is not a v5e slice; nearest is 2x4"),
        ("v5p", "3x3x3", "slice 3x3x3 is not a v5p slice; nearest are 2x2x4 and 2x4x4"),
        ("v5p", "8x4x4", "slice 8x4x4 is not a v5p slice; nearest is 4x4x8"),
        ("v5p", "4x4x32", "slice 4x4x32 is not a v5p slice; nearest is 8x8x8"),
        ("v5p", "2x2x3", "slice 2x2x3 is not a v5p slice; nearest are 2x2x2 and 2x2x4"),
        ("v5p", "1x1x2", "slice 1x1x2 is not a v5p slice; nearest is 2x2x1"),
        ("h100", "16", "slice 16 is not a h100 slice; nearest is 8"),
        ("cpu", "8", "slice 8 is not a cpu slice; nearest is 2x4"),
    ],
)
def test_an_illegal_slice_names_the_nearest(name: str, shape: str, message: str) -> None:
    with pytest.raises(IllegalSlice) as error:
        parse_slice(chip(name), shape)
    assert str(error.value) == message


def test_a_cpu_takes_any_grid() -> None:
    assert [str(each) for each in legal_slices(CPU_CHIP, 4)] == ["1x1", "1x2", "2x1", "1x3", "3x1", "1x4", "2x2", "4x1"]


def test_a_v5e_comes_in_the_listed_slices() -> None:
    assert " ".join(map(str, legal_slices(V5E, 256))) == "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"


def test_a_v5p_comes_in_small_slices_and_in_cubes() -> None:
    assert " ".join(map(str, legal_slices(V5P, 256))) == (
        "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x4x16 4x8x8"
    )  # fmt: skip


@pytest.mark.parametrize("each", chips(), ids=lambda each: each.name)
def test_every_legal_slice_can_be_parsed_and_its_hosts_hold_it(each: Chip) -> None:
    for found in legal_slices(each, 64):
        assert parse_slice(each, str(found)) == found
        assert found.hosts * each.chips_per_host >= found.chips


def test_one_size_keeps_the_axis_and_its_wrap() -> None:
    assert split_axis(TorusAxis("y", 16, wraps=True), (16,)) == (MeshAxis("y", 16, "y", wraps=True),)


def test_pieces_are_named_major_first_and_do_not_wrap() -> None:
    assert split_axis(TorusAxis("y", 16, wraps=True), (2, 8)) == (
        MeshAxis("y0", 2, "y", stride=8),
        MeshAxis("y1", 8, "y", stride=1),
    )


def test_a_split_that_does_not_fill_the_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="axis y has 16 chips, not 3x4"):
        split_axis(TorusAxis("y", 16, wraps=True), (3, 4))


def test_pieces_that_make_up_an_axis_count_as_the_axis() -> None:
    pod = parse_slice(V5E, "8x16")
    x = split_axis(pod.axis("x"), (8,))
    y = split_axis(pod.axis("y"), (2, 8))
    assert merge_axes((*y, *x), pod) == (MeshAxis("y", 16, "y", wraps=True), MeshAxis("x", 8, "x"))


def test_a_lone_piece_stays_a_piece() -> None:
    pod = parse_slice(V5E, "8x16")
    y0, y1 = split_axis(pod.axis("y"), (2, 8))
    assert merge_axes((y0,), pod) == (y0,)
    assert merge_axes((y1,), pod) == (y1,)


def test_neighbouring_pieces_join_into_a_longer_one() -> None:
    pod = parse_slice(V5E, "16x16")
    y0, y1, y2 = split_axis(pod.axis("y"), (2, 2, 4))
    assert merge_axes((y0, y1), pod) == (MeshAxis("y0+y1", 4, "y", stride=4),)
    assert merge_axes((y2, y1), pod) == (MeshAxis("y1+y2", 8, "y", stride=1),)


def test_pieces_with_a_gap_share_each_link_between_the_groups_in_the_gap() -> None:
    pod = parse_slice(V5E, "16x16")
    y0, _, y2 = split_axis(pod.axis("y"), (2, 2, 4))
    assert merge_axes((y0, y2), pod) == (MeshAxis("y0+y2", 8, "y", stride=2),)


def test_the_chips_of_a_mesh_are_in_c_order_over_its_axes() -> None:
    host = parse_slice(CPU_CHIP, "2x4")
    y0, y1 = split_axis(host.axis("y"), (2, 2))
    x = split_axis(host.axis("x"), (2,))
    assert mesh_coordinates((y0, *x, y1), host) == (
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3),
    )  # fmt: skip


@given(st.sampled_from([(1,), (2,), (4,), (2, 2)]), st.sampled_from(["4x4", "8x16", "16x16"]))
def test_a_mesh_visits_every_chip_once(majors: tuple[int, ...], shape: str) -> None:
    pod = parse_slice(V5E, shape)
    axes = [piece for axis in pod.axes for piece in split_axis(axis, (*majors, axis.size // math.prod(majors)))]
    visited = mesh_coordinates(axes, pod)
    assert len(set(visited)) == len(visited) == pod.chips
