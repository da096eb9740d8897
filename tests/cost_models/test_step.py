"""One step of a transformer: the headline of arXiv:2211.05102 by cause, and what must hold for any layout and stack."""

import itertools
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_models import DEEPSEEK_V3, GEMMA3_27B, GPT_OSS, QWEN3_30B, SHARING

from cost_models.chips import Chip, chip
from cost_models.collectives import all_gather_s
from cost_models.placement import (
    Layout,
    kv_bytes_per_chip,
    weight_bytes_per_chip,
    weight_gathered,
    weight_stationary_2d,
)
from cost_models.stacks import BOOK, CPU, Stack, accuracy_text, default_stack, measured_stacks, stack
from cost_models.step import Step, fastest_step, roofline_s, step
from cost_models.torus import Slice, TorusAxis
from cost_models.transformer import Numerics, Transformer, Work, generate, prefill

ROOT = Path(__file__).resolve().parents[2]
V4, V5E, H100, A100 = chip("v4"), chip("v5e"), chip("h100"), chip("a100")
CUBE = Slice(V4, (4, 4, 4)).axes
PALM = Transformer(118, 18432, 73728, 64, 1, 256, 256128, gated=True, parallel_block=True)
LLAMA_70B = Transformer(80, 8192, 28672, 64, 8, 128, 128256)
INT8 = Numerics(weights="int8")
BF16 = Numerics()
EINSUM = stack("v4-looped-einsum")
ENGINES = stack("hopper-engines")

STEP_STACKS = [
    BOOK,
    CPU,
    EINSUM,
    stack("v5e-jax-llm-examples"),
    stack("v5e-jax-llm-examples-experts"),
    stack("v6e-sglang-jax"),
    stack("fastertransformer-tensorrt-llm"),
    ENGINES,
]

any_stack = st.sampled_from(STEP_STACKS)
any_chip = st.sampled_from([V4, V5E, H100, A100])
any_model = st.sampled_from([PALM, LLAMA_70B, DEEPSEEK_V3, QWEN3_30B, GPT_OSS, GEMMA3_27B, SHARING])
any_numerics = st.sampled_from([INT8, BF16])
any_work = st.one_of(
    st.builds(generate, st.integers(1, 1024), st.integers(1, 100_000)),
    st.builds(prefill, st.integers(1, 64), st.integers(1, 8192)),
)
any_factor = st.floats(1, 100)
WITHIN_ROUNDING = 1 + 1e-9


def rings(*sizes: int, wraps: bool = True) -> tuple[TorusAxis, ...]:
    return tuple(TorusAxis(name, size, wraps) for name, size in zip("xyz", sizes, strict=False))


def layouts(wraps: bool = True) -> list[Layout]:
    """1D, 2D with either split, weight-gathered over one axis and over all, experts, heads and batch."""
    axes = rings(4, 8, wraps=wraps)
    return [
        Layout(hidden=axes),
        Layout(hidden=axes, kv="batch"),
        *weight_stationary_2d(axes, "batch"),
        *weight_gathered(axes, 64),
        Layout(hidden=axes, whole_experts=8),
        Layout(hidden=axes[:1], experts=axes[1:]),
        Layout(hidden=axes[1:], experts=axes[:1], whole_experts=4, kv="batch"),
        Layout(),
    ]


any_layout = st.sampled_from(layouts())


# --- the headline ---


def headline(on: Stack = EINSUM) -> Step:
    """PaLM-540B in int8, generate at batch 64 and context 2048 on 64 TPU v4; 28.5 ms measured."""
    return fastest_step(PALM, generate(64, 2048), weight_stationary_2d(CUBE, "batch"), INT8, V4, on)


def test_the_headline_is_predicted_within_ten_percent() -> None:
    assert headline().total_s * 1e3 == pytest.approx(28.5, rel=0.10)


def test_the_headline_is_right_for_the_right_reason() -> None:
    """Latency is the largest part; replicated caches or missing latency, which cancel in other tools, would show."""
    parts = headline()
    milliseconds = {each.name: getattr(parts, each.name) * 1e3 for each in fields(Step)}
    assert max(milliseconds, key=lambda name: milliseconds[name]) == "collective_latency_s"
    assert 12 < milliseconds["collective_latency_s"] < 16
    assert 8.5 < milliseconds["weights_s"] < 10.5
    assert 2 < milliseconds["collective_bytes_s"] < 4
    assert 0.2 < milliseconds["kv_cache_s"] < 0.4
    assert milliseconds["compute_s"] + milliseconds["elementwise_s"] < 4
    assert milliseconds["fixed_s"] == 0


