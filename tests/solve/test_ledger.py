"""The ledger: every candidate with a bound that holds, every option with a reason that is true."""

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given, settings

from planner.problem.problem import Limits, Problem
from planner.solve.ledger import ledger_of
from planner.solve.search import candidates_of, search
from planner.solve.verify import candidate_optimum
from tests.solve.test_search import toy
from tests.solve.toys import problems


@settings(max_examples=120, deadline=None)
@given(problems())
def test_every_candidate_is_listed_with_a_bound_below_its_own_optimum(problem: Problem):
    solution = search(problem)
    ledger = ledger_of(problem, solution)
    assert [entry.candidate for entry in ledger.entries] == candidates_of(problem)
    counts = Counter(entry.verdict for entry in ledger.entries)
    assert counts["taken"] == (solution is not None)
    for entry in ledger.entries:
        own = candidate_optimum(entry.candidate)
        assert entry.bound is None or own is None or entry.bound <= own
        if entry.verdict in ("limit", "limits", "illegal"):
            assert own is None
        elif entry.verdict == "bounded":
            assert solution is not None
            assert entry.bound > solution.value
        else:
            assert solution is not None
            assert entry.value == own
            assert (own > solution.value) == (entry.verdict == "dearer")


@settings(max_examples=60, deadline=None)
@given(problems())
def test_as_many_candidates_are_opened_as_the_search_solved(problem: Problem):
    solution = search(problem)
    if solution is None:
        return
    opened = [e for e in ledger_of(problem, solution).entries if e.bound is not None and e.bound <= solution.value]
    assert len(opened) == solution.solved


@settings(max_examples=80, deadline=None)
@given(problems())
def test_a_limit_that_is_blamed_rules_the_candidate_out_alone(problem: Problem):
    for entry in ledger_of(problem, search(problem)).entries:
        for least in entry.broken:
            assert least.need > least.have
            only = Limits(**{least.limit: problem.limits.named()[least.limit]})
            alone = replace(entry.candidate, problem=replace(problem, limits=only))
            assert alone.bound() is None
            assert candidate_optimum(alone) is None
            free = replace(entry.candidate, problem=replace(problem, limits=Limits()))
            assert candidate_optimum(free) is not None


@settings(max_examples=80, deadline=None)
@given(problems())
def test_every_option_of_the_taken_candidate_has_a_true_reason(problem: Problem):
    solution = search(problem)
    ledger = ledger_of(problem, solution)
    if solution is None:
        assert ledger.options == ()
        return
    candidate = solution.taken.candidate
    blocks = candidate.table.blocks
    assert [(o.block, o.index) for o in ledger.options] == [
        (number, index) for number, block in enumerate(blocks) for index in range(len(block.options))
    ]
    best = {(number, index): best_with(candidate, number, index) for number, index in product_of(blocks)}
    for option in ledger.options:
        own = candidate.choice(option.block, option.index)
        reached = best[option.block, option.index]
        if option.verdict == "dominated":
            other = candidate.choice(option.block, option.by)
            assert other.residual == own.residual
            assert all(a <= b for a, b in zip(other.cost, own.cost, strict=True))
        elif option.verdict in ("illegal", "limit", "limits"):
            assert reached is None
        elif option.verdict == "dearer":
            assert reached is None or reached > solution.value
        elif option.verdict == "taken":
            assert reached == solution.value
            assert solution.taken.choices[option.block].index == option.index


def product_of(blocks):
    return [(number, index) for number, block in enumerate(blocks) for index in range(len(block.options))]


def best_with(candidate, number: int, index: int) -> int | None:
    """The least goal over all solutions of a candidate that take one option, by enumeration."""
    rows, weights, found = candidate.limit_rows(), candidate.weights(), []
    for indices in product(*(range(len(block.options)) for block in candidate.table.blocks)):
        choices = [candidate.choice(block, row) for block, row in enumerate(indices)]
        legal = all(candidate.table.blocks[c.block].column(candidate.batch_index).legal[c.index] for c in choices)
        if indices[number] != index or not legal or len({c.residual for c in choices}) > 1:
            continue
        if all(sum(row.of(*c.cost) for c in choices) <= most for row, most in rows):
            found.append(weights.scale * sum(weights.of(*c.cost) for c in choices))
    return min(found, default=None)


def test_a_dominated_option_names_its_dominator():
    problem = toy(hbm_limit=20)
    options = {(o.block, o.index): o for o in ledger_of(problem, search(problem)).options}
    assert (options[0, 0].verdict, options[0, 0].by) == ("dominated", 1)
    assert (options[0, 2].verdict, options[0, 2].by) == ("dominated", 1)
    assert options[0, 1].verdict == "taken"
