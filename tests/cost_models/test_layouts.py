"""How arrays lie on a mesh and what that costs: shards, padding, copies, groups of neighbours, sharded choice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.bounds import best_2d_ways, chips_where_2d_wins
from cost_models.chips import Chip, chip
from cost_models.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from cost_models.layouts import (
    kv_by_batch_ici_s,
    kv_by_sequence_ici_s,
    megatron_ici_s,
    two_d_ici_s,
    weight_gather_ici_s,
)
from cost_models.memory import kv_cache_bytes, kv_page_bytes, kv_scale_bytes, max_sequences, paged_tokens, weights_bytes
from cost_models.sampling import embedding, gathered_choice, logits, logits_bytes, sharded_top_k
from cost_models.shards import chip_bytes, kv_head_copies, local_shape, mesh_bytes, padding_bytes, replicas
from cost_models.torus import MeshAxis, TorusAxis, hosts_touched, merge_axes, mesh_groups, parse_slice, split_axis
from cost_models.traffic import dequantisation, elementwise, kv_append, norm, residual

V4, V5E, V6E = chip("v4"), chip("v5e"), chip("v6e")
MB = 1e6
MESH = {"x": 2, "y": 4}

sizes = st.integers(1, 4096)
dtypes = st.sampled_from(["bf16", "int8", "int4"])


def ring(size: int, name: str = "x") -> TorusAxis:
    return TorusAxis(name, size, wraps=True)


@given(sizes, sizes, dtypes)
def test_sharding_never_increases_the_bytes_of_a_chip(rows: int, columns: int, dtype: str) -> None:
    whole, one, both = (
        chip_bytes((rows, columns), layout, MESH, dtype)
        for layout in (([], []), (["x"], []), (["x"], ["y"]))
    )  # fmt: skip
    assert both <= one <= whole


@given(sizes, sizes, dtypes)
def test_all_chips_hold_at_least_the_array(rows: int, columns: int, dtype: str) -> None:
    layout = (["x"], ["y"])
    assert padding_bytes((rows, columns), layout, MESH, dtype) >= 0
    assert mesh_bytes((rows, columns), layout, MESH, dtype) >= rows * columns // 2


def test_an_axis_that_shards_nothing_holds_copies() -> None:
    assert replicas((["x"], []), MESH) == 4
    assert mesh_bytes((8, 8), (["x"], []), MESH, "int8") == 4 * 64


def test_an_axis_cannot_shard_two_dimensions() -> None:
    with pytest.raises(ValueError, match="mesh axes x, x shard two dimensions at once"):
        local_shape((8, 8), (["x"], ["x"]), MESH)


def test_an_odd_vocabulary_is_padded_and_counted() -> None:
    """Bug log A5: 50257 over eight chips is 6283 rows each, seven of them empty."""
    assert local_shape((50257, 768), (["y"], []), {"y": 8}) == (6283, 768)
    assert padding_bytes((50257, 768), (["y"], []), {"y": 8}, "int8") == 7 * 768


@pytest.mark.parametrize(("heads", "ways", "copies"), [(4, 8, 2), (2, 8, 4), (8, 8, 1), (8, 4, 1), (1, 16, 16)])
def test_a_kv_head_is_copied_and_never_cut(heads: int, ways: int, copies: int) -> None:
    """Bug log A1, A2."""
    assert kv_head_copies(heads, ways) == copies


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="3 KV heads do not lie evenly on 8 chips"):
        kv_head_copies(3, 8)


def test_a_cache_by_sequence_is_held_once() -> None:
    """Bug log, sglang#30501: a copy on every rank is not room for more tokens."""
    shape = (8192, 8, 128)
    by_sequence, copied = (["y"], [], []), ([], [], [])
    assert replicas(by_sequence, {"y": 4}) == 1
    assert mesh_bytes(shape, copied, {"y": 4}, "int8") == 4 * mesh_bytes(shape, by_sequence, {"y": 4}, "int8")


