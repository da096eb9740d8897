"""Pieces of torus axes, the devices of a chip and the network between nodes, as axes of a step."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_models import DEEPSEEK_V3, QWEN3_30B

from cost_models.chips import chip
from cost_models.collectives import all_gather_s, all_to_all_s
from cost_models.devices import device, device_axis
from cost_models.networks import Level, tree_all_reduce_s, tree_gather_s
from cost_models.placement import Layout, kv_bytes_per_chip, weight_bytes_per_chip
from cost_models.stacks import BOOK, Stack, measured_stacks, stack
from cost_models.step import Step, step
from cost_models.torus import Links, TorusAxis, parse_slice, split_axis
from cost_models.transformer import Numerics, Transformer, Work, generate, prefill

V5E, TPU7X = chip("v5e"), chip("7x")
CORE = device(TPU7X)
BF16, INT8 = Numerics(), Numerics(weights="int8")
LLAMA_70B = Transformer(80, 8192, 28672, 64, 8, 128, 128256)
SLICE = parse_slice(V5E, "8x16")
X, Y = SLICE.axes
PIECES = split_axis(Y, (4, 4))
WITHIN_ROUNDING = 1 + 1e-9

any_model = st.sampled_from([LLAMA_70B, QWEN3_30B, DEEPSEEK_V3])
any_stack = st.sampled_from([BOOK, *(each for each in measured_stacks() if each.prices_steps)])
any_work = st.one_of(
    st.builds(generate, st.integers(1, 2048), st.integers(1, 100_000)),
    st.builds(prefill, st.integers(1, 64), st.integers(1, 8192)),
)


def talk_s(found: Step) -> float:
    return found.collective_bytes_s + found.collective_latency_s


def same_roles(y: tuple[Links, ...]) -> list[Layout]:
    """Layouts in which all pieces of the y axis have one role, or meet in one collective."""
    return [
        Layout(hidden=(X, *y), slice_=SLICE),
        Layout(hidden=(*y, X), kv="batch", slice_=SLICE),
        Layout(hidden=(X,), feature=y, slice_=SLICE),
        Layout(hidden=(X,), gathered=y, slice_=SLICE),
        Layout(hidden=(X,), experts=y, slice_=SLICE),
        Layout(hidden=y, experts=(X,), whole_experts=4, slice_=SLICE),
    ]


@given(any_model, any_work, any_stack)
def test_pieces_with_one_role_are_the_whole_axis(model: Transformer, work: Work, on: Stack) -> None:
    for whole, pieces in zip(same_roles((Y,)), same_roles(PIECES), strict=True):
        assert step(model, work, pieces, BF16, V5E, on) == step(model, work, whole, BF16, V5E, on)


def test_pieces_that_meet_need_the_slice() -> None:
    with pytest.raises(ValueError, match="share links; merge them first"):
        step(LLAMA_70B, generate(8, 100), Layout(hidden=PIECES), BF16, V5E)


@given(st.integers(1, 2048), any_stack)
def test_pieces_with_two_roles_meet_where_sequences_cross(batch: int, on: Stack) -> None:
    """D over one piece and F over the other; the all-to-alls to the cache have the ring of both."""
    apart = Layout(feature=PIECES[:1], hidden=PIECES[1:], kv="batch", slice_=SLICE)
    work, quiet = generate(batch, 100), replace(on, hidden_fraction=0.0)
    found, here = (
        talk_s(step(LLAMA_70B, work, each, BF16, V5E, quiet)) for each in (apart, replace(apart, kv="heads"))
    )
    ring = all_to_all_s(2 * batch * 80 * 128, (Y,), V5E, quiet) + all_to_all_s(2 * batch * 64 * 128, (Y,), V5E, quiet)
    assert found - here == pytest.approx(80 * ring)


# --- devices of a chip ---


def test_the_two_devices_of_a_chip_talk_over_their_own_link() -> None:
    """jax#39340: neighbours inside a chip are nearer than the chips of a slice."""
    work = prefill(8, 2048)
    inside = step(LLAMA_70B, work, Layout(hidden=(device_axis(TPU7X),)), BF16, CORE)
    between = step(LLAMA_70B, work, Layout(hidden=(TorusAxis("x", 2, False),)), BF16, CORE)
    assert talk_s(inside) < talk_s(between) / 10
    assert replace(inside, collective_bytes_s=0, collective_latency_s=0) == replace(
        between, collective_bytes_s=0, collective_latency_s=0
    )


