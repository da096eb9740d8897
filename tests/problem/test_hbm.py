"""What a chip keeps in HBM, as the compiler counts it."""

from dataclasses import replace
from math import ceil

import pytest

from planner.problem.hbm import kv_cache_bytes
from planner.problem.rules import GenerateRules, Ways
from planner.problem.sizes import Sizes

LLAMA_1B = Sizes(16, 2048, 8192, 32, 8, 64, 128256, True, 2, 0, 2, 2, "bf16", lanes=128)
WAYS = Ways({"x": 2, "y": 2})
HEADS = GenerateRules(q_heads=("x", "y"), kv_heads=("x", "y"))


def test_the_cache_has_the_pages_of_its_slots_and_a_scratch_page():
    on_cpu = replace(LLAMA_1B, lanes=1)
    pages = 32 * 16 + 1
    assert kv_cache_bytes(HEADS, 32, 2048, 128, on_cpu, WAYS) == 16 * pages * 128 * (2 * 2) * 64 * 2


def test_narrow_heads_lie_side_by_side_in_the_lanes_of_a_tpu_tile():
    """Heads apart, each in lanes of its own, would take 1,075,838,976 bytes on v5e 2x2."""
    assert kv_cache_bytes(HEADS, 32, 2048, 128, LLAMA_1B, WAYS) == 537_919_488


@pytest.mark.parametrize(
    ("kv_local", "head_dim", "elements"),
    [
        pytest.param(1, 128, 2 * 128, id="two rows fit"),
        pytest.param(2, 128, 4 * 128, id="four rows fit"),
        pytest.param(3, 128, 8 * 128, id="six rows take eight"),
        pytest.param(4, 192, 8 * 256, id="lanes are whole"),
        pytest.param(5, 64, 16 * 128, id="ten rows take sixteen"),
        pytest.param(10, 128, 24 * 128, id="twenty rows take twenty-four"),
    ],
)
def test_a_token_in_tiles(kv_local: int, head_dim: int, elements: int):
    """The compiler's own sizes of bf16 and float32 arrays [.., 2 * kv_local, head_dim] on v5e, v5p and v6e."""
    tiled = replace(LLAMA_1B, head_dim=head_dim)
    assert tiled.stored_kv_rows(kv_local) * tiled.stored_head_dim == elements
    plain = replace(tiled, lanes=1)
    assert plain.stored_kv_rows(kv_local) * plain.stored_head_dim == 2 * kv_local * head_dim


def test_tiles_never_take_less_than_the_elements():
    for kv_local in range(1, 33):
        assert 2 * kv_local <= LLAMA_1B.stored_kv_rows(kv_local) <= ceil(2 * kv_local / 8) * 8
