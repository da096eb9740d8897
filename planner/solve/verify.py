"""Checks of the solver's answers that do not use the solver.

Blocks meet only in the residual layout, so the optimum can be enumerated: for each candidate and each layout, every
combination of undominated options. It is exact with limits too.
"""

from fractions import Fraction
from itertools import product

from planner.problem.problem import Problem
from planner.solve.candidate import Candidate, Choice
from planner.solve.model import Taken
from planner.solve.search import candidates_of


def faults(taken: Taken) -> list[str]:
    """What is wrong with a solution, recomputed from the tables: nothing, for a sound one."""
    candidate, found = taken.candidate, []
    blocks = candidate.table.blocks
    if [choice.block for choice in taken.choices] != list(range(len(blocks))):
        found.append("a block without exactly one option")
    if len({choice.residual for choice in taken.choices}) > 1:
        found.append("blocks disagree on the residual stream")
    for choice in taken.choices:
        if not blocks[choice.block].column(candidate.batch_index).legal[choice.index]:
            found.append(f"{blocks[choice.block].name} takes an option that is not legal")
        if candidate.choice(choice.block, choice.index) != choice:
            found.append(f"{blocks[choice.block].name} is priced otherwise than its table says")
    for weights, bound in candidate.limit_rows():
        if taken.quantity(weights) > bound:
            found.append(f"a limit of {bound} is broken by {taken.quantity(weights)}")
    return found


def exact_optimum(problem: Problem) -> Fraction | None:
    """The least value of the goal over all solutions, by enumeration; None if there is no solution."""
    values = [value for candidate in candidates_of(problem) if (value := candidate_optimum(candidate)) is not None]
    return min(values, default=None)


def candidate_optimum(candidate: Candidate) -> Fraction | None:
    """The least goal within one candidate, by enumeration."""
    by_residual: dict[int, dict[int, list[Choice]]] = {}
    for choice in candidate.choices(None):
        by_residual.setdefault(choice.residual, {}).setdefault(choice.block, []).append(choice)
    blocks = range(len(candidate.table.blocks))
    combinations = (
        Taken(candidate, combination)
        for options in by_residual.values()
        for combination in product(*(options.get(block, []) for block in blocks))
    )
    rows = candidate.limit_rows()
    kept = (taken.value for taken in combinations if all(taken.quantity(row) <= bound for row, bound in rows))
    return min(kept, default=None)
