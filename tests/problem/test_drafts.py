"""A generate step with drafts is one of k + 1 rows a sequence that reads weights and cache once, after the drafts."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cost_models.attention import generate_attention
from cost_models.chips import chip
from cost_models.lengths import fitted
from cost_models.meshes import meshes
from cost_models.speculation import expected_tokens, verified_rows
from cost_models.stacks import step_stacks
from cost_models.torus import parse_slice
from planner.problem import costs, planned
from planner.problem.build import build
from planner.problem.costs import parts_of
from planner.problem.drafts import Drafts, rows_of, tokens_per_step
from planner.problem.machine import Machine
from planner.problem.pins import allowed_by
from planner.problem.problem import GoalName, Limits, Place, Problem, steps_of_request
from planner.problem.rules import GenerateRules
from planner.problem.sizes import Sizes
from planner.problem.tables import Load, Pricer
from planner.spec import load_spec
from tests.plans_of import SPECS
from tests.problem.test_family_floors import SLICES, models

FOUR = Drafts(4, 0.7, 0.0005)
SPECULATION = "serving.speculation={drafted_tokens: 4, acceptance: 0.7, draft_step: 0.5 ms}"
L8B = Sizes(32, 4096, 14336, 32, 8, 128, 128256, False, 1, 0, 2, 2, "bf16", lanes=128)


def test_the_tokens_of_a_step_are_those_expected() -> None:
    assert tokens_per_step(None) == 1
    assert tokens_per_step(Drafts(4, 0.0, 1.0)) == 1
    assert tokens_per_step(Drafts(1, 0.5, 1.0)) == Fraction(3, 2)
    for acceptance in (0.1, 0.5, 0.7, 0.93):
        for tokens in (1, 4, 16):
            found = tokens_per_step(Drafts(tokens, acceptance, 1.0))
            assert float(found) == expected_tokens(acceptance, tokens)


def test_a_request_takes_quarters_of_steps() -> None:
    assert steps_of_request(300, Fraction(1)) == 300
    assert steps_of_request(300, Fraction(3)) == 100
    assert steps_of_request(1, Fraction(30)) == Fraction(1, 4)
    for output in (3, 256, 1000):
        steps = steps_of_request(output, tokens_per_step(FOUR))
        assert abs(float(steps) - output / 2.7731) <= 1 / 8
        assert steps.denominator in (1, 2, 4)


@pytest.mark.parametrize("goal", ["cost", "throughput", "latency", "ttft", "tpot"])
def test_weights_stay_small_enough_for_sums_in_64_bits(goal: GoalName) -> None:
    """A prefill of a minute, and steps of a tenth of a second, on the largest batches: below 2^61, above which options
    count as illegal."""
    problem = Problem((), (1024,), 4099, goal, Limits())
    for prompts in (1, 64, 1024):
        for batch in (prompts, 1023, 1024):
            if batch >= prompts:
                at = Place.of(1, prompts, batch, 33, tokens_per_step(Drafts(16, 0.93, 1.0)))
                weights = problem.goal_weights(goal, at)
                assert weights.prefill * 60 * 10**9 + weights.generate * 10**8 < 2**61


def test_rows_are_the_last_token_and_its_drafts() -> None:
    assert rows_of(None) == 1
    assert 32 * rows_of(FOUR) == verified_rows(32, 4)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_everything_but_attention_over_the_cache_is_a_step_of_more_rows(data: st.DataObject) -> None:
    name, shape = data.draw(st.sampled_from(SLICES))
    slice_ = parse_slice(chip(name), shape)
    family = data.draw(st.sampled_from(["dense", "windows", "mixture", "latent"]))
    stack = data.draw(st.sampled_from(step_stacks()))
    machine = Machine(chip(name), stack, slice_, data.draw(st.sampled_from(meshes(slice_))), data.draw(models(family)))
    load = Load((32,), (1,), 1024, (64, 2048), fitted(1024, 1024), 1500.0, 2048, 128)
    pricer = Pricer(machine, load, allowed_by({}, {}))
    for block in machine.sizes.blocks:
        roles = pricer.space(block, 64).roles
        assume(roles)
        rules = pricer.stored(block, data.draw(st.sampled_from(roles)))
        drafted = costs.generate_work(block, rules, 32, 1500.0, machine, FOUR)
        plain = costs.generate_work(block, rules, 32 * 5, 1500.0, machine)
        assert list(drafted.planned) == list(plain.planned)
        for part in plain.local.keys() - {"attention.kv_cache"}:
            assert drafted.local[part] == plain.local[part]
        assert drafted.local.keys() - plain.local.keys() == ({"draft"} if block == "vocab" else set())


def test_the_cache_of_a_sequence_is_read_once_for_all_its_queries() -> None:
    slice_ = parse_slice(chip("v5e"), "2x4")
    machine = Machine(chip("v5e"), step_stacks()[0], slice_, meshes(slice_)[0], L8B)
    axes = tuple(axis.name for axis in machine.mesh)
    rules = GenerateRules(q_heads=axes, kv_heads=axes, d_ff=axes)
    found = costs.generate_work("attention", rules, 32, 1000.0, machine, FOUR).local["attention.kv_cache"]
    expected = generate_attention(
        32, 1000.0, 4, 1, 128, query_tokens=5, activation_bytes_per_element=2, kv_bytes_per_element=2,
        compute_dtype="bf16", chip=machine.chip, stack=machine.stack,
    ) * 32  # fmt: skip
    assert (found.compute_s, found.hbm_s) == pytest.approx((expected.compute_s, expected.hbm_s))
    once = costs.generate_work("attention", rules, 32, 1000.0, machine).local["attention.kv_cache"]
    assert found.hbm_s < 1.1 * once.hbm_s


def test_drafts_are_charged_to_the_step_that_verifies_them() -> None:
    slice_ = parse_slice(chip("v5e"), "2x4")
    machine = Machine(chip("v5e"), step_stacks()[0], slice_, meshes(slice_)[0], L8B)
    parts = parts_of(costs.generate_work("vocab", GenerateRules(), 8, 1000.0, machine, FOUR), machine)
    assert machine.total_s(parts["generate.draft"]) == pytest.approx(0.002)
    assert planned.generate_step(GenerateRules(), 8 * 5, machine.program) == []


def test_a_request_takes_fewer_steps_where_each_adds_more_tokens() -> None:
    problem = Problem((), (8,), 300, "throughput", Limits(tpot=10**7))
    plain, drafted = Place(4, 1, 8), Place(4, 1, 8, tokens_per_step=Fraction(3))
    for at, steps in ((plain, 300), (drafted, 100)):
        weights = problem.goal_weights("throughput", at)
        assert (weights.prefill * weights.scale, weights.generate * weights.scale) == (1, Fraction(steps, 8))
        told = problem.goal_weights("tpot", at)
        assert (told.prefill * told.scale, told.generate * told.scale) == (8, steps)
        first = problem.goal_weights("ttft", at)
        assert (first.prefill * first.scale, first.generate * first.scale) == (1, 1)
        weights, most = problem.named_rows(at)["tpot"]
        assert most * weights.scale == 300 * 10**7


def offered(*overrides: str) -> tuple[Drafts | None, ...]:
    spec = load_spec(SPECS / "llama_3_1_70b_v5e_4x4.yaml", ["serving.strategies=all", *overrides])
    return build(spec).problem.meshes[0].source.load.drafts


def test_drafts_are_offered_where_there_is_a_draft_model() -> None:
    assert offered() == (None,)
    assert offered(SPECULATION) == (None, FOUR)
    assert offered(SPECULATION, "pins.generate.speculation=on") == (FOUR,)
    assert offered(SPECULATION, "pins.generate.speculation=off") == (None,)
    assert offered(SPECULATION, "serving.strategies=rendered") == (None,)
