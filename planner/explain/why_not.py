"""Why a plan is not otherwise: the best plan with one choice pinned, and what it costs, or why there is none."""

from dataclasses import dataclass
from typing import Literal

from planner.diff import Change, PlanDiff, compare
from planner.errors import PlanFileError
from planner.explain.causes import Cause, collective_causes, objective_ratio, part_causes
from planner.explain.pinning import Pin, has, pinned
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.infeasible import conflicting_pins, need_texts, reasons_of
from planner.plan.machine import spec_of
from planner.plan.make import Solved, plan_of, solve_spec
from planner.plan.schema import Plan
from planner.plan.units import seconds_text
from planner.problem.costs import total_s
from planner.problem.no_layout import why_no_layout
from planner.solve.infeasible import Need
from planner.spec import Spec

Verdict = Literal["has", "costs", "breaks", "illegal"]
"""The answer: the plan already has it; what the best plan with it costs; the limits it breaks; no layout is legal."""

SAME_PRICES = 1e-4


@dataclass(frozen=True)
class Answer:
    """The answer to one question, of one pin or several. Only `costs` has a ratio of objectives, a difference and its
    causes."""

    pins: tuple[Pin, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()
    ratio: float | None = None
    difference: PlanDiff | None = None
    parts: tuple[Cause, ...] = ()
    collectives: tuple[Cause, ...] = ()
    needs: tuple[Need, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """The question as it is asked."""
        return " & ".join(pin.text for pin in self.pins)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What else changes, shortly: slice, mesh, batch, bucket, and the strategy of each block."""
        found = () if self.difference is None else self.difference.of("choice", "note")
        return tuple(each for each in found if each.address in CHOICES or ".strategy." in each.address)


CHOICES = ("slice", "mesh", "generate.batch", "prefill.tokens", "prefill.chunk", "generate.speculation.drafted_tokens")


def why_not(plan: Plan, questions: tuple[str, ...]) -> list[Answer]:
    """The answer to each question on its own: `ADDRESS=VALUE`, or several joined by ` & `.

    Raises WrongPin for what cannot be asked, and PlanFileError for a plan whose prices are not today's.
    """
    spec = spec_of(plan)
    asked = [Pin.read_all(text, spec) for text in questions]
    refuse_other_prices(plan)
    return [answer(plan, spec, pins) for pins in asked]


def refuse_other_prices(plan: Plan) -> None:
    """A plan and the plan with a pin can only be compared when both are priced by the same catalogue."""
    chosen = chosen_of(plan)
    now = total_s(chosen.generate_parts(), chosen.machine)
    if abs(now - plan.generate.step_s) > SAME_PRICES * now:
        raise PlanFileError(
            f"the plan's generate step of {seconds_text(plan.generate.step_s)} is {seconds_text(now)} by today's "
            "catalogue; plan the spec again"
        )


def answer(plan: Plan, spec: Spec, pins: tuple[Pin, ...]) -> Answer:
    """The answer to one question."""
    if all(has(plan, pin) for pin in pins):
        return Answer(pins, "has")
    wanted, notes = pinned(spec, pins)
    solved = solve_spec(wanted)
    if solved.optimum is None:
        return no_plan(solved, pins, tuple(notes))
    other = plan_of(solved)
    other = plan_from_yaml(plan_to_yaml(other), "the plan with it")
    return Answer(
        pins,
        "costs",
        tuple(notes),
        objective_ratio(plan, other),
        compare(plan, other),
        tuple(part_causes(plan, other)),
        tuple(collective_causes(plan, other)),
    )


def no_plan(solved: Solved, pins: tuple[Pin, ...], notes: tuple[str, ...]) -> Answer:
    """Why there is no plan with some pins: the limits in conflict, or the rules that every layout breaks."""
    infeasible = reasons_of(solved.built)
    if infeasible.conflict:
        reasons = need_texts(solved.spec, infeasible)
        return Answer(pins, "breaks", notes, needs=infeasible.conflict, reasons=tuple(reasons))
    kept = conflicting_pins(solved.spec)
    blamed = solved.spec.model_copy(update={"pins": {address: solved.spec.pins[address] for address in kept}})
    asked = {pin.address for pin in pins}
    others = [Pin(address, blamed.pins[address]).text for address in kept if address not in asked]
    beside = [f"together with {', '.join(others)}"] if others else []
    return Answer(pins, "illegal", notes, reasons=(*beside, *why_no_layout(blamed)))
