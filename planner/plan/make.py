"""Spec -> Plan: build, solve, and tell an infeasible spec so that it can be mended."""

from dataclasses import dataclass

from planner.errors import CannotRun, InfeasibleSpec
from planner.plan.build import build_plan, plan_alone
from planner.plan.chosen import rules_of
from planner.plan.infeasible import conflict_text, no_lines, reasons_of, remedies
from planner.plan.near import Earlier, near_of, with_changes
from planner.plan.optimum import Optimum, optimum_of
from planner.plan.schema import Plan
from planner.problem.build import Built, batches_of, build
from planner.solve.fleet import FleetSolution
from planner.solve.near import search_near
from planner.spec import Lines, Spec


@dataclass(frozen=True)
class Solved:
    """A spec, its problem, and the optimum, None where no plan is feasible."""

    spec: Spec
    built: Built
    optimum: Optimum | None


def make_plan(spec: Spec, lines: Lines = no_lines) -> Plan:
    """The optimal plan of a spec; raises as `solve_spec` and `plan_of` do."""
    return plan_of(solve_spec(spec), lines=lines)


def solve_spec(spec: Spec, near: Earlier | None = None) -> Solved:
    """A spec, priced and solved, with an earlier plan's batch among the candidates.

    Raises `Unsupported` where only rendered strategies are asked for, of a model that no package exists for yet.
    """
    built = build(spec, batches_of(spec, near.plan.generate.batch) if near else None)
    return Solved(spec, built, optimum_of(built))


def bare_plan(spec: Spec) -> Plan | None:
    """The optimal plan of a spec without runner-ups, None where no plan is feasible; raises as `solve_spec` does."""
    solved = solve_spec(spec)
    return None if solved.optimum is None else plan_alone(spec, solved.built, solved.optimum)


def plan_of(solved: Solved, near: Earlier | None = None, lines: Lines = no_lines) -> Plan:
    """The optimal plan, or with `near` the one that changes least against an earlier plan.

    Raises `InfeasibleSpec` with the conflict and the changes that would fit; `lines` tell where the spec sets a value.
    """
    spec, built, optimum = solved.spec, solved.built, solved.optimum
    if optimum is None:
        raise InfeasibleSpec(told(spec, built, lines))
    if near is None:
        return build_plan(spec, built, optimum)
    if isinstance(optimum, FleetSolution) or built.problem.arrivals:
        raise CannotRun("--near tells of one slice that takes turns; leave it out for a request rate or disaggregation")
    solution = search_near(built.problem, with_changes(built, near), optimum, near.within)
    candidate = solution.taken.candidate
    return build_plan(
        spec, built, solution, near_of(near, candidate.table.source.machine, rules_of(solution.taken), candidate.batch)
    )


def told(spec: Spec, built: Built, lines: Lines = no_lines) -> str:
    """An infeasible problem in words."""
    infeasible = reasons_of(built)
    found = conflict_text(spec, infeasible, lines)
    fitting = [f"    {remedy.text()}" for remedy in remedies(spec, infeasible)]
    return "\n".join([*found, "  what would fit, each solved:", *fitting] if fitting else found)