def test_the_headline_counts_the_hops_of_every_collective() -> None:
    """118 layers x 24 hops: 2 x 4 over YZ and 2 x 2 over X for the matmuls, 2 x 6 for the all-to-alls."""
    assert headline().collective_latency_s == pytest.approx(118 * 24 * EINSUM.hop_s)


def test_a_cache_read_by_every_chip_would_take_half_of_the_headline() -> None:
    """All but 64 times: queries and outputs, less than a hundredth of the bytes, are not copied."""
    by_heads = fastest_step(PALM, generate(64, 2048), weight_stationary_2d(CUBE, "heads"), INT8, V4, EINSUM)
    assert by_heads.kv_cache_s == pytest.approx(64 * headline().kv_cache_s, rel=0.03)


def test_without_latency_the_headline_is_half_as_long() -> None:
    assert headline(replace(EINSUM, hop_s=0.0)).total_s < 16e-3


# --- hand arithmetic ---


def test_one_chip_in_book_mode_reads_its_weights_and_cache() -> None:
    found = step(LLAMA_70B, generate(1, 1000), Layout(), INT8, H100)
    cache_bytes = 80 * (1000 * 2 * 8 * 128 * 2 + 2 * 64 * 128 * 2)
    assert found.weights_s == pytest.approx(LLAMA_70B.parameters / 3.35e12, rel=1e-3)
    assert found.kv_cache_s == pytest.approx(cache_bytes / 3.35e12)
    assert found.total_s == pytest.approx(found.weights_s + found.kv_cache_s)


def test_a_llama_has_seventy_billion_parameters() -> None:
    embedding = LLAMA_70B.vocab * LLAMA_70B.d_model
    assert (LLAMA_70B.parameters + embedding) / 1e9 == pytest.approx(70.6, rel=0.01)


def test_tensor_parallelism_gathers_and_scatters_twice_a_layer() -> None:
    eight = (TorusAxis("x", 8, False),)
    found = step(LLAMA_70B, generate(32, 1), Layout(hidden=eight), BF16, H100, ENGINES)
    communication_s = found.collective_bytes_s + found.collective_latency_s
    assert communication_s == pytest.approx(80 * 4 * all_gather_s(32 * 8192 * 2, eight, H100, ENGINES))


def test_gathered_weights_are_gathered_once_a_layer_and_split_the_tokens() -> None:
    found = step(PALM, prefill(512, 2048), Layout(gathered=CUBE), BF16, V4)
    layer_bytes = 2 * PALM.blocks[0].parameters
    assert found.collective_bytes_s == pytest.approx(118 * all_gather_s(layer_bytes, CUBE, V4))
    assert found.compute_s > 10 * found.collective_bytes_s


def test_more_nodes_need_a_rate_between_them() -> None:
    bare = replace(A100, dcn_bytes_per_s=None)
    with pytest.raises(ValueError, match="give the layout network_bytes_per_s"):
        step(LLAMA_70B, generate(1, 1), Layout(hidden=rings(8), nodes=2), BF16, bare)
    named = Layout(hidden=rings(8), nodes=2, network_bytes_per_s=25e9)
    assert step(LLAMA_70B, generate(1, 1), named, BF16, bare).total_s > 0


def test_a_pipeline_shortens_a_long_prefill_but_no_decode_step() -> None:
    one, three = Layout(hidden=rings(8)), Layout(hidden=rings(8), stages=3)
    decode, long = generate(64, 1000), prefill(256, 128)
    assert step(LLAMA_70B, decode, three, BF16, A100) == step(LLAMA_70B, decode, one, BF16, A100)
    assert step(LLAMA_70B, long, three, BF16, A100).total_s < step(LLAMA_70B, long, one, BF16, A100).total_s / 2
    assert step(LLAMA_70B, prefill(16, 128), three, BF16, A100) == step(LLAMA_70B, prefill(16, 128), one, BF16, A100)


def test_a_serial_block_talks_twice_as_often() -> None:
    serial = replace(PALM, parallel_block=False)
    layout = Layout(hidden=CUBE)
    once = step(PALM, generate(1, 1), layout, INT8, V4, EINSUM).collective_latency_s
    assert step(serial, generate(1, 1), layout, INT8, V4, EINSUM).collective_latency_s == pytest.approx(2 * once)


# --- what must hold for any of them ---


