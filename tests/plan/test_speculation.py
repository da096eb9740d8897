"""Plans whose steps verify drafts: chosen where the step has room for more rows and drafts are accepted, and told."""

import pytest

from cost_models.speculation import break_even_acceptance
from planner.diff import compare
from planner.explain.causes import phase_weights
from planner.explain.explain import explain
from planner.explain.why_not import why_not
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.plan.show import drafts_text
from planner.problem.costs import total_s
from planner.render.model import RenderError
from planner.render.refuse import refuse_unrendered
from planner.simulate import simulate
from planner.spec import Spec, SpecErrors, load_spec
from tests.plans_of import SPECS, example_plan

NAME = "llama_3_1_70b_v5e_4x4"
ON, OFF = "pins.generate.speculation=on", "pins.generate.speculation=off"


def speculative(acceptance: float) -> str:
    return f"serving.speculation={{drafted_tokens: 4, acceptance: {acceptance:g}, draft_step: 0.5 ms}}"


def plan_of(batch: int, acceptance: float | None, *overrides: str) -> Plan:
    told = [] if acceptance is None else [speculative(acceptance)]
    workload = (
        "workload={prompt_tokens: {mean: 512, p95: 512}, output_tokens: {mean: 256, p95: 256}, "
        f"concurrency: {batch}, max_context: 1024}}"
    )
    pins = f"pins.generate.batch={batch}"
    return example_plan(NAME, "serving.strategies=all", workload, pins, *told, *overrides)


def test_drafts_are_verified_on_a_small_batch_and_not_on_a_large_one() -> None:
    """A small batch reads the weights for few rows, so that more rows are nearly free; a large one computes anyway."""
    assert plan_of(2, 0.7).generate.speculation is not None
    assert plan_of(256, 0.7).generate.speculation is None


def test_drafts_that_are_seldom_accepted_are_not_made() -> None:
    for batch in (1, 2, 16):
        plan = plan_of(batch, 0.05)
        assert plan.generate.speculation is None
        without = plan_of(batch, None)
        assert plan.model_copy(update={"spec": without.spec, "proof": without.proof}) == without


@pytest.mark.parametrize("batch", [4, 16])
def test_the_choice_agrees_with_the_acceptance_that_breaks_even(batch: int) -> None:
    """Of steps alone: prompts are so short that nothing else is weighed."""
    short = "workload.prompt_tokens={mean: 16, p95: 16}", "workload.output_tokens={mean: 900, p95: 900}"
    plain, drafted = plan_of(batch, 0.7, OFF, *short), plan_of(batch, 0.7, ON, *short)
    told = drafted.generate.speculation
    assert told is not None
    verify_s = drafted.generate.step_s - told.draft_s
    even = break_even_acceptance(verify_s, told.draft_s / told.drafted_tokens, plain.generate.step_s, 4)
    assert 0.05 < even < 0.95
    assert plan_of(batch, even - 0.02, *short).generate.speculation is None
    assert plan_of(batch, even + 0.02, *short).generate.speculation is not None


def test_the_service_of_a_plan_is_what_its_goal_weighs() -> None:
    for chunk in ("off", "256"):
        plan = plan_of(4, 0.7, f"serving.chunked_prefill={chunk}")
        assert plan.generate.speculation is not None
        weights = phase_weights(plan)
        cost = weights["prefill"] * plan.prefill.step_s + weights["generate"] * plan.generate.step_s
        assert cost == pytest.approx(plan.service.chip_seconds_per_million_tokens * 256 / 1e6, rel=1e-4)
        assert cost * 1e9 == pytest.approx(plan.proof.value, rel=1e-4)


def test_a_plan_with_drafts_is_priced_again_as_it_was() -> None:
    plan = plan_of(4, 0.7)
    chosen = chosen_of(plan)
    assert chosen.drafts is not None
    assert total_s(chosen.generate_parts(), chosen.machine) == pytest.approx(plan.generate.step_s, rel=1e-5)
    (draft,) = (part for part in plan.generate.parts if part.address == "generate.draft")
    assert draft.total_s == pytest.approx(0.002)
    assert "speculation" not in plan_to_yaml(plan_of(4, None))


def test_logits_are_kept_for_every_verified_row() -> None:
    plain, drafted = plan_of(4, 0.7, OFF), plan_of(4, 0.7, ON)
    vocab_ways = [plan.generate.rules.vocab for plan in (plain, drafted)]
    assert vocab_ways[0] == vocab_ways[1]
    assert drafted.hbm.logits == 5 * plain.hbm.logits


@pytest.mark.parametrize("batch", [1, 8])
def test_a_replay_accepts_as_many_drafts_as_expected(batch: int) -> None:
    """Each answer waits for the prefills of all others but not for its own, which the plan's mean counts too."""
    plan = plan_of(batch, 0.8, "pins.prefill.prompts=1")
    assert plan.generate.speculation is not None
    found = simulate(plan, 300, 0)
    assert found.tokens_per_s == pytest.approx(plan.service.tokens_per_s, rel=0.03)
    assert found.tpot_s.mean + plan.prefill.step_s / 256 == pytest.approx(plan.service.tpot_s, rel=0.02)
    assert found == simulate(plan, 300, 0)
    assert found != simulate(plan, 300, 1)


def test_a_plan_says_what_it_verifies() -> None:
    plan = plan_of(4, 0.7)
    assert drafts_text(plan.generate) == ", 4 drafts each, 2.77 tokens a step"
    assert drafts_text(plan_of(4, None).generate) == ""
    service = "\n".join(explain(plan, "service")[0].sentences)
    assert ") / 2.77 tokens a step: prefills stop generation" in service
    found = [each for address in ("generate", "generate.draft", "hbm") for each in explain(plan, address)]
    told = "\n".join(sentence for each in found for sentence in each.sentences)
    assert "4 drafts verified for each of 4 sequences, which adds 2.77 tokens" in told
    assert "the drafts of every sequence, made before the step verifies them: 2" in told
    assert "float32 logits of 4 sequences, 5 rows each" in told


def test_a_difference_and_a_question_tell_the_drafts() -> None:
    plan = plan_of(4, 0.7)
    found = {each.address: each for each in compare(plan_of(4, None), plan).changes}
    assert found["generate.speculation.drafted_tokens"].head == 4
    has, costs = why_not(plan, ("generate.speculation=on", "generate.speculation=off"))
    assert has.verdict == "has"
    assert costs.verdict == "costs"
    assert costs.ratio is not None
    assert costs.ratio > 1
    assert sum(each.effect for each in costs.parts) == pytest.approx(costs.ratio - 1, abs=1e-3)


def test_drafts_cannot_be_pinned_without_a_draft_model() -> None:
    with pytest.raises(SpecErrors, match="does not say what drafts cost"):
        spec_with("serving.strategies=all", ON)


def spec_with(*overrides: str) -> Spec:
    return load_spec(SPECS / f"{NAME}.yaml", overrides)


def test_no_package_is_rendered_for_drafts_yet() -> None:
    with pytest.raises(RenderError, match="4 drafts verified by a step"):
        refuse_unrendered(plan_of(4, 0.7))
    refuse_unrendered(plan_of(4, 0.7, "serving.strategies=rendered"))