def test_a_head_of_96_is_stored_as_128_where_the_kernel_needs_it() -> None:
    """Bug log B1: counted with 96, the promised batch did not fit; a third more bytes than counted."""
    plain, padded = (kv_cache_bytes(4096, 32, 32, 96, "bf16", lanes) for lanes in (1, 128))
    assert padded == plain * 128 // 96
    assert kv_page_bytes(16, 32, 96, "bf16", 128) * (4096 // 16) * 32 == padded


def test_the_batch_promised_for_a_head_of_96_fits_padded() -> None:
    """Bug log B1: 32 layers of width 3072 on four v5e."""
    stored = weights_bytes(3_821_000_000, "bf16")
    plain, padded = (kv_cache_bytes(4096, 32, 32, 96, "bf16", lanes) for lanes in (1, 128))
    hbm_bytes = 4 * V5E.hbm_bytes
    promised = max_sequences(hbm_bytes, stored, padded)
    assert promised < max_sequences(hbm_bytes, stored, plain)
    assert stored + promised * padded <= hbm_bytes < stored + max_sequences(hbm_bytes, stored, plain) * padded


def test_long_contexts_of_70b_do_not_fit_eight_small_chips() -> None:
    """Bug log B2: int8 weights and a bf16 cache on eight v5e, at 131072 tokens and at 4096."""
    hbm_bytes, stored = 8 * V5E.hbm_bytes, weights_bytes(70_553_706_496, "int8")
    long, short = (kv_cache_bytes(tokens, 80, 8, 128, "bf16") for tokens in (131072, 4096))
    assert long == pytest.approx(43e9, rel=0.01)
    assert max_sequences(hbm_bytes, stored, long) == 1
    assert max_sequences(hbm_bytes, stored, short) > 8


def test_sequences_of_all_lengths_take_whole_pages() -> None:
    assert paged_tokens([1, 128, 129], 128) == 128 + 128 + 256
    assert paged_tokens([1, 128, 129], 1) == 258


def test_an_int8_cache_is_half_of_bf16_and_its_scales() -> None:
    """Bug log, jetstream-pytorch#14: 70B with 8 KV heads, not its 64 query heads."""
    bf16, int8 = (kv_cache_bytes(1, 80, 8, 128, dtype) for dtype in ("bf16", "int8"))
    assert (int8, kv_scale_bytes(1, 80, 8, "int8")) == (bf16 // 2, 2 * 80 * 8 * 4)
    assert kv_scale_bytes(1, 80, 8, "bf16") == 0
    assert int8 + kv_scale_bytes(1, 80, 8, "int8") < kv_cache_bytes(1, 80, 64, 128, "int8")


def groups_of(on: Chip, shape: str, pieces: dict[str, tuple[int, ...]], over: tuple[str, ...]) -> tuple[int, float]:
    """The most hosts that a group over the mesh axes `over` touches, and the seconds of its all-reduce of 1 MB."""
    slice_ = parse_slice(on, shape)
    axes = tuple(axis for name, parts in pieces.items() for axis in split_axis(slice_.axis(name), parts))
    joined: tuple[MeshAxis, ...] = tuple(axis for axis in axes if axis.name in over)
    hosts = max(hosts_touched(group, slice_) for group in mesh_groups(axes, over, slice_))
    return hosts, all_reduce_s(MB, merge_axes(joined, slice_), on)


def test_a_tensor_group_of_neighbours_touches_fewer_hosts_and_is_cheaper() -> None:
    """Bug log C4: v6e 4x4 on hosts of 2x2, two replicas of eight chips."""
    on = replace(V6E, host_shape=(2, 2))
    pieces = {"x": (2, 2), "y": (4,)}
    near_hosts, near_s = groups_of(on, "4x4", pieces, ("x1", "y"))
    far_hosts, far_s = groups_of(on, "4x4", pieces, ("x0", "y"))
    assert (near_hosts, far_hosts) == (2, 4)
    assert near_s < far_s


def test_a_block_is_cheaper_than_every_other_order_of_its_pieces() -> None:
    """Bug log C4: v5e 4x8, four replicas of eight chips: the 2x4 block is one host and the cheapest."""
    pieces = {"x": (2, 2), "y": (2, 4)}
    block_hosts, block_s = groups_of(V5E, "4x8", pieces, ("x1", "y1"))
    assert block_hosts == 1
    for over in (("x0", "y1"), ("y0", "y1")):
        hosts, seconds = groups_of(V5E, "4x8", pieces, over)
        assert hosts == 2
        assert seconds > block_s


def test_groups_cover_every_chip_once() -> None:
    slice_ = parse_slice(V5E, "4x4")
    axes = (*split_axis(slice_.axis("x"), (2, 2)), *split_axis(slice_.axis("y"), (4,)))
    groups = mesh_groups(axes, ("x1", "y"), slice_)
    assert [len(group) for group in groups] == [8, 8]
    assert len({chip for group in groups for chip in group}) == 16
    assert groups[0][0] == (0, 0)


def test_a_megatron_block_is_a_gather_and_a_scatter() -> None:
    axes = (ring(16),)
    moved = 2 * 64 * 8192
    both = all_gather_s(moved, axes, V5E) + reduce_scatter_s(moved, axes, V5E)
    assert megatron_ici_s(64, 8192, 2, axes, V5E) == both


@pytest.mark.parametrize(("x", "y", "z"), [(4, 4, 4), (4, 4, 8), (8, 8, 8)])
def test_two_dimensions_win_from_the_break_even_on(x: int, y: int, z: int) -> None:
    """With ways near the best ones, F = 4 * D; a mesh of whole ways is never better than the closed form."""
    d_model, d_ff, chips = 8192, 32768, x * y * z
    axes = (ring(x), ring(y, "y"), ring(z, "z"))
    one_d = megatron_ici_s(1e6, d_model, 2, axes, V4)
    two_d = two_d_ici_s(1e6, d_model, d_ff, 2, axes[:1], axes[1:], V4)
    over_d_model, over_d_ff = best_2d_ways(chips, d_model, d_ff)
    best = 1e6 * (2 * d_model / over_d_model + 4 * d_ff / over_d_ff) / 90e9
    assert two_d >= best * (1 - 1e-9)
    assert (two_d < one_d) == (chips > chips_where_2d_wins(d_model, d_ff))


def test_a_cache_by_sequence_moves_more_than_one_by_batch() -> None:
    by_batch, by_sequence = (
        call(10**5, 64, 128, 2, (ring(16),), V5E) for call in (kv_by_batch_ici_s, kv_by_sequence_ici_s)
    )
    assert by_sequence > 3.9 * by_batch


def test_weights_are_gathered_once_for_any_batch() -> None:
    assert weight_gather_ici_s(1e9, 1, (ring(16),), V5E) == all_gather_s(1e9, (ring(16),), V5E)


@given(st.integers(1, 512), st.sampled_from([32_000, 151_936, 262_208]), st.integers(1, 64))
def test_candidates_are_never_dearer_than_all_logits(sequences: int, vocab: int, top_k: int) -> None:
    """Bug log C5: gathering the vocabulary took a third of a step."""
    axes = (TorusAxis("y", 8, wraps=False),)
    sharded, gathered = sharded_top_k(sequences, vocab, top_k, axes, V6E), gathered_choice(sequences, vocab, axes, V6E)
    assert sharded.ici_s <= gathered.ici_s
    assert sharded.hbm_s <= gathered.hbm_s / 8 * 1.001


def test_choosing_greedily_sends_one_candidate_of_each_shard() -> None:
    axes = (TorusAxis("y", 8, wraps=False),)
    greedy = sharded_top_k(64, 151_936, 1, axes, V6E)
    assert greedy.ici_s == all_gather_s(64 * 8 * 8, axes, V6E)
    assert greedy.ici_s < gathered_choice(64, 151_936, axes, V6E).ici_s / 20


def test_logits_are_float32_and_their_columns_shared() -> None:
    assert logits_bytes(64, 50257, 8) == 4 * 64 * 6283
    head = {"weight_bytes_per_element": 2, "activation_bytes_per_element": 2, "compute_dtype": "bf16", "chip": V5E}
    one, eight = (logits(64, 4096, 32768, ways, **head) for ways in (1, 8))
    assert eight.compute_s == one.compute_s / 8
    assert one.hbm_s * V5E.hbm_bytes_per_s == pytest.approx(2 * 4096 * 32768 + 2 * 64 * 4096 + 4 * 64 * 32768)


@given(st.integers(1, 4096), st.floats(0.1, 1))
def test_fewer_bytes_of_the_traffic_between_matmuls_are_never_slower(rows: int, part: float) -> None:
    for call in (norm, residual, embedding):
        assert call(rows, 4096, 2 * part, V5E).total_s() <= call(rows, 4096, 2, V5E).total_s()
    assert kv_append(rows, 8, 128, 2 * part, V5E).total_s() <= kv_append(rows, 8, 128, 2, V5E).total_s()


def test_a_residual_reads_two_arrays_and_writes_one() -> None:
    assert residual(64, 4096, 2, V5E).hbm_s * V5E.hbm_bytes_per_s == pytest.approx(3 * 64 * 4096 * 2)
    assert norm(64, 4096, 2, V5E).hbm_s > elementwise(64 * 4096, 2, V5E).hbm_s


def test_widening_weights_in_memory_costs_four_bytes_each() -> None:
    """int8 read once by the widening, as by any matmul; bf16 written, and read again by the matmul."""
    assert dequantisation(1e9, 1, 2, V5E).hbm_s == pytest.approx(4e9 / V5E.hbm_bytes_per_s)
    assert dequantisation(1e9, 2, 2, V5E).total_s() == 0
