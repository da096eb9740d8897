"""The plan nearest to an earlier one: the least change among all solutions that are nearly optimal."""

from dataclasses import replace
from fractions import Fraction

from planner.problem.problem import Problem
from planner.solve.candidate import Candidate
from planner.solve.model import Taken
from planner.solve.search import Solution, search


def search_near(problem: Problem, changes: Problem, optimum: Solution, within: Fraction) -> Solution:
    """The solution that changes least among those whose goal is at most `1 + within` times the optimum.

    `changes` is the problem with the change of every option. Three searches, each proved: the optimum, the least
    change under it, and the best goal with that change. The bound is the optimum's, so value and bound tell how far
    the solution may be from the best one.
    """
    ceiling = (problem.goal, optimum.value * (1 + within))
    least = search(replace(changes, goal="change", ceilings=(ceiling,)))
    assert least is not None, "the optimum itself is within the ceiling"
    best = search(replace(changes, ceilings=(ceiling, ("change", least.value))))
    assert best is not None, "the solution of least change keeps its own change"
    return replace(optimum, taken=moved_to(problem, best.taken))


def moved_to(problem: Problem, taken: Taken) -> Taken:
    """A solution as one of a problem with the same prices: without ceilings, and without changes."""
    at = taken.candidate.mesh_index
    blocks = tuple(replace(block, change=None) for block in taken.candidate.table.blocks)
    # Which copies of weights are among the options depends on changes: these tables hold them all.
    table = replace(taken.candidate.table, price=lambda: blocks)
    meshes = (*problem.meshes[:at], table, *problem.meshes[at + 1 :])
    candidate = Candidate(replace(problem, meshes=meshes), table, at, taken.candidate.batch_index)
    return Taken(candidate, tuple(candidate.choice(choice.block, choice.index) for choice in taken.choices))
