"""The least change within a tolerance of the optimum is exact, and is never called optimal when it is not."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem.problem import Problem
from planner.solve.near import search_near
from planner.solve.search import search
from planner.solve.verify import faults
from tests.solve.toys import brute_force, changing, kept_solutions, problems

WITHIN = st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 4), Fraction(3)])


@settings(max_examples=120, deadline=None)
@given(problems(), WITHIN, st.data())
def test_the_nearest_solution_equals_brute_force(problem: Problem, within: Fraction, data: st.DataObject):
    changes = data.draw(changing(problem))
    optimum = search(problem)
    if optimum is None:
        return
    near = search_near(problem, changes, optimum, within)
    most = optimum.value * (1 + within)
    least, goal = min((change, goal) for goal, change in kept_solutions(changes) if goal <= most)
    table = changes.meshes[near.taken.candidate.mesh_index]
    at = near.taken.candidate.batch_index
    assert sum(table.blocks[c.block].change_of(c.index, at) for c in near.taken.choices) == least
    assert near.value == goal
    assert near.bound == brute_force(problem) <= near.value <= (1 + within) * near.bound
    assert faults(near.taken) == []


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_a_change_as_goal_and_a_ceiling_on_it_agree(problem: Problem, data: st.DataObject):
    changes = data.draw(changing(problem))
    least = search(replace(changes, goal="change"))
    if least is None:
        return
    assert search(replace(changes, ceilings=(("change", least.value - 1),))) is None
    assert search(replace(changes, ceilings=(("change", least.value),))) is not None
