"""The search gives proven optima: equal to brute force, repeatable, sound; and says why there is none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from ortools.sat.python import cp_model

from planner.errors import NotProved
from planner.problem.problem import Block, Limits, Problem
from planner.solve.infeasible import explain_infeasible
from planner.solve.model import assert_safe
from planner.solve.search import search
from planner.solve.verify import exact_optimum, faults
from tests.solve.toys import block_of, brute_force, no_floor, problems, solutions, table_of


@settings(max_examples=150, deadline=None)
@given(problems())
def test_search_equals_brute_force(problem: Problem):
    solution = search(problem)
    assert (solution.value if solution else None) == brute_force(problem)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_exact_enumeration_without_the_solver_equals_brute_force(problem: Problem):
    assert exact_optimum(problem) == brute_force(problem)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_solutions_are_sound_and_repeatable(problem: Problem):
    first, second = search(problem), search(problem)
    if first is None:
        assert second is None
        return
    assert faults(first.taken) == []
    assert first.bound == first.value
    assert second is not None
    assert second.taken.choices == first.taken.choices


@settings(max_examples=40, deadline=None)
@given(problems())
def test_ties_are_broken_alike_at_once_and_in_turn(problem: Problem):
    at_once = search(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.solve.model.OBJECTIVE_LIMIT", 0)
        in_turn = search(problem)
    assert (at_once and at_once.taken.choices) == (in_turn and in_turn.taken.choices)


def test_memory_beyond_all_machines_is_no_overflow():
    huge = [2**45 + 2**30 * row for row in range(40)]
    blocks = tuple(block(name, huge) for name in ("attention", "mlp", "vocab"))
    changes = np.arange(40, 0, -1, dtype=np.int64)[:, None]
    parts = tuple(replace(each, change=changes) for each in blocks)
    table = table_of("slice", 1, 1, 1, parts, no_floor(1))
    solution = search(Problem((table,), (1,), 1, "cost", Limits()))
    assert solution is not None
    assert [choice.index for choice in solution.taken.choices] == [0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(problems())
def test_a_looser_limit_never_costs_more(problem: Problem):
    limited, free = search(problem), search(replace(problem, limits=Limits()))
    if limited is not None:
        assert free is not None
        assert free.value <= limited.value


@settings(max_examples=60, deadline=None)
@given(problems())
def test_a_conflict_is_minimal_and_its_needs_are_reachable(problem: Problem):
    if search(problem) is not None:
        return
    conflict = explain_infeasible(problem).conflict
    names = {need.limit for need in conflict}
    only = Limits(**{name: bound for name, bound in problem.limits.named().items() if name in names})
    if not any(True for _ in solutions(problem)):
        assert not names
        return
    assert names
    assert search(replace(problem, limits=only)) is None
    for need in conflict:
        assert need.need > need.have
        assert search(replace(problem, limits=only.without(need.limit))) is not None
        relaxed = replace(only, **{need.limit: need.need})
        assert search(replace(problem, limits=relaxed)) is not None


def block(name: str, hbm: list[int]) -> Block:
    """Options that cost the same time and differ in memory."""
    rows = len(hbm)
    zeros, prices = np.zeros(rows, dtype=np.int64), np.full((rows, 1), 7, dtype=np.int64)
    memory = np.array(hbm, dtype=np.int64)[:, None]
    return block_of(name, zeros, zeros + 7, prices, memory, np.ones((rows, 1), dtype=np.bool_))


def toy(*, hbm_limit: int) -> Problem:
    blocks = (block("attention", [5, 2, 2]), block("mlp", [1]), block("vocab", [4, 3]))
    table = table_of("slice", 1, 1, 1, blocks, no_floor(1))
    return Problem((table,), (1,), 1, "cost", Limits(hbm=hbm_limit))


def test_ties_go_to_less_memory_and_then_to_the_earlier_option():
    solution = search(toy(hbm_limit=20))
    assert solution is not None
    assert [choice.index for choice in solution.taken.choices] == [1, 0, 1]


def test_missing_memory_is_counted():
    (need,) = explain_infeasible(toy(hbm_limit=4)).conflict
    assert (need.limit, need.have, need.need) == ("hbm", 4, 6)


def test_a_tampered_solution_is_found_out():
    solution = search(toy(hbm_limit=20))
    assert solution is not None
    choices = solution.taken.choices
    cheaper = (replace(choices[0], prefill_ns=0), *choices[1:])
    assert faults(replace(solution.taken, choices=cheaper)) == ["attention is priced otherwise than its table says"]
    assert "a block without exactly one option" in faults(replace(solution.taken, choices=choices[:2]))


def test_an_enforced_row_with_large_numbers_is_refused():
    model = cp_model.CpModel()
    enforced, counted = model.new_bool_var("enforced"), model.new_bool_var("counted")
    model.add(2**30 * counted <= 5).only_enforce_if(enforced)
    with pytest.raises(AssertionError):
        assert_safe(model)


def test_what_is_not_proved_is_not_called_a_plan(monkeypatch):
    monkeypatch.setattr("planner.solve.model.SOLVE_DETERMINISTIC_S", 0.0)
    with pytest.raises(NotProved, match="deterministic seconds"):
        search(toy(hbm_limit=20))
