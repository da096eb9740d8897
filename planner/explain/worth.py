"""What the limits of a fleet are worth: the fleet without each of them, and with a tenth more of it, each solved."""

from planner.explain.explanation import Explanation
from planner.plan.machine import spec_of
from planner.plan.make import solve_spec
from planner.plan.optimum import Optimum, fleet_chips, fleet_value
from planner.plan.schema import Plan
from planner.plan.units import percent_text, seconds_text
from planner.problem.build import Built
from planner.spec import Spec

NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "ttft_p95_s": "TTFT of 95 %", "tpot_p95_s": "TPOT of 95 %"}
MORE = 1.1
TOLD_OF_FLEETS = (None, "fleet", "fleet.limits")
"""The addresses whose explanation says what the limits of a fleet are worth."""


def explain_worth(plan: Plan) -> list[Explanation]:
    """What each limit of a plan's spec costs; nothing where there is none, or prices are no longer the plan's."""
    spec = spec_of(plan)
    limits = {name: value for name, value in spec.limits if value is not None}
    own = solve_spec(spec) if limits else None
    if own is None or own.optimum is None or fleet_chips(own.optimum) != plan.chips:
        return []
    found = [limit_sentence(spec, name, value, own.built, own.optimum) for name, value in limits.items()]
    return [Explanation("fleet.limits", tuple(found))]


def limit_sentence(spec: Spec, name: str, value: float, built: Built, own: Optimum) -> str:
    """What one limit costs."""
    limit = f"limit on {NAMES[name]} of {seconds_text(value)}"
    free = fleet_with(spec, name, None)
    if fleet_value(free, built) >= fleet_value(own, built):
        return f"{limit}: not binding, without it the fleet is the same or as good"
    told = f"{limit}: binding; without it {text_of(free, own, built)}"
    more = fleet_with(spec, name, value * MORE)
    if fleet_value(more, built) >= fleet_value(own, built):
        return f"{told}; {seconds_text(value * MORE)} changes nothing"
    return f"{told}; with {seconds_text(value * MORE)} {text_of(more, own, built)}"


def fleet_with(spec: Spec, name: str, value: float | None) -> Optimum:
    """The best fleet with another value of a limit, or without it."""
    limits = spec.limits.model_copy(update={name: value})
    found = solve_spec(spec.model_copy(update={"limits": limits})).optimum
    assert found is not None, "a looser limit leaves the optimum"
    return found


def text_of(other: Optimum, own: Optimum, built: Built) -> str:
    """What a fleet saves: chips, or what the objective measures."""
    chips, fewer = fleet_chips(other), fleet_chips(own) - fleet_chips(other)
    if built.problem.arrivals is not None and fewer:
        return f"{chips} chips do, {fewer} fewer"
    saved = 1 - fleet_value(other, built)[1] / fleet_value(own, built)[1]
    what = "a request is" if built.problem.arrivals is not None else f"{built.problem.goal} is"
    return f"{what} {percent_text(saved)} {'shorter' if built.problem.arrivals is not None else 'better'}"
