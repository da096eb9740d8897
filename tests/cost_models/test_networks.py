"""Trees of switches, the data-center network, host links, devices of one chip, and rates inside a chip."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.chips import Chip, UnknownNumber, chip, chips
from cost_models.collectives import all_gather_s, all_to_all_s
from cost_models.cores import systolic_flops_per_s, vector_flops_per_s
from cost_models.devices import device, device_all_reduce_s, device_axis, device_gather_s, device_reduce_scatter_s
from cost_models.networks import (
    Level,
    dcn_s,
    gpu_levels,
    host_s,
    levels_of,
    sharded_gather_s,
    tree_all_reduce_s,
    tree_all_to_all_s,
    tree_gather_s,
)
from cost_models.torus import TorusAxis, parse_slice

A100, H100, GB200, V5E, TPU7X = chip("a100"), chip("h100"), chip("gb200"), chip("v5e"), chip("7x")
GPUS = [each for each in chips() if each.kind == "gpu"]

any_bytes = st.floats(1, 1e12)
trees = st.sampled_from([levels_of(count, H100) for count in (2, 8, 16, 64, 256, 1024)])


@pytest.mark.parametrize("gpu", GPUS, ids=lambda each: each.name)
def test_a_tree_of_one_domain_is_the_switch(gpu: Chip) -> None:
    domain = parse_slice(gpu, str(gpu.max_chips))
    node = levels_of(gpu.max_chips, gpu)
    assert tree_gather_s(1e9, node) == pytest.approx(all_gather_s(1e9, domain.axes, gpu))
    assert tree_all_to_all_s(1e9, node) == pytest.approx(all_to_all_s(1e9, domain.axes, gpu))


def test_the_tree_above_a_domain_is_a_full_fat_one() -> None:
    assert [(level.name, level.ways) for level in gpu_levels(H100)] == [("nvlink", 8), ("leaf", 32), ("spine", 4)]
    assert [(level.name, level.ways) for level in gpu_levels(GB200)] == [("nvlink", 72), ("leaf", 8)]
    for below, above in zip(gpu_levels(H100)[1:], gpu_levels(H100)[2:], strict=False):
        assert above.bytes_per_s == below.total_bytes_per_s


def test_a_chip_without_a_network_in_the_catalogue_has_its_domain() -> None:
    assert [level.name for level in gpu_levels(A100)] == ["nvlink"]


def test_few_gpus_use_few_levels() -> None:
    assert [(level.name, level.ways) for level in levels_of(64, H100)] == [("nvlink", 8), ("leaf", 8)]
    assert levels_of(1, H100) == ()


@pytest.mark.parametrize(("count", "message"), [(12, "do not fill whole nvlink groups of 8"), (2048, "more than")])
def test_gpus_that_the_tree_does_not_hold_are_refused(count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        levels_of(count, H100)


@given(any_bytes, trees)
def test_sums_in_the_switches_are_off_unless_asked_for(moved: float, tree: tuple[Level, ...]) -> None:
    assert tree_all_reduce_s(moved, tree) == 2 * tree_gather_s(moved, tree)
    assert tree_all_reduce_s(moved, tree, sharp=True) <= tree_all_reduce_s(moved, tree) * (1 + 1e-12)


@given(any_bytes, trees, st.floats(1, 100))
def test_more_bytes_never_take_less_time(moved: float, tree: tuple[Level, ...], factor: float) -> None:
    for call in (tree_gather_s, tree_all_reduce_s, tree_all_to_all_s):
        assert call(moved, tree) <= call(moved * factor, tree) * (1 + 1e-12)


@given(any_bytes, trees, st.floats(1, 100))
def test_more_bandwidth_never_slows_a_tree(moved: float, tree: tuple[Level, ...], factor: float) -> None:
    faster = [replace(level, bytes_per_s=level.bytes_per_s * factor) for level in tree]
    for call in (tree_gather_s, tree_all_reduce_s, tree_all_to_all_s):
        assert call(moved, faster) <= call(moved, tree) * (1 + 1e-12)


def test_leaving_the_domain_slows_an_all_to_all_most() -> None:
    inside, across = levels_of(8, H100), levels_of(16, H100)
    assert tree_all_to_all_s(1e9, across) > 2 * tree_all_to_all_s(1e9, inside)
    assert tree_gather_s(1e9, across) < 1.01 * tree_gather_s(1e9, inside)


def test_shards_of_an_inner_axis_share_the_way_out_of_a_node() -> None:
    """Nothing is gained at the network until the inner axis leaves the node (gpus.md § Quiz 3 Q3)."""
    times = [sharded_gather_s(2 * 8192 * 32768, ways, 256, H100) for ways in (4, 8, 16, 32)]
    assert times[0] == times[1] == pytest.approx(1.300e-3, rel=1e-3)
    assert times[1] > times[2] > times[3]


def test_an_outer_axis_within_a_node_needs_no_network() -> None:
    assert sharded_gather_s(1e9, 2, 8, H100) == pytest.approx(1e9 / 450e9 * 3 / 4 / 2)
    assert sharded_gather_s(1e9, 1, 4, H100) == tree_gather_s(1e9, levels_of(4, H100))
    assert sharded_gather_s(1e9, 8, 8, H100) == 0


def test_pages_sent_to_another_slice_are_bound_by_the_network() -> None:
    """formulas.md § 13: 1.34 GB of KV cache leave a v5e host of eight chips in 54 ms."""
    assert dcn_s(1.34e9, V5E, 8) == pytest.approx(54e-3, rel=0.01)


def test_a_slow_host_link_binds_what_crosses_it() -> None:
    narrow = replace(V5E, pcie_bytes_per_s=1e9)
    assert dcn_s(1e9, narrow) == host_s(1e9, narrow) == 1


def test_a_number_that_no_source_prints_is_named() -> None:
    with pytest.raises(UnknownNumber, match="the catalogue has no clock_hz for v4"):
        systolic_flops_per_s(chip("v4"))


@pytest.mark.parametrize("name", ["v5e", "v5p"])
def test_the_matrix_units_add_up_to_the_printed_peak(name: str) -> None:
    assert systolic_flops_per_s(chip(name)) == pytest.approx(chip(name).flops_per_s("bf16"), rel=0.01)


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_the_vector_lanes_add_up_to_the_printed_float32_peak(name: str) -> None:
    assert vector_flops_per_s(chip(name)) == pytest.approx(chip(name).flops_per_s("float32"), rel=0.01)


def test_a_device_of_7x_owns_half_of_a_chip() -> None:
    half = device(TPU7X)
    assert (half.hbm_bytes, half.flops_per_s("bf16")) == (96_000_000_000, 1.15e15)
    assert (half.hbm_bytes_per_s, half.ici_bytes_per_s, half.devices_per_chip) == (3.7e12, 45e9, 1)
    assert device(V5E) is V5E


def test_the_devices_of_a_chip_are_nearer_than_two_chips() -> None:
    """Bug log, jax#39340: the two cores of a chip have a faster link, so theirs is the innermost axis."""
    inside = device_gather_s(1e9, (), TPU7X)
    between = all_gather_s(1e9, (TorusAxis("x", 2, wraps=False),), device(TPU7X))
    assert device_axis(TPU7X).size == 2
    assert inside < between / 10


def test_crossing_the_chip_costs_little_beside_its_links() -> None:
    axes = (TorusAxis("x", 4, wraps=True),)
    over_ici_s = all_gather_s(1e9, axes, TPU7X)
    assert over_ici_s < device_gather_s(1e9, axes, TPU7X) < 1.2 * over_ici_s
    halves = device_reduce_scatter_s(1e9, axes, TPU7X) + device_gather_s(1e9, axes, TPU7X)
    assert device_all_reduce_s(1e9, axes, TPU7X) == pytest.approx(halves)


def test_a_chip_of_one_device_has_nothing_to_cross() -> None:
    axes = (TorusAxis("x", 4, wraps=True),)
    assert device_gather_s(1e9, axes, V5E) == all_gather_s(1e9, axes, V5E)
