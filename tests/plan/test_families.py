"""Every bundled model on a slice of every chip: a plan that cuts whole things only, or the HBM that is missing."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path

import pytest

from cost_models.chips import chip
from cost_models.moe import Mixture
from planner.errors import InfeasibleSpec, Unsupported
from planner.plan.build import plan_alone
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.infeasible import conflict_text
from planner.plan.make import make_plan, solve_spec
from planner.plan.moves import Boxes, Places, received_bytes
from planner.plan.schema import Plan
from planner.problem.legal import LANES
from planner.problem.no_layout import why_no_layout
from planner.problem.rules import GenerateRules
from planner.problem.sizes import sizes_of
from planner.render.model import RenderError
from planner.render.package import render_package
from planner.solve.infeasible import explain_infeasible
from planner.spec import Spec, SpecErrors, bundled_models, is_packaged, load_spec
from planner.spec.sizes import parameter_count

SPEC = Path(__file__).resolve().parents[1] / "specs" / "llama_3_1_70b_v5e_4x4.yaml"
SMALL = (
    "serving.strategies=all",
    "model.weights.dtype=bf16",
    "workload.concurrency=4",
    "workload.prompt_tokens.mean=256",
    "workload.prompt_tokens.p95=512",
    "workload.output_tokens.mean=64",
    "workload.output_tokens.p95=128",
    "workload.max_context=1024",
)
SLICES = {
    "v5e": ("2x2", "4x4", "8x8", "16x16"),
    "v6e": ("2x2", "4x4", "8x8", "16x16"),
    "v5p": ("2x2x2", "4x4x4", "4x4x8"),
    "v4": ("2x2x2", "4x4x4", "4x4x8"),
    "h100": ("8",),
    "h200": ("8",),
    "b200": ("8",),
}
ROOM = 0.7
"""Part of all HBM that weights may take of a slice that is chosen here."""
TOO_LARGE = {
    "h100": {"deepseek-r1", "deepseek-v3", "llama-3.1-405b", "palm-540b"},
    "h200": {"deepseek-r1", "deepseek-v3", "palm-540b"},
}


def spec_on(name: str, chip_name: str, *overrides: str) -> Spec:
    """A model on the first slice of a chip with room for it, else on the largest."""
    weights = 2 * parameter_count(load_spec(SPEC, [f"model.config={name}"]).model)
    each = chip(chip_name).hbm_bytes * ROOM
    roomy = (text for text in SLICES[chip_name] if prod(map(int, text.split("x"))) * each > weights)
    shape = next(roomy, SLICES[chip_name][-1])
    hardware = (f"hardware.chip={chip_name}", f"hardware.slice={shape}")
    return load_spec(SPEC, [f"model.config={name}", *SMALL, *hardware, *overrides])


@pytest.mark.parametrize("chip_name", SLICES)
@pytest.mark.parametrize("name", bundled_models())
def test_a_model_plans_on_a_slice_that_holds_it_or_hbm_is_missing(name: str, chip_name: str) -> None:
    spec = spec_on(name, chip_name)
    solved = solve_spec(spec)
    if name in TOO_LARGE.get(chip_name, ()):
        assert solved.optimum is None
        infeasible = explain_infeasible(solved.built.problem)
        assert [need.limit for need in infeasible.conflict] == ["hbm"]
        assert any("missing per chip" in line for line in conflict_text(spec, infeasible))
        return
    assert solved.optimum is not None
    plan = plan_alone(spec, solved.built, solved.optimum)
    assert plan_from_yaml(plan_to_yaml(plan), name).generate.rules == plan.generate.rules
    check_whole(plan)


def check_whole(plan: Plan) -> None:
    """A chip holds whole KV heads, query heads, experts and lanes of columns."""
    chosen = chosen_of(plan)
    sizes, ways, rules = chosen.machine.sizes, chosen.machine.ways, chosen.rules.generate
    heads = sizes.heads(rules, ways)
    assert heads.kv_local * ways(rules.kv_heads) == heads.kv_padded < 2 * sizes.kv_heads
    assert heads.q_local * ways(rules.q_heads) == heads.q_padded >= sizes.q_heads
    assert sizes.latent is None or rules.kv_heads == ()
    assert chosen.batch % ways(rules.rows + rules.batch) == 0
    lanes = LANES if chosen.machine.chip.kind == "tpu" else 1
    for cut in (rules.d_model, rules.experts, rules.expert_ff, rules.d_ff):
        assert len(set(cut)) == len(cut)
    assert ways(rules.d_model) == 1 or sizes.d_model % (ways(rules.d_model) * lanes) == 0
    assert ways(rules.d_ff) == 1 or all(each.d_ff >= ways(rules.d_ff) * lanes for each in sizes.mlps)
    if sizes.mixture is None:
        assert rules.experts == rules.expert_ff == ()
        return
    assert sizes.mixture.experts % ways(rules.experts) == 0
    assert ways(rules.expert_ff) == 1 or sizes.mixture.d_ff >= ways(rules.expert_ff) * lanes
    assert not set(rules.experts) & set(rules.expert_ff + rules.d_model)


def test_a_model_too_large_is_told_with_what_would_fit() -> None:
    with pytest.raises(InfeasibleSpec, match=r"HBM: .* missing per chip"):
        make_plan(spec_on("llama-3.1-405b", "h100"))


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "gemma-2-9b"])
def test_what_no_package_exists_for_is_planned_and_refused_by_name_when_rendered(name: str) -> None:
    spec = spec_on(name, "v5e")
    assert not is_packaged(spec.model)
    with pytest.raises(RenderError, match="no package is rendered yet for model family"):
        render_package(make_plan(spec))
    with pytest.raises(Unsupported, match=r"set serving\.strategies to all"):
        make_plan(spec_on(name, "v5e", "serving.strategies=rendered"))


@pytest.mark.parametrize(
    ("pins", "label"),
    [
        (
            ("generate.experts=x", "generate.expert_ff=y", "generate.rows=none"),
            "expert_parallel: experts on x, expert_ff on y",
        ),
        (("generate.experts=none", "generate.expert_ff=[x, y]", "generate.rows=none"), "1d: expert_ff on (x,y)"),
    ],
)
def test_experts_can_be_pinned(pins: tuple[str, ...], label: str) -> None:
    plan = make_plan(spec_on("mixtral-8x7b", "v5p", "hardware.slice=2x2x1", *(f"pins.{pin}" for pin in pins)))
    assert plan.generate.strategy.experts == label
    assert plan.generate.strategy.mlp is None


@pytest.mark.parametrize(
    ("name", "pin", "reason"),
    [
        ("mixtral-8x7b", "generate.experts=[x, y]", "8 experts do not divide into 16 parts of whole experts"),
        (
            "deepseek-v3",
            "generate.kv_heads=x",
            "latent attention keeps one latent for all heads: nothing to cut over x",
        ),
    ],
)
def test_what_would_cut_an_expert_or_a_latent_is_illegal_by_name(name: str, pin: str, reason: str) -> None:
    told = why_no_layout(spec_on(name, "v5e", "hardware.slice=4x4", f"pins.{pin}"))
    assert [reason in sentence for sentence in told] == [True]


@pytest.mark.parametrize(
    ("name", "pin", "message"),
    [
        ("llama-3.1-8b", "generate.experts=x", "generate.experts cannot be pinned: the model has no experts"),
        ("mixtral-8x7b", "generate.d_ff=x", "generate.d_ff cannot be pinned: the model has no dense MLP"),
        ("mixtral-8x7b", "generate.mlp=2d", "generate.mlp cannot be pinned: the model has no dense MLP"),
    ],
)
def test_a_pin_of_layers_that_the_model_lacks_is_a_mistake(name: str, pin: str, message: str) -> None:
    with pytest.raises(SpecErrors, match=re.escape(message)):
        load_spec(SPEC, [f"model.config={name}", f"pins.{pin}"])


MOVES = (
    # old, new, parts of the experts' weights that the busiest chip lacks, router apart
    (GenerateRules(experts=("x",)), GenerateRules(experts=("x",)), 0),
    (GenerateRules(experts=("x",)), GenerateRules(expert_ff=("x",)), Fraction(1, 4) - Fraction(1, 16)),
    (GenerateRules(), GenerateRules(experts=("x",), expert_ff=("y",)), 0),
    (GenerateRules(experts=("x",)), GenerateRules(experts=("y",)), Fraction(1, 4)),
    (GenerateRules(experts=("x", "y")), GenerateRules(experts=("x",)), Fraction(1, 4) - Fraction(1, 16)),
)


@pytest.mark.parametrize(("old", "new", "part"), MOVES)
def test_experts_that_a_chip_lacks_move(old: GenerateRules, new: GenerateRules, part: Fraction) -> None:
    sizes = sizes_of(load_spec(SPEC, ["model.config=mixtral-8x7b", "model.weights.dtype=bf16"]))
    sizes = replace(sizes, mixture=Mixture(16, 2, 512))
    places = Places({"x": 4, "y": 4}, tuple(product(range(4), range(4))))
    whole = 3 * 16 * 512 * sizes.d_model * sizes.layers * 2
    moved = received_bytes("experts", Boxes(new, sizes, places), Boxes(old, sizes, places))
    assert moved == whole * part
