"""Spec -> Plan in one call: build, solve, and tell an infeasible spec so that it can be mended."""

from planner.errors import InfeasibleSpec
from planner.plan.build import build_plan
from planner.plan.infeasible import conflict_text, remedies
from planner.plan.schema import Plan
from planner.problem.build import build
from planner.problem.problem import Problem
from planner.solve.infeasible import explain_infeasible
from planner.solve.search import search
from planner.spec import Spec


def make_plan(spec: Spec) -> Plan:
    """The optimal plan of a spec.

    Raises `Unsupported` for what no package exists for yet, and `InfeasibleSpec` with the conflict and the changes
    that would fit.
    """
    built = build(spec)
    solution = search(built.problem)
    if solution is None:
        raise InfeasibleSpec(told(spec, built.problem))
    return build_plan(spec, built, solution)


def told(spec: Spec, problem: Problem) -> str:
    """An infeasible problem in words."""
    infeasible = explain_infeasible(problem)
    lines = conflict_text(spec, infeasible)
    fitting = [f"    {remedy.text()}" for remedy in remedies(spec, infeasible)]
    return "\n".join([*lines, "  what would fit, each solved:", *fitting] if fitting else lines)
