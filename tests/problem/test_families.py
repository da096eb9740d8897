"""Mixtures, latent attention and windows: sizes, collectives, bytes and prices of every family."""

from dataclasses import replace
from pathlib import Path

import pytest

from cost_models.blocks import AttentionKind
from cost_models.chips import chip
from cost_models.mla import Latent
from cost_models.moe import Mixture, busiest_load
from cost_models.placement import Layout
from cost_models.stacks import Stack, step_stacks
from cost_models.step import step
from cost_models.torus import parse_slice, split_axis
from cost_models.transformer import Numerics, Transformer, generate, prefill
from planner.problem import costs
from planner.problem.hbm import (
    attention_weights_bytes,
    experts_weights_bytes,
    kv_cache_bytes,
    mlp_weights_bytes,
    weights_bytes,
)
from planner.problem.machine import Machine
from planner.problem.planned import generate_attention, generate_mlp, prefill_attention, prefill_step
from planner.problem.primitives import Program
from planner.problem.routed import generate_experts, prefill_experts
from planner.problem.rules import GenerateRules, PrefillRules, Rules, Ways
from planner.problem.sizes import Sizes, sizes_of
from planner.spec import bundled_models, load_spec
from planner.spec.sizes import kv_values_per_token, parameter_count

SPEC = Path(__file__).resolve().parents[1] / "specs" / "llama_3_1_70b_v5e_4x4.yaml"
MIXTRAL = Sizes(32, 4096, 14336, 32, 8, 128, 32000, False, 2, 0, 2, 2, "bf16", lanes=128, mixture=Mixture(8, 2, 14336))
DEEPSEEK = Sizes(
    61, 7168, 18432, 128, 1, 128, 129280, False, 1, 4, 2, 2, "bf16", lanes=128,
    mixture=Mixture(256, 8, 2048, 2048, 3), latent=Latent(512, 64, 128, 128, 1536),
)  # fmt: skip
ONE = Ways({"x": 1})
WAYS = Ways({"x": 4, "y": 4})
BATCH = 64


def listed(collectives) -> list[tuple[str, str, str, int, int]]:
    return [(c.address.split(".", 1)[1], c.kind, "".join(c.axes), c.bytes, c.repeats) for c in collectives]


def model_sizes(name: str) -> tuple[Sizes, object]:
    spec = load_spec(SPEC, [f"model.config={name}", "model.weights.dtype=bf16", "serving.strategies=all"])
    return sizes_of(spec), spec.model


@pytest.mark.parametrize("name", bundled_models())
def test_weights_and_cache_are_those_of_the_model(name: str) -> None:
    """What is not counted of the parameters is norms and biases."""
    sizes, model = model_sizes(name)
    blocks = [attention_weights_bytes]
    blocks += [mlp_weights_bytes] if sizes.mlps else []
    blocks += [experts_weights_bytes] if sizes.mixture else []
    counted = sum(block(GenerateRules(), sizes, ONE) for block in blocks) / 2
    counted += (1 if sizes.tied else 2) * sizes.vocab * sizes.d_model
    left = parameter_count(model) - counted
    assert 0 <= left < 0.001 * counted
    assert sizes.layers * sizes.cached_dim == kv_values_per_token(model)


def test_blocks_follow_from_the_model() -> None:
    assert replace(MIXTRAL, mixture=None).blocks == ("attention", "mlp", "vocab")
    assert MIXTRAL.blocks == ("attention", "experts", "vocab")
    assert DEEPSEEK.blocks == ("attention", "mlp", "experts", "vocab")
    assert [(each.layers, each.d_ff) for each in DEEPSEEK.mlps] == [(3, 18432), (58, 2048)]


