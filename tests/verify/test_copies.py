"""Copies of weights and caches: found by where a value comes from, not by its shape."""

from planner.verify.copies import Copy, copies
from planner.verify.hlo import Module, parse
from planner.verify.origins import Origins
from tests.verify.test_hlo import PROGRAMS, program

CACHE_BYTES = 1024 * 128 * 2 * 128 * 2


def on_tpu(module: Module) -> dict[str, Copy]:
    return {copy.instruction: copy for copy in copies(module, on_tpu=True)}


def test_copies_are_told_with_part_memory_and_purpose():
    assert on_tpu(program("tpu_copies")) == {
        "copy.1": Copy("cache", "whole", CACHE_BYTES, 16, "HBM", "copy.1", None),
        "slice_fusion": Copy("weights.layers.w_in", "1/16", 1 << 20, 16, "VMEM", "slice_fusion", "feeds a gather"),
        "copy-start.1": Copy("weights.embedding", "whole", 8 << 20, 1, "VMEM", "copy-start.1", None),
    }


def test_a_prefetch_that_is_read_in_full_has_its_purpose():
    text = (PROGRAMS / "tpu_copies.hlo").read_text(encoding="utf-8")
    module = parse(
        text.replace("s8[32,1024]{1,0:T(8,128)(4,1)S(1)} gather(%param_0, %param_1)", "s8[32,1024] dot(%param_0)")
    )
    assert on_tpu(module)["copy-start.1"].purpose == "brought to VMEM and read there in full"


def test_cpu_matmuls_may_copy_a_layer_but_not_a_whole_cache():
    found = {copy.array: copy.purpose for copy in copies(program("tpu_copies"), on_tpu=False)}
    assert found["cache"] is None
    assert found["weights.embedding"] is None


def test_values_are_followed_through_loops_and_updates_to_their_argument():
    module = program("tpu_copies")
    main = module.computations["main"]
    origin = Origins(module).of(main, main.root)
    assert origin is not None
    assert origin.parameter.scope == "cache"
    body = module.computations["body"]
    copied = Origins(module).of(body, body.instructions["copy.1"])
    assert copied is not None
    assert [place.instruction for place in copied.moves] == ["copy.1"]
    assert [place.instruction for place in copied.updates] == ["scatter.3"]


def test_computed_values_have_no_origin():
    module = program("tpu_copies")
    body = module.computations["body"]
    assert Origins(module).of(body, body.instructions["matmul"]) is None
    assert Origins(module).of(body, body.instructions["all-gather.1"]) is None


def test_a_slice_that_is_brought_on_chip_for_a_gather_feeds_it():
    text = (PROGRAMS / "tpu_copies.hlo").read_text(encoding="utf-8")
    shape, there = "s8[1,1024,2,512]{3,1,2,0:T(32,128)(4,1)}", "s8[1,1024,2,512]{3,1,2,0:T(32,128)(4,1)S(1)}"
    brought = (
        f"  %copy-start.7 = ({there}, {shape}, u32[]{{:S(2)}}) copy-start(%slice_fusion)\n"
        f"  %copy-done.7 = {there} copy-done(%copy-start.7)\n"
        "  %bitcast.3 ="
    )
    text = text.replace(f"%slice_fusion = {there}", f"%slice_fusion = {shape}").replace("  %bitcast.3 =", brought)
    found = on_tpu(parse(text.replace("bitcast(%slice_fusion)", "bitcast(%copy-done.7)")))
    assert (found["slice_fusion"].memory, found["slice_fusion"].purpose) == ("HBM", "feeds a gather")
    assert found["copy-start.7"].purpose == "feeds a gather"
