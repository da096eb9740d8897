"""HBM bytes of compiled programs: padded, looped, of parts what is read, of kernels the pages."""

import pytest

from planner.verify.hlo import parse, shapes_in
from planner.verify.traffic import Pages, hbm_bytes, moved
from tests.verify.test_hlo import program

LAYER = 1024 * 2 * 512  # int8
CACHE = 1024 * 128 * 2 * 128 * 2
LOOPS, INDEX = 16, 4
KERNEL = """HloModule jit_step, is_scheduled=true

ENTRY %main (cache.1: bf16[1024,128,2,128], q.1: bf16[32,8,128]) -> bf16[32,8,128] {
  %cache.1 = bf16[1024,128,2,128]{3,2,1,0:T(2,128)(2,1)} parameter(0), metadata={op_name="cache"}
  %q.1 = bf16[32,8,128]{2,1,0:T(8,128)(2,1)} parameter(1)
  ROOT %kernel.1 = bf16[32,8,128]{2,1,0:T(8,128)(2,1)} custom-call(%q.1, %cache.1), KERNEL
}
""".replace(
    "KERNEL", 'custom_call_target="tpu_custom_call", metadata={op_name="jit(step)/generate.attention.kv_cache/kernel"}'
)
WRITER = KERNEL.replace("-> bf16[32,8,128] {", "-> bf16[1024,128,2,128] {").replace(
    "%kernel.1 = bf16[32,8,128]{2,1,0:T(8,128)(2,1)} custom-call(%q.1, %cache.1)",
    "%kernel.1 = bf16[1024,128,2,128]{3,2,1,0:T(2,128)(2,1)} custom-call(%q.1, %cache.1), "
    "output_to_operand_aliasing={{}: (1, {})}",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16[32,8,128]{2,1,0:T(8,128)(2,1)}", 32 * 8 * 128 * 2),
        ("f32[3,100]{1,0:T(8,128)}", 8 * 128 * 4),
        ("f32[3,100]{0,1:T(8,128)}", 104 * 128 * 4),
        ("s32[32]{0:T(128)}", 128 * 4),
        ("s8[80,2,30,128]{3,2,1,0:T(32,128)(4,1)}", 80 * 2 * 32 * 128),
        ("f32[10]", 40),
        ("s32[]{:T(128)}", 4),
    ],
)
def test_bytes_are_padded_to_tiles(text: str, expected: int):
    assert shapes_in(text)[0].padded_bytes == expected


def test_what_is_on_chip_costs_no_hbm_bytes():
    (shape,) = shapes_in("bf16[32,2,512]{2,0,1:T(8,128)(2,1)S(1)}")
    assert (shape.padded_bytes > 0, shape.hbm_bytes) == (True, 0)


def test_loops_are_multiplied_out_and_parts_counted_as_parts():
    found = {each.instruction: each.bytes for each in moved(program("tpu_copies"), Pages(0, 0))}
    assert found["slice_fusion"] == LOOPS * (LAYER + INDEX)  # read from HBM, written on chip
    assert found["matmul"] == LOOPS * (LAYER + INDEX + 32 * 1024 * 2)
    assert found["copy.1"] == LOOPS * 2 * CACHE
    assert found["scatter_fusion"] == LOOPS * (
        2 * 16 * 2 * 128 * 2 + 128 * 4
    )  # tokens read and written, and their places
    assert found["copy-start.1"] == 8192 * 1024
    assert "tuple.1" not in found


def test_bytes_are_told_by_address():
    found = hbm_bytes(program("tpu_copies"), Pages(0, 0))
    assert found["prefill.mlp.gather_w_in"] >= LOOPS * LAYER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KERNEL, 3 * 5 * CACHE // 1024 + 2 * 32 * 8 * 128 * 2),
        (WRITER, 2 * 3 * CACHE // 1024 // 128 + 32 * 8 * 128 * 2),
    ],
    ids=["read", "write"],
)
def test_kernels_touch_the_pages_of_their_slots(text: str, expected: int):
    assert hbm_bytes(parse(text), Pages(3, 5)) == {"generate.attention.kv_cache": expected}


NAMELESS = """HloModule jit_step, is_scheduled=true

%product (p.0: bf16[512,1024], p.1: bf16[4096,1024]) -> f32[512,4096] {
  %p.0 = bf16[512,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %p.1 = bf16[4096,1024]{1,0:T(8,128)(2,1)} parameter(1)
  ROOT %convolution.1 = f32[512,4096]{0,1:T(8,128)} convolution(%p.0, %p.1), dim_labels=bf_oi->bf
}

ENTRY %main (rows.1: bf16[512,1024], lm_head.1: bf16[4096,1024]) -> f32[512,4096] {
  %rows.1 = bf16[512,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %lm_head.1 = bf16[4096,1024]{1,0:T(8,128)(2,1)} parameter(1), metadata={op_name="weights.lm_head"}
  %norm.1 = bf16[512,1024]{1,0:T(8,128)(2,1)S(1)} copy(%rows.1), metadata={op_name="jit(a)/generate.logits.norm/mul"}
  %fusion.1 = f32[512,4096]{0,1:T(8,128)S(1)} fusion(%norm.1, %lm_head.1), kind=kOutput, calls=%product
  ROOT %top.1 = f32[512,4096]{0,1:T(8,128)S(1)} copy(%fusion.1), metadata={op_name="jit(a)/generate.sampling.x/top_k"}
}
"""


def test_a_product_without_a_name_is_counted_where_its_rows_were_made():
    found = hbm_bytes(parse(NAMELESS), Pages(0, 0))
    assert found == {"generate.logits.norm": (512 + 4096) * 1024 * 2}
