"""The shadow of each limit: what one more GB or millisecond would save, or how far the limit could tighten."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING

from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.plan.units import in_base_unit, limit_text, percent_text
from planner.problem.build import batches_of, build
from planner.problem.problem import NS, UNIT_BYTES, LimitName

if TYPE_CHECKING:
    from planner.solve.shadow import Better, Shadow

Shadows = Mapping[LimitName, "Shadow"]

STEPS: Mapping[LimitName, int] = {"hbm": 1_000_000_000 // UNIT_BYTES, "ttft": NS // 1000, "tpot": NS // 1000}
STEP_TEXT: Mapping[LimitName, str] = {"hbm": "1 GB", "ttft": "1 ms", "tpot": "1 ms"}


def shadows_of(plan: Plan) -> Shadows | None:
    """The shadow of every limit of a plan's spec; None when the plan's prices are no longer today's."""
    from planner.solve.search import search
    from planner.solve.shadow import shadow_of

    if plan.fleet is not None:
        return {}
    spec = spec_of(plan)
    problem = build(spec, batches_of(spec, plan.proof.earlier_batch)).problem
    optimum = search(problem)
    if optimum is None or ceil(optimum.value) != plan.proof.bound:
        return None
    return {name: shadow_of(problem, optimum, name, STEPS[name]) for name in problem.limits.named()}


def shadow_sentences(shadows: Shadows, names: tuple[LimitName, ...]) -> Iterator[str]:
    """What is to be said about some of the limits, if they exist."""
    for name in names:
        if name in shadows:
            yield f"{name.upper()} limit of {limit_text(name, shadows[name].have)}: {shadow_text(shadows[name])}"


def shadow_text(shadow: "Shadow") -> str:
    """Whether a limit binds, and what moving it would change."""
    step = STEP_TEXT[shadow.limit]
    if shadow.first is None or shadow.free is None:
        return f"not binding: it could fall to {limit_text(shadow.limit, shadow.used)} before the best plan changes"
    free = f"without it the best plan {better_text(shadow, shadow.free)}"
    if shadow.step_saves > 0:
        return f"binding: {step} more saves {percent_text(shadow.step_saves)}; {free}"
    first = f"the first better plan {better_text(shadow, shadow.first)}"
    rest = ", and is the best without the limit" if shadow.first.need >= shadow.free.need else f"; {free}"
    return f"binding, but {step} more changes nothing: {first}{rest}"


def better_text(shadow: "Shadow", better: "Better") -> str:
    """What a better plan needs and saves."""
    return f"needs {limit_text(shadow.limit, better.need)} and saves {percent_text(better.saves)}"


def shadow_numbers(shadows: Shadows, names: tuple[LimitName, ...]) -> dict[str, float]:
    """The same as numbers: shares of the objective, bytes per chip, seconds."""
    found: dict[str, float] = {}
    for name in names:
        if name in shadows:
            shadow, unit = shadows[name], STEP_TEXT[name].replace(" ", "_").lower()
            found[f"{name}_limit"] = in_base_unit(name, shadow.have)
            found[f"{name}_could_fall_to"] = in_base_unit(name, shadow.used)
            found[f"{name}_{unit}_more_saves"] = shadow.step_saves
            for word, better in (("first_better", shadow.first), ("unlimited", shadow.free)):
                if better is not None:
                    found[f"{name}_{word}_needs"] = in_base_unit(name, better.need)
                    found[f"{name}_{word}_saves"] = better.saves
    return found
