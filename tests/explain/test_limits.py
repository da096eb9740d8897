"""What limits are worth, on real plans: moving a limit does what is said of it."""

import pytest

from planner.explain import explain, shadows_of
from planner.explain.limits import shadow_numbers, shadow_sentences
from planner.plan.schema import Plan
from tests.plans_of import example_plan

L70B = "llama_3_1_70b_v5e_4x4"
ALL = ("hbm", "ttft", "tpot")


def value(plan: Plan) -> float:
    return plan.service.chip_seconds_per_million_tokens


def tight() -> tuple[str, float]:
    """A TPOT limit half a millisecond below what the free optimum needs."""
    return f"limits.tpot={(example_plan(L70B).service.tpot_s - 0.0005) * 1000:.3f} ms", 0.001


def test_a_binding_limit_saves_what_a_plan_with_more_of_it_saves() -> None:
    limit, step_s = tight()
    plan, free = example_plan(L70B, limit), example_plan(L70B)
    shadows = shadows_of(plan)
    numbers = shadow_numbers(shadows, ALL)
    assert numbers["tpot_1_ms_more_saves"] == pytest.approx(1 - value(free) / value(plan), abs=1e-5)
    assert numbers["tpot_unlimited_needs"] == pytest.approx(free.service.tpot_s, rel=1e-5)
    assert numbers["tpot_limit"] + step_s >= numbers["tpot_first_better_needs"]
    assert any("TPOT limit" in each and "binding: 1 ms more saves" in each for each in shadow_sentences(shadows, ALL))


def test_more_that_changes_nothing_names_where_the_first_change_lies() -> None:
    free = example_plan(L70B)
    plan = example_plan(L70B, f"limits.tpot={(free.service.tpot_s - 0.002) * 1000:.3f} ms")
    shadow = shadows_of(plan)["tpot"]
    if shadow.step_saves == 0:
        (told,) = shadow_sentences({"tpot": shadow}, ("tpot",))
        assert "binding, but 1 ms more changes nothing: the first better plan needs" in told
    better = example_plan(L70B, f"limits.tpot={shadow.first.need + 1000} us".replace(" us", "e-9 s"))
    assert value(better) == pytest.approx(value(plan) * (1 - shadow.first.saves), rel=1e-4)


def test_a_limit_that_does_not_bind_could_fall_to_what_the_plan_uses() -> None:
    plan = example_plan(L70B, "pins.prefill.copies=none")
    shadow = shadows_of(plan)["hbm"]
    assert set(shadows_of(plan)) == {"hbm"}
    assert not shadow.binds
    assert shadow.used * 65536 == pytest.approx(plan.hbm.total, rel=1e-4)
    told = {each.address: each for each in explain(plan, None, {"hbm": shadow})}
    assert "not binding: it could fall to" in told["hbm"].sentences[-1]
    assert told["hbm"].numbers["hbm_could_fall_to"] == shadow.used * 65536


def test_times_are_told_under_service() -> None:
    plan = example_plan(L70B, "limits.ttft=10 s", "limits.tpot=1 s")
    (service,) = explain(plan, "service", shadows_of(plan))
    assert sum("not binding" in sentence for sentence in service.sentences) == 2
    assert service.numbers["ttft_could_fall_to"] == pytest.approx(plan.service.ttft_s, rel=1e-5)
    assert service.numbers["tpot_could_fall_to"] == pytest.approx(plan.service.tpot_s, rel=1e-5)


def test_a_plan_of_other_prices_is_not_solved_again() -> None:
    plan = example_plan(L70B)
    proof = plan.proof.model_copy(update={"value": plan.proof.value + 1, "bound": plan.proof.bound + 1})
    assert shadows_of(plan.model_copy(update={"proof": proof})) is None
