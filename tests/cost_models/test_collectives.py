"""Collectives: corners that people get wrong, and what must hold for any bytes, axes and chip."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.chips import Chip, chip, chips
from cost_models.collectives import all_gather_s, all_reduce_s, all_to_all_s, permute_s, reduce_scatter_s
from cost_models.stacks import BOOK, CPU, Stack
from cost_models.torus import MeshAxis, TorusAxis, merge_axes, parse_slice, split_axis

V4, V5E, H100, CPU_CHIP = chip("v4"), chip("v5e"), chip("h100"), chip("cpu")
EXACT = replace(BOOK, ring_factor="exact")
MB = 1e6

Call = Callable[..., float]
COLLECTIVES: list[Call] = [all_gather_s, reduce_scatter_s, all_reduce_s, all_to_all_s]
collective = st.sampled_from(COLLECTIVES)
any_chip = st.sampled_from(chips())
any_stack = st.sampled_from([BOOK, EXACT, CPU])
any_bytes = st.floats(1, 1e12)
any_size = st.sampled_from([2, 4, 8, 16])


def ring(size: int, name: str = "x") -> TorusAxis:
    return TorusAxis(name, size, wraps=True)


def line(size: int, name: str = "x") -> TorusAxis:
    return TorusAxis(name, size, wraps=False)


@pytest.mark.parametrize(
    ("gathered_bytes", "axis", "on", "book_us"),
    [
        pytest.param(2 * 2048 * 8192, line(4), V5E, 560, id="sharding.md quiz 2, part 1"),
        pytest.param(2 * 256 * 256, line(4), V5E, 3, id="sharding.md quiz 2, part 2"),
        pytest.param(2 * 1024 * 4096 // 4, ring(4), V4, 23, id="sharding.md question 2.1"),
        pytest.param(256, ring(4), V4, 2, id="sharding.md question 3"),
    ],
)
def test_all_gather_agrees_with_the_book(gathered_bytes: int, axis: TorusAxis, on: Chip, book_us: float) -> None:
    assert all_gather_s(gathered_bytes, (axis,), on) * 1e6 == pytest.approx(book_us, rel=0.02)


@pytest.mark.parametrize("call", COLLECTIVES)
def test_line_without_wraparound_doubles_the_time(call: Call) -> None:
    assert call(1e9, (line(16),), V5E, EXACT) == pytest.approx(2 * call(1e9, (ring(16),), V5E, EXACT))


def test_an_exact_ring_moves_all_but_its_own_shard() -> None:
    assert all_gather_s(1e9, (ring(4),), V5E, EXACT) == pytest.approx(0.75 * all_gather_s(1e9, (ring(4),), V5E))


def test_two_axes_add_their_bandwidth() -> None:
    assert all_gather_s(1e9, (ring(4), ring(4, "y")), V4) == pytest.approx(all_gather_s(1e9, (ring(4),), V4) / 2)


def test_a_ring_and_a_line_together_have_three_links() -> None:
    both = all_gather_s(1e9, (ring(16, "y"), line(8)), V5E)
    assert both == pytest.approx(1e9 * (1 - 1 / 128) / (3 * 45e9))


def test_the_middle_of_a_line_binds_an_all_to_all() -> None:
    """Half of the bytes cross the middle, half of those each way, over one link."""
    assert all_to_all_s(1e9, (line(8),), V5E) == pytest.approx(1e9 / 4 / 45e9)


def test_a_long_line_binds_an_all_to_all_over_a_longer_ring() -> None:
    both = all_to_all_s(1e9, (line(8), ring(12, "y")), V5E)
    assert both == pytest.approx(1e9 / (4 * 96) * 8 / 45e9)


def test_one_chip_needs_no_collective() -> None:
    for call in COLLECTIVES:
        assert call(MB, (line(1),), CPU_CHIP, CPU) == 0
        assert call(MB, (), CPU_CHIP, CPU) == 0


def test_an_axis_of_one_chip_does_not_count() -> None:
    assert all_gather_s(1e9, (ring(16, "y"), line(1)), V5E) == all_gather_s(1e9, (ring(16, "y"),), V5E)


def test_siblings_of_a_major_piece_share_the_links_they_cross() -> None:
    """Four chips four links apart: each link carries four groups, so it takes as long as a quarter of a link."""
    piece = MeshAxis("y0", 4, "y", stride=4)
    assert all_gather_s(1e9, (piece,), V5E) == pytest.approx(4 * all_gather_s(1e9, (line(4),), V5E))
    assert all_gather_s(1, (piece,), V5E) == pytest.approx(12e-6)


def test_a_minor_piece_is_a_line_of_its_own() -> None:
    piece = MeshAxis("y1", 4, "y", stride=1)
    assert all_gather_s(1e9, (piece,), V5E) == all_gather_s(1e9, (line(4),), V5E)


def test_pieces_of_one_axis_must_be_merged_before_they_are_priced() -> None:
    pieces = split_axis(ring(16, "y"), (4, 4))
    with pytest.raises(ValueError, match="share links; merge them first"):
        all_gather_s(MB, pieces, V5E)
    with pytest.raises(ValueError, match="share links; merge them first"):
        all_to_all_s(MB, pieces, V5E)


def test_a_launch_is_paid_once_however_often_the_bytes_go_round() -> None:
    launch = replace(BOOK, collective_launch_s=5e-6)
    assert all_reduce_s(MB, (ring(4),), V4, launch) == pytest.approx(5e-6 + all_reduce_s(MB, (ring(4),), V4))


def test_hops_and_bytes_add_where_the_stack_says_so() -> None:
    added = replace(BOOK, latency="sum", hop_s=2e-6)
    assert all_gather_s(9e6, (ring(4),), V4, added) == pytest.approx(2 * 2e-6 + 9e6 / 90e9)


def test_a_switch_makes_no_difference_between_near_and_far() -> None:
    piece = MeshAxis("x0", 4, "x", stride=2)
    assert all_gather_s(1e9, (piece,), H100) == pytest.approx(1e9 * 3 / 4 / 450e9)
    assert permute_s(1e9, piece, H100) == pytest.approx(1.5e-6 + 1e9 / 450e9)


def test_a_permute_along_a_major_piece_crosses_its_stride() -> None:
    assert permute_s(45e3, MeshAxis("y0", 4, "y", stride=4), V5E) == pytest.approx(4e-6 + 4e-6)
    assert permute_s(45e3, line(1), V5E) == 0


@given(collective, any_bytes, any_size, any_size, any_chip, any_stack, st.floats(1, 100))
def test_more_link_bandwidth_never_slows_a_collective(
    call: Call, moved: float, x: int, y: int, on: Chip, stack: Stack, factor: float
) -> None:
    faster = replace(on, ici_bytes_per_s=on.ici_bytes_per_s * factor)
    axes = (line(x), ring(y, "y"))
    assert call(moved, axes, faster, stack) <= call(moved, axes, on, stack)


@given(collective, any_bytes, st.floats(1, 100), any_size, st.booleans(), any_chip, any_stack)
def test_more_bytes_never_take_less_time(
    call: Call, moved: float, factor: float, size: int, wraps: bool, on: Chip, stack: Stack
) -> None:
    axes = (TorusAxis("x", size, wraps),)
    assert call(moved, axes, on, stack) <= call(moved * factor, axes, on, stack)


@given(collective, any_bytes, any_size, any_size, st.booleans(), any_chip, any_stack)
def test_a_ring_is_never_slower_than_a_line(
    call: Call, moved: float, x: int, y: int, other_wraps: bool, on: Chip, stack: Stack
) -> None:
    other = TorusAxis("y", y, other_wraps)
    within_rounding = 1 + 1e-12
    assert call(moved, (ring(x), other), on, stack) <= call(moved, (line(x), other), on, stack) * within_rounding


@given(collective, any_bytes, any_size, any_size, st.booleans(), any_stack)
def test_a_piece_is_never_faster_than_a_whole_axis_of_its_size(
    call: Call, moved: float, major: int, minor: int, wraps: bool, stack: Stack
) -> None:
    for piece in split_axis(TorusAxis("y", major * minor, wraps), (major, minor)):
        whole = call(moved, (TorusAxis("y", piece.size, wraps),), V5E, stack)
        assert call(moved, (piece,), V5E, stack) >= whole * (1 - 1e-12)


@given(any_bytes, any_size, any_size, st.booleans())
def test_gathering_piece_by_piece_is_never_faster_than_the_whole_axis(
    moved: float, major: int, minor: int, wraps: bool
) -> None:
    whole = TorusAxis("y", major * minor, wraps)
    y0, y1 = split_axis(whole, (major, minor))
    in_turn = all_gather_s(moved / major, (y1,), V5E, EXACT) + all_gather_s(moved, (y0,), V5E, EXACT)
    assert in_turn >= all_gather_s(moved, (whole,), V5E, EXACT) * (1 - 1e-12)


@given(collective, any_bytes, st.sampled_from(["4x8", "8x16", "16x16"]), st.sampled_from([2, 4]), any_stack)
def test_splitting_an_axis_does_not_change_a_collective_over_all_of_it(
    call: Call, moved: float, shape: str, major: int, stack: Stack
) -> None:
    pod = parse_slice(V5E, shape)
    x = split_axis(pod.axis("x"), (pod.axis("x").size,))
    pieces = split_axis(pod.axis("y"), (major, pod.axis("y").size // major))
    assert call(moved, merge_axes((*pieces, *x), pod), V5E, stack) == call(moved, pod.axes[::-1], V5E, stack)


@given(any_bytes, any_size, st.booleans(), any_chip, any_stack)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather_launched_once(
    moved: float, size: int, wraps: bool, on: Chip, stack: Stack
) -> None:
    axes = (TorusAxis("x", size, wraps),)
    halves = reduce_scatter_s(moved, axes, on, stack) + all_gather_s(moved, axes, on, stack)
    assert all_reduce_s(moved, axes, on, stack) == pytest.approx(halves - stack.collective_launch_s)
