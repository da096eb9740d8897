"""Small random problems, and an enumeration of their solutions that shares nothing with the solver."""

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import strategies as st

from planner.problem.problem import Block, Limits, MeshTable, Problem

GOALS = ("cost", "throughput", "latency")
PRICE = st.integers(min_value=0, max_value=2**33)
SMALL = st.integers(min_value=0, max_value=40)


@st.composite
def blocks(draw, name: str, residuals: int, batches: int) -> Block:
    rows = draw(st.integers(min_value=1, max_value=5))
    price = draw(st.sampled_from([PRICE, SMALL]))

    def ints(*shape: int, values=price) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype=np.int64).reshape(shape)

    legal = draw(st.lists(st.booleans() | st.just(True), min_size=rows * batches, max_size=rows * batches))
    return Block(
        name,
        tuple(range(rows)),
        ints(rows, values=st.integers(min_value=0, max_value=residuals - 1)),
        ints(rows),
        ints(rows, batches),
        ints(rows, batches, values=SMALL),
        np.array(legal, dtype=np.bool_).reshape(rows, batches),
    )


@st.composite
def problems(draw) -> Problem:
    batches = tuple(sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))))
    tables = []
    for index in range(draw(st.integers(min_value=1, max_value=3))):
        residuals = draw(st.integers(min_value=1, max_value=3))
        names = ("attention", "mlp", "vocab")
        parts = tuple(draw(blocks(name, residuals, len(batches))) for name in names)
        tables.append(MeshTable(f"slice{index}", 2**index, (), residuals, parts))
    limit = st.none() | st.integers(min_value=0, max_value=2**34) | SMALL
    limits = Limits(draw(st.none() | st.integers(min_value=0, max_value=90)), draw(limit), draw(limit))
    return Problem(tuple(tables), batches, draw(st.integers(1, 9)), draw(st.sampled_from(GOALS)), limits)


def solutions(problem: Problem):
    """Every legal combination as (goal, hbm, ttft, tpot sum over the output, change)."""
    for table, (at, batch) in product(problem.meshes, enumerate(problem.batches)):
        for rows in product(*(range(len(block.options)) for block in table.blocks)):
            picked = list(zip(table.blocks, rows, strict=True))
            agree = len({int(block.residual[row]) for block, row in picked}) == 1
            if not agree or not all(block.legal[row, at] for block, row in picked):
                continue
            prefill = sum(int(block.prefill_ns[row]) for block, row in picked)
            generate = sum(int(block.generate_ns[row, at]) for block, row in picked)
            hbm = sum(int(block.hbm[row, at]) for block, row in picked)
            served = batch * prefill + problem.output_tokens * generate
            change = sum(int(block.changes(at)[row]) for block, row in picked)
            yield goal_of(problem, table.chips, batch, prefill, served), hbm, prefill + generate, served, change


def goal_of(problem: Problem, chips: int, batch: int, prefill: int, served: int) -> int:
    if problem.goal == "latency":
        return served + prefill
    per_request = served * problem.batch_multiple // batch
    return per_request * chips if problem.goal == "cost" else per_request


def kept_solutions(problem: Problem) -> list[tuple[int, int]]:
    """Goal and change of every solution that keeps every limit."""
    limits = problem.limits
    return [
        (goal, change)
        for goal, hbm, ttft, served, change in solutions(problem)
        if (limits.hbm is None or hbm <= limits.hbm)
        and (limits.ttft is None or ttft <= limits.ttft)
        and (limits.tpot is None or served <= limits.tpot * problem.output_tokens)
    ]


def brute_force(problem: Problem) -> int | None:
    """The least goal over all solutions that keep every limit."""
    return min((goal for goal, _ in kept_solutions(problem)), default=None)


@st.composite
def changing(draw, problem: Problem) -> Problem:
    """A problem with a random change for every option and batch."""

    def with_change(block: Block) -> Block:
        shape = block.generate_ns.shape
        count = shape[0] * shape[1]
        values = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
        return replace(block, change=np.array(values, dtype=np.int64).reshape(shape))

    tables = (replace(table, blocks=tuple(map(with_change, table.blocks))) for table in problem.meshes)
    return replace(problem, meshes=tuple(tables))
