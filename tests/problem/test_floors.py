"""A floor is below every solution: with it a mesh is left unpriced, so one that is too high would hide the optimum."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings

from planner.problem.build import build
from planner.problem.problem import GoalName, MeshTable, Place, Problem, Weights
from planner.spec import Spec
from tests.problem.specs import LARGE_SLICES, SMALL_SLICES, specs

QUANTITIES: tuple[GoalName, ...] = ("cost", "throughput", "latency", "hbm", "ttft", "tpot")
PHASES = (Weights(1, 0), Weights(0, 1), Weights(1, 1))
NEVER = 2**61


def least_sum(table: MeshTable, weights: Weights, at: int, hbm: int | None) -> int:
    """The least of a quantity over the options that agree on the residual stream and that fit in HBM alone."""
    least = [least_of(table, number, weights, at, fitting(table, number, at, hbm)) for number in range(3)]
    return int(np.minimum(sum(least), NEVER).min())


def least_of(table: MeshTable, number: int, weights: Weights, at: int, kept: np.ndarray) -> np.ndarray:
    """The least of a quantity over the kept options of a block, for each residual layout."""
    block = table.blocks[number]
    column = block.column(at)
    quantity = weights.prefill * block.prefill_ns + weights.generate * column.generate_ns + weights.hbm * column.hbm
    least = np.full(table.residuals, NEVER)
    np.minimum.at(least, block.residual[kept], quantity[kept])
    return least


def fitting(table: MeshTable, number: int, at: int, hbm: int | None) -> np.ndarray:
    """The legal options of a block that fit beside the least that the other blocks take in some layout."""
    column = table.blocks[number].column(at)
    if hbm is None:
        return column.legal
    others = [
        least_of(table, other, Weights(0, 0, 1), at, table.blocks[other].column(at).legal)
        for other in range(3)
        if other != number
    ]
    return column.legal & (column.hbm + sum(others)[table.blocks[number].residual] <= hbm)


def floors_and_sums(problem: Problem) -> Iterator[tuple[int, int, str]]:
    """The floor and the least sum of every quantity of every candidate, with and without the limit of HBM."""
    for table in problem.meshes:
        for at, batch in enumerate(problem.batches):
            if table.prompts > batch:
                continue
            place = Place.of(table.chips, table.prompts, batch, table.steps, table.tokens_per_step)
            weights = [*PHASES, *(problem.goal_weights(goal, place) for goal in QUANTITIES)]
            for each in weights:
                for hbm in (None, problem.limits.hbm):
                    found = least_sum(table, each, at, hbm)
                    names, read = [axis.name for axis in table.mesh], (table.prompts, table.chunk, table.drafts)
                    where = f"{table.slice} {names} {read} {batch} {each} {hbm}"
                    yield table.floor(hbm).least(each, at), found, where


def assert_below(spec: Spec) -> None:
    """Asserts every floor of a spec."""
    for floor, least, where in floors_and_sums(build(spec).problem):
        assert floor <= least, where


@settings(max_examples=100, deadline=None)
@given(specs(SMALL_SLICES, concurrency=12))
def test_no_solution_is_below_its_floor(spec: Spec):
    assert_below(spec)


@settings(max_examples=10, deadline=None)
@given(specs(LARGE_SLICES, concurrency=64, most_slices=1))
def test_no_solution_on_a_larger_slice_is_below_its_floor(spec: Spec):
    assert_below(spec)