def test_mixtral_sends_rows_to_experts_and_sums_their_columns():
    program = Program(MIXTRAL, WAYS, min_scatter_rows=8)
    rules = GenerateRules(rows=("x",), experts=("x",), expert_ff=("y",))
    sent = 16 * 4096 * 2 * 2  # own rows, two experts each
    busiest = busiest_load(BATCH, 8, 2, 4)[0] / (BATCH * 2 / 4)
    found = listed(generate_experts(rules, BATCH, program))
    assert [(address, kind, axes, repeats) for address, kind, axes, _, repeats in found] == [
        ("experts.dispatch", "all_to_all", "x", 32),
        ("experts.combine", "all_to_all", "x", 32),
        ("experts.out", "all_reduce", "y", 32),
    ]
    assert [moved for *_, moved, _ in found] == [pytest.approx(sent * busiest, abs=1)] * 2 + [16 * 4096 * 2]
    assert busiest > 1


def test_experts_of_rows_that_every_chip_has_are_summed_only():
    program = Program(MIXTRAL, WAYS, min_scatter_rows=8)
    rules = GenerateRules(experts=("x",), expert_ff=("y",))
    assert listed(generate_experts(rules, BATCH, program)) == [
        ("experts.out", "all_reduce", "yx", BATCH * 4096 * 2, 32),
    ]


def test_gathered_experts_bring_all_experts_and_send_no_rows():
    program = Program(MIXTRAL, WAYS, min_scatter_rows=8)
    stored = GenerateRules(experts=("x",), expert_ff=("y",))
    rules = PrefillRules(tokens=("x",), expert_ff=("y",))
    assert listed(prefill_experts(stored, rules, 2048, program)) == [
        ("experts.gather_w_in", "all_gather", "x", 8 * 2 * 3584 * 4096 * 2, 32),
        ("experts.gather_w_down", "all_gather", "x", 8 * 3584 * 4096 * 2, 32),
        ("experts.out", "all_reduce", "y", 512 * 4096 * 2, 32),
    ]


def test_a_router_over_a_cut_d_model_is_summed():
    program = Program(MIXTRAL, WAYS, min_scatter_rows=8)
    rules = GenerateRules(d_model=("x",), expert_ff=("y",))
    found = listed(generate_experts(rules, BATCH, program))
    assert found[:2] == [
        ("experts.norm", "all_reduce", "x", BATCH * 4, 32),
        ("experts.router", "all_reduce", "x", BATCH * 8 * 4, 32),
    ]
    assert ("experts.hidden", "reduce_scatter", "x", 2 * BATCH * 2 * 3584 * 2, 32) in found
    assert found[-1] == ("experts.out", "all_reduce", "y", BATCH * 1024 * 2, 32)


def test_deepseek_sends_latent_queries_to_the_cache_and_latents_back():
    program = Program(DEEPSEEK, WAYS, min_scatter_rows=8)
    rules = GenerateRules(batch=("x",), q_heads=("y", "x"), d_ff=("y",))
    assert listed(generate_attention(rules, BATCH, program)) == [
        ("attention.q_to_batch", "all_to_all", "x", BATCH * 8 * 576 * 2, 61),
        ("attention.o_to_heads", "all_to_all", "x", BATCH * 8 * 512 * 2, 61),
        ("attention.out", "all_reduce", "yx", BATCH * 7168 * 2, 61),
    ]
    assert listed(generate_mlp(rules, BATCH, program)) == [
        ("mlp.out", "all_reduce", "y", BATCH * 7168 * 2, 3),
        ("mlp.out", "all_reduce", "y", BATCH * 7168 * 2, 58),
    ]


def test_deepseek_over_a_cut_d_model_sums_latents_and_gathers_heads():
    program = Program(DEEPSEEK, WAYS, min_scatter_rows=8)
    rules = GenerateRules(batch=("x",), d_model=("x",), q_heads=("y",))
    assert listed(generate_attention(rules, BATCH, program)) == [
        ("attention.norm", "all_reduce", "x", BATCH * 4, 61),
        ("attention.qkv", "reduce_scatter", "x", BATCH * (1536 + 576) * 2, 61),
        ("attention.o_rows", "all_gather", "x", BATCH * 32 * 128 * 2, 61),
        ("attention.out", "all_reduce", "y", BATCH * 1792 * 2, 61),
    ]


