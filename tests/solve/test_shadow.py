"""Shadows of limits: what more of a limit saves is what solving with more of it gives, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem.problem import LimitName, Limits, Problem
from planner.solve.search import search
from planner.solve.shadow import shadow_of
from tests.solve.test_search import toy
from tests.solve.toys import brute_force, problems


def value_at(problem: Problem, name: LimitName, bound: int | None) -> int | None:
    return brute_force(replace(problem, limits=replace(problem.limits, **{name: bound})))


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(min_value=1, max_value=30))
def test_shadows_equal_brute_force(problem: Problem, step: int):
    optimum = search(problem)
    if optimum is None or optimum.value == 0:
        return
    for name, have in problem.limits.named().items():
        shadow = shadow_of(problem, optimum, name, step)
        assert shadow.used <= shadow.have == have
        assert value_at(problem, name, shadow.used) == optimum.value
        more, free = value_at(problem, name, have + step), value_at(problem, name, None)
        assert shadow.step_saves == pytest.approx(1 - more / optimum.value)
        assert shadow.binds == (free < optimum.value)
        if shadow.first is not None and shadow.free is not None:
            assert shadow.free.saves == pytest.approx(1 - free / optimum.value)
            assert value_at(problem, name, shadow.first.need) < optimum.value
            assert value_at(problem, name, shadow.first.need - 1) == optimum.value


def test_a_limit_that_is_not_used_up_tells_how_far_it_could_fall():
    problem = toy(hbm_limit=20)
    optimum = search(problem)
    shadow = shadow_of(problem, optimum, "hbm", 1)
    assert (shadow.used, shadow.step_saves, shadow.first) == (6, 0.0, None)
    assert search(replace(problem, limits=Limits(hbm=5))) is None
