"""What the limits of a fleet are worth."""

from planner.explain.worth import explain_worth
from tests.plan.test_fleets import LLAMA_70B, RATE
from tests.plans_of import example_plan


def told(*overrides: str) -> tuple[str, ...]:
    found = explain_worth(example_plan(LLAMA_70B, *RATE, *overrides))
    return found[0].sentences if found else ()


def test_a_limit_that_takes_chips_says_how_many():
    tight, loose = (example_plan(LLAMA_70B, *RATE, *limits).chips for limits in (["limits.tpot=20 ms"], []))
    (sentence,) = told("limits.tpot=20 ms")
    assert sentence.startswith("limit on TPOT of 20 ms: binding; without it ")
    assert f"{loose} chips do, {tight - loose} fewer" in sentence


def test_a_limit_that_is_kept_anyway_does_not_bind():
    (sentence,) = told("limits.ttft=90 s")
    assert "not binding" in sentence


def test_without_limits_there_is_nothing_to_tell():
    assert told() == ()