def test_deepseek_prefill_gathers_latents_of_cut_tokens_and_only_the_weights_that_an_axis_cuts():
    program = Program(DEEPSEEK, WAYS, min_scatter_rows=8)
    stored = GenerateRules(q_heads=("y", "x"))
    found = listed(prefill_attention(stored, PrefillRules(tokens=("x",), q_heads=("y",)), 2048, program))
    assert found == [
        ("attention.gather_w_q", "all_gather", "x", 1536 * 32 * 192, 61),
        ("attention.gather_w_q_scale", "all_gather", "x", 32 * 192 * 4, 61),
        ("attention.gather_w_kv", "all_gather", "x", 512 * 32 * 256, 61),
        ("attention.gather_w_kv_scale", "all_gather", "x", 32 * 256 * 4, 61),
        ("attention.gather_w_o", "all_gather", "x", 32 * 128 * 7168, 61),
        ("attention.kv_tokens", "all_gather", "x", 2048 * 576 * 2, 61),
        ("attention.out", "all_reduce", "y", 512 * 7168 * 2, 61),
    ]
    by_d = listed(prefill_attention(GenerateRules(d_model=("x",)), PrefillRules(tokens=("x",)), 2048, program))
    assert [address for address, *_ in by_d if "gather_w" in address and "scale" not in address] == [
        "attention.gather_w_latent",
        "attention.gather_w_o",
    ]


def test_every_planned_collective_of_a_mixture_is_charged_to_a_part():
    program = Program(DEEPSEEK, WAYS, min_scatter_rows=8)
    axes = {"d_model": ("x",), "q_heads": ("y",), "d_ff": ("y",), "experts": ("y",)}
    stored = GenerateRules(rows=("y",), vocab=("y",), **axes)
    planned = prefill_step(Rules(stored, PrefillRules(tokens=("x", "y"), d_ff=("y",))), 2048, program)
    assert {each.address.partition(".")[2] for each in planned} <= set(costs.PART_OF)


def test_a_window_keeps_its_pages_and_one_more() -> None:
    full = replace(MIXTRAL, mixture=None, lanes=1, layers=4)
    limited = replace(full, limited=AttentionKind(3, 1000))
    page = 128 * 2 * 8 * 128 * 2
    assert kv_cache_bytes(GenerateRules(), 2, 4096, 128, full, ONE) == 4 * (2 * 32 + 1) * page
    assert kv_cache_bytes(GenerateRules(), 2, 4096, 128, limited, ONE) == ((2 * 32 + 1) + 3 * (2 * 9 + 1)) * page
    assert kv_cache_bytes(GenerateRules(), 2, 512, 128, limited, ONE) == 4 * (2 * 4 + 1) * page


def test_a_latent_cache_is_kept_once_in_whole_lanes() -> None:
    assert kv_cache_bytes(GenerateRules(), 2, 4096, 128, DEEPSEEK, ONE) == 61 * (2 * 32 + 1) * 128 * 640 * 2
    heads = GenerateRules(q_heads=("x", "y"))
    assert kv_cache_bytes(heads, 2, 4096, 128, DEEPSEEK, WAYS) == 61 * (2 * 32 + 1) * 128 * 640 * 2


def test_experts_are_stored_where_they_are_cut() -> None:
    whole = experts_weights_bytes(GenerateRules(), MIXTRAL, WAYS) - 32 * 4096 * 8 * 2
    cut = GenerateRules(experts=("x",), expert_ff=("y",))
    assert experts_weights_bytes(cut, MIXTRAL, WAYS) - 32 * 4096 * 8 * 2 == whole / 16
    assert weights_bytes(cut, MIXTRAL, WAYS) < weights_bytes(GenerateRules(), MIXTRAL, WAYS) / 2


on_every_stack = pytest.mark.parametrize("stack", step_stacks(), ids=lambda each: each.name)


def machine(stack: Stack, sizes: Sizes) -> Machine:
    slice_ = parse_slice(chip("v5e"), "2x4")
    mesh = tuple(piece for axis in slice_.axes for piece in split_axis(axis, (axis.size,)))
    return Machine(chip("v5e"), stack, slice_, mesh, sizes)


def block_seconds(works: list[costs.Work], on: Machine) -> float:
    layers_s = on.sizes.layers * on.stack.layer_s + on.stack.step_s
    return sum(costs.seconds_of(work, on) for work in works) + layers_s