@given(any_model, any_work, any_layout, any_numerics, any_chip, any_stack)
def test_the_parts_add_up_and_none_is_negative(
    model: Transformer, work: Work, layout: Layout, numerics: Numerics, on: Chip, with_stack: Stack
) -> None:
    found = step(model, work, layout, numerics, on, with_stack)
    parts = [getattr(found, each.name) for each in fields(Step)]
    assert all(part >= 0 for part in parts)
    assert found.total_s == pytest.approx(sum(parts))


@given(any_model, any_work, any_layout, any_numerics, any_chip, any_stack)
def test_no_step_beats_its_bare_roofline(
    model: Transformer, work: Work, layout: Layout, numerics: Numerics, on: Chip, with_stack: Stack
) -> None:
    bare = roofline_s(model, work, layout, numerics, on)
    assert step(model, work, layout, numerics, on, with_stack).total_s * WITHIN_ROUNDING >= bare


@pytest.mark.parametrize("rate", ["hbm_bytes_per_s", "ici_bytes_per_s"])
@given(any_model, any_work, any_layout, any_chip, any_stack, any_factor)
def test_more_bandwidth_never_makes_a_step_slower(
    rate: str, model: Transformer, work: Work, layout: Layout, on: Chip, with_stack: Stack, factor: float
) -> None:
    faster = replace(on, **{rate: getattr(on, rate) * factor})
    slow = step(model, work, layout, BF16, on, with_stack).total_s
    assert step(model, work, layout, BF16, faster, with_stack).total_s <= slow * WITHIN_ROUNDING


@pytest.mark.parametrize("cost", ["hop_s", "collective_launch_s", "layer_s", "step_s", "ramp_s", "network_call_s"])
@given(any_model, any_work, any_layout, any_chip, any_stack, st.floats(0, 1))
def test_less_latency_never_makes_a_step_slower(
    cost: str, model: Transformer, work: Work, layout: Layout, on: Chip, with_stack: Stack, factor: float
) -> None:
    cheaper = replace(with_stack, **{cost: (getattr(with_stack, cost) or on.ici_hop_s) * factor})
    dearer = replace(with_stack, **{cost: getattr(with_stack, cost) or on.ici_hop_s})
    slow = step(model, work, layout, BF16, on, dearer).total_s
    assert step(model, work, layout, BF16, on, cheaper).total_s <= slow * WITHIN_ROUNDING


@given(any_model, any_work, any_layout, any_chip, any_stack)
def test_fewer_bytes_never_make_a_step_slower(
    model: Transformer, work: Work, layout: Layout, on: Chip, with_stack: Stack
) -> None:
    slow = step(model, work, layout, BF16, on, with_stack).total_s
    for narrow in (INT8, Numerics(kv_cache="int8"), Numerics(weights="int8", kv_cache="int8")):
        assert step(model, work, layout, narrow, on, with_stack).total_s <= slow * WITHIN_ROUNDING


@given(any_model, any_work, any_numerics, any_chip, any_stack)
def test_a_ring_is_never_slower_than_a_line(
    model: Transformer, work: Work, numerics: Numerics, on: Chip, with_stack: Stack
) -> None:
    for ring, line in zip(layouts(), layouts(wraps=False), strict=True):
        slow = step(model, work, line, numerics, on, with_stack).total_s
        assert step(model, work, ring, numerics, on, with_stack).total_s <= slow * WITHIN_ROUNDING


@given(any_model, st.floats(1, 1e4), st.floats(1, 1e5), any_layout, any_chip, any_stack)
def test_a_step_is_continuous_in_its_batch_across_the_latency_knee(
    model: Transformer, sequences: float, context: float, layout: Layout, on: Chip, with_stack: Stack
) -> None:
    at = step(model, generate(sequences, context), layout, BF16, on, with_stack).total_s
    beyond = step(model, generate(sequences * (1 + 1e-9), context), layout, BF16, on, with_stack).total_s
    assert beyond == pytest.approx(at, rel=1e-6)


@pytest.mark.parametrize("with_stack", STEP_STACKS, ids=lambda each: each.name)
def test_a_collective_has_no_jump_where_bytes_overtake_hops(with_stack: Stack) -> None:
    axes = rings(4)
    steps = [all_gather_s(2.0 ** (place / 64), axes, V4, with_stack) for place in range(64 * 30)]
    assert all(low <= high <= low * 1.012 for low, high in itertools.pairwise(steps))


