"""Small real problems, priced by the planner: the search equals an enumeration that shares nothing with it."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem.build import build
from planner.problem.problem import LARGEST_WEIGHT, Limits, MeshTable, Problem, Weights
from planner.solve.search import candidates_of, search
from planner.solve.shadow import quantity_of
from planner.solve.verify import exact_optimum, faults
from planner.spec import Spec
from tests.problem.specs import specs

TINY_SLICES = {"cpu": ("2x2",), "v4": ("2x2x1",), "v5e": ("1x1", "2x2"), "v6e": ("2x2",), "h100": ("2", "4")}
EXAMPLES = 500
ROUNDING = Fraction(1, 2**20)


def least_goal(problem: Problem) -> Fraction | None:
    """The least goal over every combination of legal options that keeps every limit, all of them tried."""
    found = (
        least_of_layout(problem, table, at, residual)
        for table in problem.meshes
        for at, batch in enumerate(problem.batches)
        if table.prompts <= batch
        for residual in range(table.residuals)
    )
    return min((each for each in found if each is not None), default=None)


def least_of_layout(problem: Problem, table: MeshTable, at: int, residual: int) -> Fraction | None:
    """The same of one candidate and one layout of the residual stream."""
    prefill, generate, hbm = (sums_of(table, at, residual, of) for of in ("prefill_ns", "generate_ns", "hbm"))
    out, prompts, twice_active = problem.output_tokens, table.prompts, 2 * problem.batches[at] - table.prompts + 1
    between = table.steps - 1 if problem.batches[at] > prompts else 0
    quarters = 4 * out if table.tokens_per_step == 1 else max(1, round(4 * out / table.tokens_per_step))
    # A request, times 4 * prompts * twice_active to be whole; TTFT and TPOT follow from it.
    whole = 4 * prompts * twice_active
    request = 4 * twice_active * prefill + 2 * prompts * (quarters + 4 * between) * generate
    ttft = (prompts - 1) * request // 2 + whole * (prefill + (1 + between) * generate)
    tokens = twice_active * (2 * twice_active * prefill + prompts * quarters * generate)
    kept = np.ones(prefill.shape, dtype=np.bool_)
    limits = problem.limits
    if limits.hbm is not None:
        kept &= hbm <= limits.hbm
    if limits.ttft is not None:
        kept &= ttft <= limits.ttft * whole
    if limits.tpot is not None:
        kept &= tokens <= limits.tpot * out * whole
    goal = {"cost": table.chips * request, "throughput": request, "latency": ttft + tokens}[problem.goal]
    return Fraction(int(goal[kept].min()), whole) if kept.any() else None


def sums_of(table: MeshTable, at: int, residual: int, price: str) -> np.ndarray:
    """A price of every combination of legal options with one layout of the residual stream: [attention, MLP, vocab]."""
    parts = []
    for block in table.blocks:
        column = block.column(at)
        values = block.prefill_ns if price == "prefill_ns" else getattr(column, price)
        parts.append(values[column.legal & (block.residual == residual)])
    return parts[0][:, None, None] + parts[1][:, None] + parts[2]


@st.composite
def small_problems(draw, most_slices: int = 1) -> Problem:
    """A problem with its spec's limits, or with some that bind: between the least and what the free optimum takes."""
    spec: Spec = draw(specs(TINY_SLICES, concurrency=8, most_slices=most_slices))
    problem = build(spec).problem
    free = replace(problem, limits=Limits())
    best = search(free)
    if best is None or draw(st.booleans()):
        return problem
    limits = {}
    for name in draw(st.sets(st.sampled_from(["hbm", "ttft", "tpot"]), min_size=1)):
        nearest = search(replace(free, goal=name))
        assert nearest is not None
        least, taken = (quantity_of(each, name) for each in (nearest, best))
        limits[name] = least + draw(st.integers(-1, 9)) * (taken - least) // 9
    return replace(problem, limits=Limits(**limits))


@settings(max_examples=EXAMPLES, deadline=None)
@given(small_problems())
def test_search_equals_every_combination_tried(problem: Problem):
    solution = search(problem)
    assert_least(problem, solution.value if solution else None)
    assert solution is None or faults(solution.taken) == []


@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(small_problems(most_slices=2))
def test_enumeration_without_the_solver_equals_every_combination_tried(problem: Problem):
    assert_least(problem, exact_optimum(problem))


def assert_least(problem: Problem, value: Fraction | None) -> None:
    """Asserts that a value is the least: exactly, or where weights are too large to be exact, within their rounding."""
    if all(max(row.prefill, row.generate) < LARGEST_WEIGHT for row in weights_of(problem)):
        assert value == least_goal(problem)
        return
    below, above = (least_goal(loosened(problem, by)) for by in (1 + ROUNDING, 1 - ROUNDING))
    assert below is None or value is None or below <= value * (1 + ROUNDING)
    assert above is None or (value is not None and value <= above * (1 + ROUNDING))
    assert value is None or below is not None


def weights_of(problem: Problem) -> Iterator[Weights]:
    """The goal and the limits of every candidate."""
    for candidate in candidates_of(problem):
        yield candidate.weights()
        yield from (weights for weights, _ in candidate.limit_rows())


def loosened(problem: Problem, by: Fraction) -> Problem:
    """The problem with its times allowed to be so many times as long."""
    limits = {name: int(value * by) for name, value in problem.limits.named().items() if name != "hbm"}
    return replace(problem, limits=replace(problem.limits, **limits))