ALL = ("x", "y")
SCORED_MIXTRAL = Transformer(32, 4096, 14336, 32, 8, 128, mixture=Mixture(8, 2, 14336))
DENSE_DEEPSEEK = replace(DEEPSEEK, mixture=None, d_ff=18432, weight_bytes=2, scale_bytes=0, lanes=1)
SCORED_DEEPSEEK = Transformer(61, 7168, 18432, 128, 128, 192, latent=DEEPSEEK.latent)


@on_every_stack
@pytest.mark.parametrize("rows", [(), ALL], ids=["rows whole", "rows sent"])
def test_a_mixture_costs_what_scored_steps_cost(stack: Stack, rows: tuple[str, ...]) -> None:
    """An all-reduce is launched once here, and its two halves are there."""
    on = machine(stack, MIXTRAL)
    if rows:
        rules, layout = GenerateRules(rows=ALL, experts=ALL), Layout(experts=on.slice.axes)
    else:
        rules = GenerateRules(q_heads=ALL, kv_heads=ALL, experts=ALL)
        layout = Layout(hidden=on.slice.axes, whole_experts=8)
    works = [
        costs.generate_attention_work(rules, BATCH, 1024, on),
        costs.generate_experts_work(rules, BATCH, on),
    ]
    scored = step(SCORED_MIXTRAL, generate(BATCH, 1024), layout, Numerics(), on.chip, stack)
    assert block_seconds(works, on) == pytest.approx(scored.total_s, rel=0.05)


@on_every_stack
def test_latent_attention_costs_what_scored_steps_cost(stack: Stack) -> None:
    on = machine(stack, DENSE_DEEPSEEK)
    rules = GenerateRules(q_heads=ALL, d_ff=ALL)
    works = [costs.generate_attention_work(rules, BATCH, 4096, on), costs.generate_mlp_work(rules, BATCH, on)]
    scored = step(SCORED_DEEPSEEK, generate(BATCH, 4096), Layout(hidden=on.slice.axes), Numerics(), on.chip, stack)
    launches_s = 2 * 61 * stack.collective_launch_s  # an all-reduce is launched once, its two halves twice
    assert block_seconds(works, on) == pytest.approx(scored.total_s - launches_s, rel=0.02)


@on_every_stack
def test_latent_prefill_costs_what_scored_prefills_cost(stack: Stack) -> None:
    skipping = replace(stack, masked_pairs="skipped")
    on, rules = machine(skipping, DENSE_DEEPSEEK), PrefillRules(q_heads=ALL, d_ff=ALL)
    stored = GenerateRules(q_heads=ALL, d_ff=ALL)
    works = [
        costs.prefill_attention_work(stored, rules, 2048, on),
        costs.prefill_mlp_work(stored, rules, 2048, on),
    ]
    scored = step(SCORED_DEEPSEEK, prefill(1, 2048), Layout(hidden=on.slice.axes), Numerics(), on.chip, skipping)
    assert block_seconds(works, on) == pytest.approx(scored.total_s, rel=0.02)


@on_every_stack
def test_windows_cost_what_scored_steps_cost(stack: Stack) -> None:
    """Scored steps hide collectives behind layers of their own kind, plans behind all of them."""
    kinds = (AttentionKind(16), AttentionKind(16, 512))
    sizes = replace(MIXTRAL, mixture=None, limited=kinds[1], lanes=1)
    on = machine(stack, sizes)
    rules = GenerateRules(q_heads=ALL, kv_heads=ALL, d_ff=ALL)
    works = [costs.generate_attention_work(rules, BATCH, 4096, on), costs.generate_mlp_work(rules, BATCH, on)]
    model = Transformer(32, 4096, 14336, 32, 8, 128, attention=kinds)
    scored = step(model, generate(BATCH, 4096), Layout(hidden=on.slice.axes), Numerics(), on.chip, stack)
    launches_s = 2 * 32 * stack.collective_launch_s
    assert block_seconds(works, on) == pytest.approx(scored.total_s - launches_s, rel=0.03)
