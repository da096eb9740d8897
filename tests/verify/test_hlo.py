"""Optimised HLO text, as TPU and CPU compilers print it: structure, loops, collectives of every spelling."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.verify.hlo import Module, Shape, executions, parse, shapes_in, uncounted_loops
from planner.verify.transfers import FUSED, JOINED, PIECES, WIDENED, Transfer, address_of, transfers

PROGRAMS = Path(__file__).parent / "programs"
V5E_4X4 = {"x": 4, "y": 4}


def program(name: str) -> Module:
    return parse((PROGRAMS / f"{name}.hlo").read_text(encoding="utf-8"))


def listed(found: list[Transfer]) -> list[tuple[str | None, str, tuple[str, ...] | None, int, int, str | None]]:
    return [(each.address, each.kind, each.axes, each.bytes, each.count, each.spelling) for each in found]


def test_shapes_are_read_with_tiles_and_memory_spaces():
    tiled, scalar = shapes_in("(bf16[32,4,128]{2,1,0:T(4,128)(2,1)S(1)}, /*index=5*/pred[])")
    assert tiled == Shape("bf16", (32, 4, 128), "{2,1,0:T(4,128)(2,1)S(1)}")
    assert (tiled.elements, tiled.bytes, tiled.memory_space) == (16384, 32768, 1)
    assert (scalar.dims, scalar.bytes, scalar.memory_space) == ((), 1, 0)


@pytest.mark.parametrize(("dtype", "size"), [("s4", 16), ("s8", 32), ("f8e4m3fn", 32), ("f16", 64), ("u64", 256)])
def test_bytes_follow_the_dtype(dtype: str, size: int):
    assert Shape(dtype, (32,), "").bytes == size


def test_donated_arguments_and_parameters_are_found():
    module = program("cpu_nested_loops")
    assert module.donated == {1}
    assert [module.parameters[number].name for number in (0, 1)] == ["tokens", "x"]


def test_loops_multiply_inside_each_other():
    module = program("cpu_nested_loops")
    counts = executions(module)
    assert (counts["outer_body"], counts["inner_body"]) == (3, 12)
    assert "widen" not in counts
    assert "region_sum" not in counts
    assert uncounted_loops(module) == []


def test_a_loop_of_unknown_length_is_counted_once_and_named():
    text = (PROGRAMS / "cpu_nested_loops.hlo").read_text(encoding="utf-8")
    module = parse(text.replace("constant(4)", "constant({...})"))
    assert uncounted_loops(module) == ["while.1"]
    assert executions(module)["inner_body"] == 3


def test_cpu_spellings_are_the_planned_transfers():
    assert listed(transfers(program("cpu_nested_loops"), {"x": 2, "y": 4})) == [
        ("generate.mlp.out", "all_reduce", ("x",), 8 * 16 * 2, 12, WIDENED),
        ("generate.attention.q_to_batch", "all_to_all", ("x",), 8 * 16 * 2, 3, WIDENED),
        ("generate.mlp.hidden_rows", "all_gather", ("y",), 32 * 16 * 2, 3, WIDENED),
        ("generate.logits.norm", "all_reduce", ("x", "y"), 8 * 16 * 4, 1, None),
    ]


def test_an_all_to_all_in_pieces_is_one_transfer():
    text = (PROGRAMS / "cpu_nested_loops.hlo").read_text(encoding="utf-8")
    exact = parse(text.replace("bf16[8,16]", "f32[8,16]"))
    found = next(each for each in transfers(exact, {"x": 2, "y": 4}) if each.kind == "all_to_all")
    assert (found.bytes, found.spelling) == (8 * 16 * 4, PIECES)


JOINED_SUMS = """HloModule joined

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,16], w: f32[16,4]) -> f32[8,4] {
  %x = f32[8,16]{1,0} parameter(0), metadata={op_name="x"}
  %w = f32[16,4]{1,0} parameter(1), metadata={op_name="w"}
  %h = f32[8,16]{1,0} tanh(%x), metadata={op_name="generate.attention.norm/tanh"}
  %q = f32[8,4]{1,0} dot(%h, %w), metadata={op_name="generate.attention.q/dot"}
  %kv = f32[8,4]{1,0} dot(%h, %w), metadata={op_name="generate.attention.kv/dot"}
  %moved = f32[8,4]{1,0} bitcast(%kv)
  %both = (f32[8,4], f32[8,4]) all-reduce(OPERANDS), to_apply=%sum, metadata={op_name="step/NAMES"}
  ROOT %part = f32[8,4]{1,0} get-tuple-element(%both), index=0
}
"""
KV, Q = "generate.attention.kv", "generate.attention.q"


@pytest.mark.parametrize("names", [f"({KV}/psum:{Q}/psum)", f"({Q}/psum:{KV}/psum)"])
@pytest.mark.parametrize(("operands", "expected"), [("%q, %moved", (Q, KV)), ("%moved, %q", (KV, Q))])
def test_joined_collectives_are_told_apart_by_what_made_their_operands(
    names: str, operands: str, expected: tuple[str, str]
):
    module = parse(JOINED_SUMS.replace("NAMES", names).replace("OPERANDS", operands))
    found = listed(transfers(module, {"x": 4}))
    assert found == [(address, "all_reduce", ("x",), 128, 1, JOINED) for address in expected]


def test_a_collective_of_several_arrays_in_one_scope_is_not_joined():
    module = parse(JOINED_SUMS.replace("NAMES", f"{Q}/psum").replace("OPERANDS", "%q, %moved"))
    assert listed(transfers(module, {"x": 4})) == [(Q, "all_reduce", ("x",), 128, 1, None)] * 2


def test_a_reduction_that_is_not_promoted_keeps_its_float32_bytes():
    text = (PROGRAMS / "cpu_nested_loops.hlo").read_text(encoding="utf-8")
    module = parse(text.replace("region_sum_promoted", "region_sum_of_float32"))
    found = next(each for each in transfers(module, {"x": 2, "y": 4}) if each.address == "generate.mlp.out")
    assert (found.bytes, found.spelling) == (8 * 16 * 4, None)


def test_an_asynchronous_fusion_counts_where_it_starts():
    assert listed(transfers(program("tpu_async_collective_fusion"), V5E_4X4)) == [
        ("prefill.attention.gather_w_o_scale", "all_gather", None, 8192 * 4, 1, None)
    ]
    assert listed(transfers(program("tpu_async_collective_fusion"), {"x": 4, "y0": 2, "y1": 2})) == [
        ("prefill.attention.gather_w_o_scale", "all_gather", ("y1",), 8192 * 4, 1, None)
    ]


def test_an_all_reduce_scatter_fusion_is_a_reduce_scatter_with_its_padding_and_halo():
    assert listed(transfers(program("tpu_all_reduce_scatter_fusion"), V5E_4X4)) == [
        (None, "reduce_scatter", ("y",), 1120 * 8192 * 2, 1, FUSED),
        (None, "permute", ("y",), 72 * 8192 * 2, 1, None),
    ]


def test_a_permute_is_counted_at_its_start():
    assert listed(transfers(program("tpu_collective_permute"), V5E_4X4)) == [
        ("generate.mlp.out", "permute", ("y",), 32 * 1024 * 2, 1, None)
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tpu7x_sparsecore_all_reduce", ("generate.mlp.out", "all_reduce", ("x", "y"), 256 * 4096 * 2, 1, None)),
        ("tpu7x_sparsecore_reduce_scatter", (None, "reduce_scatter", ("x",), 1024 * 4096 * 2, 1, None)),
    ],
)
def test_calls_on_the_sparsecore_are_followed(name: str, expected: tuple[object, ...]):
    assert listed(transfers(program(name), {"x": 2, "y": 2, "core": 2})) == [expected]


@pytest.mark.parametrize(
    ("scope", "address"),
    [
        ("jit(_step)/shard_map/while/body/closed_call/generate.mlp.out/psum", "generate.mlp.out"),
        ("generate.attention.out/while/body/generate.mlp.norm/psum", "generate.mlp.norm"),
        ("prefill.attention.gather_w_o_scale", "prefill.attention.gather_w_o_scale"),
        ("jit(_step)/shard_map/while", None),
        ("generate.logits/dot_general", None),
        ("", None),
    ],
)
def test_the_innermost_address_of_a_scope_counts(scope: str, address: str | None):
    assert address_of(scope) == address


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_nested_loops_run_the_product_of_their_trips(trips: list[int]):
    assert executions(parse(nest(trips)))[f"body.{len(trips) - 1}"] == product_of(trips)


def product_of(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def nest(trips: list[int]) -> str:
    """A program of loops inside each other, the outermost first."""
    parts = ["HloModule nest", ""]
    for depth, count in reversed(list(enumerate(trips))):
        inside = loop(depth + 1) if depth + 1 < len(trips) else "  ROOT %same = (s32[]) tuple(%start)"
        parts += [
            f"%condition.{depth} (c.{depth}: (s32[])) -> pred[] {{",
            f"  %c.{depth} = (s32[]) parameter(0)",
            f"  %bound.{depth} = s32[] constant({count})",
            f"  %now.{depth} = s32[] get-tuple-element(%c.{depth}), index=0",
            f"  ROOT %lt.{depth} = pred[] compare(%now.{depth}, %bound.{depth}), direction=LT",
            "}",
            "",
            f"%body.{depth} (p.{depth}: (s32[])) -> (s32[]) {{",
            f"  %p.{depth} = (s32[]) parameter(0)",
            inside.replace("%start", f"%p.{depth}"),
            "}",
            "",
        ]
    return "\n".join(
        [*parts, "ENTRY %main (start: (s32[])) -> (s32[]) {", "  %start = (s32[]) parameter(0)", loop(0), "}"]
    )


def loop(depth: int) -> str:
    return f"  ROOT %while.{depth} = (s32[]) while(%start), condition=%condition.{depth}, body=%body.{depth}"
