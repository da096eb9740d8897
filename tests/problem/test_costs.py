"""Plans are priced by the formulas that the published measurements score: one path, whatever the stack."""

from dataclasses import replace
from functools import partial

import pytest

from cost_models.chips import chip
from cost_models.placement import Layout
from cost_models.stacks import BOOK, Stack, default_stack, step_stacks
from cost_models.step import step
from cost_models.torus import parse_slice, split_axis
from cost_models.transformer import Numerics, Transformer, generate, prefill
from planner.problem import costs
from planner.problem.costs import parts_of
from planner.problem.machine import Machine
from planner.problem.rules import GenerateRules, PrefillRules
from planner.problem.sizes import Sizes

L8B = Sizes(32, 4096, 14336, 32, 8, 128, 128256, False, 1, 0, 2, 2, "bf16", lanes=128)
SCORED = Transformer(32, 4096, 14336, 32, 8, 128)
NUMERICS = Numerics("int8")
ALL = ("x", "y")
MEGATRON = GenerateRules(q_heads=ALL, kv_heads=ALL, d_ff=ALL)
TWO_D = GenerateRules(d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",))
CONTEXT = 1024
BATCH = 64

on_every_stack = pytest.mark.parametrize("stack", step_stacks(), ids=lambda each: each.name)


def machine(stack: Stack, chip_name: str = "v5e", slice_text: str = "2x4") -> Machine:
    slice_ = parse_slice(chip(chip_name), slice_text)
    mesh = tuple(piece for axis in slice_.axes for piece in split_axis(axis, (axis.size,)))
    return Machine(chip(chip_name), stack, slice_, mesh, L8B)


def layers_s(parts: costs.Parts, on: Machine) -> float:
    return costs.total_s(parts, on) + L8B.layers * on.stack.layer_s + on.stack.step_s


@on_every_stack
def test_a_1d_generate_step_costs_what_scored_steps_cost(stack: Stack) -> None:
    on = machine(stack)
    parts = {
        **parts_of(costs.generate_attention_work(MEGATRON, BATCH, CONTEXT, on), on),
        **parts_of(costs.generate_mlp_work(MEGATRON, BATCH, on), on),
    }
    scored = step(SCORED, generate(BATCH, CONTEXT), Layout(hidden=on.slice.axes), NUMERICS, on.chip, stack)
    launches_s = 2 * L8B.layers * stack.collective_launch_s  # an all-reduce is launched once, its two halves twice
    assert layers_s(parts, on) == pytest.approx(scored.total_s - launches_s, rel=0.01)


@on_every_stack
def test_a_2d_generate_step_costs_what_scored_steps_cost_and_what_rendered_ones_add(stack: Stack) -> None:
    """Rendered steps also sum the norms of a cut d_model over its axis, and leave keys and values on all of it."""
    on = machine(stack)
    parts = {
        **parts_of(costs.generate_attention_work(TWO_D, BATCH, CONTEXT, on), on),
        **parts_of(costs.generate_mlp_work(TWO_D, BATCH, on), on),
    }
    x, y = on.slice.axes
    layout = Layout(feature=(x,), hidden=(y,))
    scored = step(SCORED, generate(BATCH, CONTEXT), layout, NUMERICS, on.chip, stack)
    assert scored.total_s * 0.95 < layers_s(parts, on) < scored.total_s * 1.5


@on_every_stack
def test_a_1d_prefill_costs_what_scored_prefills_cost(stack: Stack) -> None:
    on, tokens = machine(stack), 2048
    rules = PrefillRules(q_heads=ALL, kv_heads=ALL, d_ff=ALL)
    parts = {
        **parts_of(costs.prefill_attention_work(MEGATRON, rules, tokens, on), on),
        **parts_of(costs.prefill_mlp_work(MEGATRON, rules, tokens, on), on),
    }
    skipping = replace(stack, masked_pairs="skipped")
    scored = step(SCORED, prefill(1, tokens), Layout(hidden=on.slice.axes), NUMERICS, on.chip, skipping)
    visited_s = 0.0 if stack.masked_pairs == "skipped" else parts["prefill.attention.kv_cache"].compute_s / 2
    launches_s = 2 * L8B.layers * stack.collective_launch_s
    assert layers_s(parts, on) == pytest.approx(scored.total_s + visited_s - launches_s, rel=0.01)


@on_every_stack
def test_what_local_work_hides_is_never_more_than_the_collectives(stack: Stack) -> None:
    hiding = replace(stack, hidden_fraction=1e6)
    on = machine(hiding)
    parts = parts_of(costs.generate_mlp_work(MEGATRON, BATCH, on), on)
    assert [cost.ici_s for cost in parts.values()] == [0.0] * len(parts)


@pytest.mark.parametrize("chip_name", ["v5e", "v6e", "h100", "cpu"])
def test_measured_constants_never_make_a_step_faster_than_the_book(chip_name: str) -> None:
    slice_text = {"h100": "8", "cpu": "2x4"}.get(chip_name, "2x4")
    price = partial(costs.generate_mlp_work, GenerateRules(), BATCH)
    book, measured = (machine(each, chip_name, slice_text) for each in (BOOK, default_stack(chip_name)))
    assert costs.seconds_of(price(book), book) <= costs.seconds_of(price(measured), measured)