def test_a_collective_over_chips_and_devices_is_that_of_the_chip() -> None:
    axes = (TorusAxis("x", 4, True),)
    found = step(LLAMA_70B, prefill(8, 2048), Layout(hidden=(*axes, device_axis(TPU7X))), BF16, CORE)
    moved = 8 * 2048 * 8192 * 2
    inside_s = moved / 2 / TPU7X.known("intra_chip_bytes_per_s")
    assert talk_s(found) == pytest.approx(80 * 4 * (all_gather_s(moved, axes, TPU7X) + inside_s))


def test_what_talks_most_belongs_inside_the_chip() -> None:
    """Bug log, jax#39340: with the axis over devices outermost, its traffic leaves the chip."""
    inner, outer = device_axis(TPU7X), TorusAxis("x", 2, False)
    right, wrong = (
        step(LLAMA_70B, prefill(8, 2048), Layout(hidden=(a,), experts=(b,)), BF16, CORE)
        for a, b in ((inner, outer), (outer, inner))
    )
    assert right.total_s < wrong.total_s


@given(any_model, any_work, any_stack)
def test_a_faster_link_inside_never_slows_a_step(model: Transformer, work: Work, on: Stack) -> None:
    layout = Layout(hidden=(TorusAxis("x", 4, False),), experts=(device_axis(TPU7X),))
    faster = replace(CORE, intra_chip_bytes_per_s=2 * CORE.known("intra_chip_bytes_per_s"))
    slow = step(model, work, layout, INT8, CORE, on).total_s
    assert step(model, work, layout, INT8, faster, on).total_s <= slow * WITHIN_ROUNDING


def test_devices_halve_what_a_chip_of_7x_holds() -> None:
    one, two = Layout(), Layout(hidden=(device_axis(TPU7X),))
    assert weight_bytes_per_chip(LLAMA_70B, two, INT8) == weight_bytes_per_chip(LLAMA_70B, one, INT8) / 2
    work = generate(8, 1000)
    assert kv_bytes_per_chip(LLAMA_70B, work, two, INT8) == kv_bytes_per_chip(LLAMA_70B, work, one, INT8) / 2


# --- nodes ---


def test_a_tree_has_the_efficiencies_and_the_call_of_a_stack() -> None:
    on = replace(stack("hopper-engines"), ici_efficiency=0.5, network_efficiency=0.8, network_call_s=1e-5)
    inside, above = Level("nvlink", 8, 450e9), Level("network", 4, 200e9)
    assert tree_gather_s(1e9, (inside,), on) == pytest.approx(2 * tree_gather_s(1e9, (inside,)))
    assert tree_gather_s(1e9, (above,), on) == pytest.approx(1e-5 + tree_gather_s(1e9, (above,)) / 0.8)
    assert tree_gather_s(1e9, (), on) == 0
    assert tree_all_reduce_s(1e9, (above,), on) == pytest.approx(1e-5 + 2 * tree_gather_s(1e9, (above,)) / 0.8)


def test_a_step_over_nodes_pays_the_network_for_every_residual() -> None:
    on = replace(stack("fastertransformer-tensorrt-llm"), network_efficiency=0.5)
    a100, eight = chip("a100"), (TorusAxis("x", 8, False),)
    one = step(LLAMA_70B, prefill(1, 512), Layout(hidden=eight), BF16, a100, on)
    two = step(LLAMA_70B, prefill(1, 512), Layout(hidden=eight, nodes=2, network_bytes_per_s=25e9), BF16, a100, on)
    moved = 512 * 8192 * 2
    assert all_gather_s(moved, eight, a100, on) * 4 * 80 == pytest.approx(talk_s(one))
    assert talk_s(two) - talk_s(one) == pytest.approx(80 * 4 * (on.network_call_s + moved / 8 / 2 / (25e9 * 0.5)))