@given(any_model, st.integers(1, 1024), st.integers(1, 100_000), any_numerics, st.sampled_from([2, 4, 8]))
def test_sharding_an_axis_never_increases_the_bytes_of_a_chip(
    model: Transformer, sequences: int, context: int, numerics: Numerics, ways: int
) -> None:
    axis, more, work = rings(4), rings(4, ways), generate(sequences, context)
    pairs = [
        (Layout(hidden=axis), Layout(hidden=more)),
        (Layout(hidden=axis, kv="batch"), Layout(hidden=more, kv="batch")),
        (Layout(hidden=axis), Layout(hidden=axis, feature=more[1:])),
        (Layout(hidden=axis), Layout(hidden=axis, gathered=more[1:])),
        (Layout(hidden=axis), Layout(hidden=axis, stages=ways)),
        (Layout(hidden=axis), Layout(hidden=axis, experts=more[1:])),
        (Layout(hidden=axis, kv="sequence"), Layout(hidden=more, kv="sequence")),
        (Layout(hidden=axis), Layout(hidden=axis, whole_experts=4)),
    ]
    for few, many in pairs:
        few_bytes, many_bytes = (weight_bytes_per_chip(model, each, numerics) for each in (few, many))
        assert many_bytes <= few_bytes * WITHIN_ROUNDING
        assert kv_bytes_per_chip(model, work, many, numerics) <= kv_bytes_per_chip(model, work, few, numerics)


# --- stacks ---


@pytest.mark.parametrize("each", measured_stacks(), ids=lambda each: each.name)
def test_a_measured_stack_has_few_constants_and_says_where_they_come_from(each: Stack) -> None:
    made_by_fit = [name for name, source in each.sources.items() if source.startswith("fit: benchmarks/fit.py")]
    assert 1 <= len(made_by_fit) < 12
    assert all(
        source.startswith(("fit: ", "form: ", "not fitted", "estimate: ", "borrowed: ", "the chips"))
        for source in each.sources.values()
    )
    assert each.chips
    assert each.latency == "sum"
    for name in made_by_fit:
        assert getattr(each, name) > 0
        if name.endswith("_efficiency"):
            assert getattr(each, name) <= 1


def test_the_terms_of_measured_mode_are_neutral_in_book_mode() -> None:
    for each in (BOOK, CPU):
        assert {each.hidden_fraction, each.partial_overlap_tokens, each.layer_s, each.elementwise_passes} == {0.0}
        assert {each.sequence_layer_s, each.cached_token_layer_s, each.kv_group_reads, each.ramp_s} == {0.0}
        assert {each.attention_efficiency, each.network_efficiency, each.all_reduce_rate, each.pair_rate} == {1.0}
        assert (each.switch_steps, each.one_shot_bytes, each.network_call_s) == ("one", 0.0, 0.0)


@pytest.mark.parametrize("name", ["v4", "v5e", "v5p", "v6e", "7x", "a100", "h100", "h200", "b200", "gb200", "cpu"])
def test_every_chip_has_a_default_stack(name: str) -> None:
    for experts in (False, True):
        default = default_stack(chip(name).name, experts=experts)
        assert default.prices_steps
        assert accuracy_text(name, default, experts=experts).startswith(f"{default.name}: ")
    assert accuracy_text(name, BOOK).startswith("book: ")


def test_a_chip_that_no_stack_was_named_for_is_priced_by_the_book() -> None:
    for experts in (False, True):
        assert default_stack("a-new-chip", experts=experts) == BOOK
        assert accuracy_text("a-new-chip", BOOK, experts=experts).startswith("book: rooflines at peak rates")


def documented_constants() -> dict[tuple[str, str], float]:
    """The tables of constants in docs/cost-models.md by stack and constant."""
    found: dict[tuple[str, str], float] = {}
    names: list[str] = []
    for line in (ROOT / "docs" / "cost-models.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if cells[0] == "constant":
            names = cells[2:]
        elif names and cells[0].isidentifier():
            found |= {(name, cells[0]): float(cell) for name, cell in zip(names, cells[2:], strict=True) if cell}
        elif not line.startswith("|"):
            names = []
    return found


def test_the_documented_constants_are_those_of_the_catalogue() -> None:
    fitted = {
        (each.name, name): getattr(each, name)
        for each in measured_stacks()
        for name, source in each.sources.items()
        if source.startswith("fit: ")
    }
    assert documented_constants() == pytest.approx(fitted, rel=6e-3)


def test_the_module_needs_the_standard_library_alone() -> None:
    heavy = ("jax", "ortools", "numpy", "scipy")
    code = f"import sys, cost_models.step; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
