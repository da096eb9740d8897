"""Mixtures of experts: what a batch touches, what the busiest chip does, and what padding of narrow experts costs."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.chips import chip
from cost_models.collectives import all_to_all_s
from cost_models.matmul import matmul, mxu_padded
from cost_models.moe import (
    busiest_experts,
    dispatch_s,
    distinct_chips,
    expert_matmuls,
    experts_touched,
    imbalance,
    ragged_fraction,
)
from cost_models.shards import local_shape, padding_bytes
from cost_models.torus import TorusAxis

V5E, V6E = chip("v5e"), chip("v6e")
BF16 = {"weight_bytes_per_element": 2, "activation_bytes_per_element": 2, "compute_dtype": "bf16", "chip": V6E}
WITHIN_ROUNDING = 1 + 1e-9

tokens = st.integers(1, 4096)
mixtures = st.sampled_from([(8, 2), (128, 8), (256, 8), (16, 1), (8, 8)])
groups = st.sampled_from([1, 2, 4, 8])


@given(tokens, mixtures)
def test_a_batch_touches_between_the_experts_of_a_token_and_all(batch: int, mixture: tuple[int, int]) -> None:
    experts, k = mixture
    assert k <= experts_touched(batch, experts, k) * WITHIN_ROUNDING
    assert experts_touched(batch, experts, k) <= experts * WITHIN_ROUNDING


@given(tokens, mixtures)
def test_more_tokens_never_touch_fewer_experts(batch: int, mixture: tuple[int, int]) -> None:
    assert experts_touched(batch, *mixture) <= experts_touched(batch + 1, *mixture) * WITHIN_ROUNDING


def test_many_tokens_touch_as_many_experts_as_the_draws_of_the_book() -> None:
    """E * (1 - (1 - 1/E)^(B * k)) lets a token draw an expert twice; with many tokens that hardly matters."""
    assert experts_touched(64, 256, 8) == pytest.approx(256 * (1 - (1 - 1 / 256) ** (64 * 8)), rel=5e-3)
    assert experts_touched(1, 256, 8) == pytest.approx(8)


@given(tokens, mixtures, groups)
def test_the_busiest_chip_reads_at_least_the_mean_and_at_most_its_experts(
    batch: int, mixture: tuple[int, int], chips: int
) -> None:
    experts, k = mixture
    busiest = busiest_experts(batch, experts, k, chips)
    assert experts_touched(batch, experts, k) / chips <= busiest * WITHIN_ROUNDING
    assert busiest <= experts // chips * WITHIN_ROUNDING


@given(tokens, st.integers(1, 8), groups)
def test_imbalance_lies_between_balanced_and_all_on_one_chip(batch: int, k: int, chips: int) -> None:
    assert imbalance(batch, k, chips) * WITHIN_ROUNDING >= 1
    assert imbalance(batch, k, chips) <= chips * WITHIN_ROUNDING


def test_imbalance_fades_with_the_batch() -> None:
    assert imbalance(1, 1, 8) == pytest.approx(8)
    assert imbalance(16, 8, 8) > imbalance(1024, 8, 8) > imbalance(65536, 8, 8) > 1
    assert imbalance(65536, 8, 8) < 1.02


@pytest.mark.parametrize(("batch", "experts", "k", "chips"), [(16, 256, 8, 16), (64, 128, 8, 8), (4, 16, 2, 4)])
def test_the_busiest_chip_is_that_of_a_simulated_router(batch: int, experts: int, k: int, chips: int) -> None:
    """Within 8 %: counts of different chips are taken as independent, which they are not quite."""
    router = random.Random(1)
    rows, touched = [], []
    for _ in range(400):
        drawn = [expert for _ in range(batch) for expert in router.sample(range(experts), k)]
        rows.append(max(Counter(expert * chips // experts for expert in drawn).values()))
        touched.append(max(Counter(expert * chips // experts for expert in set(drawn)).values()))
    assert imbalance(batch, k, chips) == pytest.approx(sum(rows) / 400 / (batch * k / chips), rel=0.08)
    assert busiest_experts(batch, experts, k, chips) == pytest.approx(sum(touched) / 400, rel=0.08)


def test_one_token_keeps_one_chip_busy() -> None:
    assert busiest_experts(1, 16, 1, 8) == pytest.approx(1.0)
    assert experts_touched(1, 16, 1) / 8 == pytest.approx(1 / 8)


def test_one_expert_for_all_is_a_dense_mlp() -> None:
    dense = matmul(64, 4096, 2 * 16384, **BF16) + matmul(64, 16384, 4096, **BF16)
    assert experts_touched(1, 1, 1) == 1
    assert expert_matmuls(64, 4096, 16384, 1, 1, **BF16) == dense


def test_the_largest_of_many_counts_is_the_same_by_either_method() -> None:
    """Counted term by term up to 50 deviations, from the normal distribution beyond."""
    exactly, nearly = imbalance(158_000, 1, 64), imbalance(162_700, 1, 64)
    assert exactly == pytest.approx(nearly, rel=2e-3)
    assert 1.03 < nearly < exactly < 1.06


@given(st.floats(1, 1e7), st.floats(1, 2), st.integers(1, 8), groups)
def test_the_rows_of_the_busiest_chip_never_fall_with_the_batch(batch: float, more: float, k: int, chips: int) -> None:
    few, many = (tokens * imbalance(tokens, k, chips) for tokens in (batch, batch * more))
    assert few <= many * (1 + 1e-3)


@given(tokens, mixtures, groups)
def test_a_balanced_mixture_is_never_slower(batch: int, mixture: tuple[int, int], chips: int) -> None:
    experts, k = mixture
    balanced, busiest = (
        expert_matmuls(batch, 2048, 768, experts, k, chips=chips, balanced=each, **BF16) for each in (True, False)
    )
    assert balanced.total_s() <= busiest.total_s() * WITHIN_ROUNDING


@given(tokens, mixtures, st.floats(0.1, 1))
def test_fewer_bytes_of_a_weight_never_slow_a_mixture(batch: int, mixture: tuple[int, int], part: float) -> None:
    narrower = {**BF16, "weight_bytes_per_element": 2 * part}
    slow = expert_matmuls(batch, 2048, 768, *mixture, **BF16)
    assert expert_matmuls(batch, 2048, 768, *mixture, **narrower).total_s() <= slow.total_s()


@given(tokens, mixtures)
def test_sharding_experts_never_reads_more_on_a_chip(batch: int, mixture: tuple[int, int]) -> None:
    one, two = (expert_matmuls(batch, 2048, 768, *mixture, chips=chips, **BF16) for chips in (1, 2))
    assert two.hbm_s <= one.hbm_s * WITHIN_ROUNDING


def test_a_small_batch_reads_few_experts() -> None:
    small, large = (expert_matmuls(batch, 7168, 2048, 256, 8, **BF16) for batch in (1, 1024))
    assert small.hbm_s == pytest.approx(large.hbm_s / 32, rel=0.1)


def test_a_ragged_dispatch_sends_each_token_only_to_its_chips() -> None:
    axes = (TorusAxis("x", 16, wraps=True),)
    full = 2 * all_to_all_s(2 * 10**6 * 2048 * 16, axes, V5E)
    assert dispatch_s(10**6, 2048, 2, 4, axes, V5E) == pytest.approx(full / 4)
    assert ragged_fraction(32, 16) == 1


@given(st.integers(1, 16), st.integers(1, 64))
def test_a_token_goes_to_no_more_chips_than_it_has_experts(k: int, ways: int) -> None:
    assert distinct_chips(k, ways) <= min(k, ways) * WITHIN_ROUNDING
    assert distinct_chips(k, ways) / ways <= ragged_fraction(k, ways) * WITHIN_ROUNDING


@pytest.mark.parametrize(
    ("width", "ways", "local", "padded"),
    [
        pytest.param(512, 4, 128, 128, id="512 over 4 fills a tile"),
        pytest.param(512, 8, 64, 128, id="512 over 8 is padded to 1024"),
        pytest.param(768, 8, 96, 128, id="768 over 8 is padded to 1024"),
    ],
)
def test_narrow_experts_are_padded_and_the_padding_is_counted(width: int, ways: int, local: int, padded: int) -> None:
    """Bug log A4: a loader padded experts of 512 to the kernel's tile, and the weights took twice what was counted."""
    shape, layout, mesh = (256, 2048, width), ([], [], ["y"]), {"y": ways}
    assert local_shape(shape, layout, mesh) == (256, 2048, local)
    assert local_shape(shape, layout, mesh, (1, 1, 128)) == (256, 2048, padded)
    waste = padding_bytes(shape, layout, mesh, "bf16", (1, 1, 128))
    assert waste == 256 * 2048 * (padded - local) * ways * 2


def test_sharding_experts_beats_cutting_them_below_a_tile() -> None:
    """Bug log A4: eight ways over 256 experts of 512 leave each expert whole and waste nothing."""
    shape, mesh = (256, 2048, 512), {"y": 8}
    assert padding_bytes(shape, (["y"], [], []), mesh, "bf16", (1, 1, 128)) == 0
    sizes = {**BF16, "chip": replace(V6E, mxu_dim=128), "balanced": True}
    cut = expert_matmuls(1024, 2048, mxu_padded(512 // 8, sizes["chip"]), 256, 8, **sizes)
    whole = expert_matmuls(1024, 2048, 512, 256, 8, chips=8, **sizes)
    assert whole.total_s() < cut.total_s()
