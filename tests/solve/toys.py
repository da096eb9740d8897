"""Small random problems, and an enumeration of their solutions that shares nothing with the solver."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import strategies as st

from planner.problem.problem import Block, Bools, Column, Floor, Ints, Limits, MeshTable, Problem, Stored

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
    return block_of(
        name,
        ints(rows, values=st.integers(min_value=0, max_value=residuals - 1)),
        ints(rows),
        ints(rows, batches),
        ints(rows, batches, values=SMALL),
        np.array(legal, dtype=np.bool_).reshape(rows, batches),
    )


def block_of(name: str, residual: Ints, prefill: Ints, generate: Ints, hbm: Ints, legal: Bools) -> Block:
    """A block whose prices are there: [options], and [options, batches] where the batch matters."""
    columns = [Column(generate[:, at], hbm[:, at], legal[:, at]) for at in range(generate.shape[1])]
    return Block(name, tuple(range(len(residual))), residual, prefill, columns.__getitem__)


def table_of(
    name: str,
    chips: int,
    prompts: int,
    residuals: int,
    parts: tuple[Block, ...],
    floor: Floor,
    steps: int = 1,
    tokens: Fraction = Fraction(1),
) -> MeshTable:
    """A table whose blocks and floor are there."""
    return MeshTable(
        name, chips, (), prompts, residuals, lambda _: floor, lambda: parts, steps=steps, tokens_per_step=tokens
    )


def no_floor(batches: int) -> Floor:
    """The floor of a mesh of which nothing is known."""
    return Floor((), 0, np.zeros(batches, dtype=np.int64), np.zeros(batches, dtype=np.int64))


def highest_floor(parts: tuple[Block, ...], batches: int) -> Floor:
    """The sums of the least prices: attention's as what depends on how weights are stored, the others' as the rest."""
    columns = [[part.column(at) for part in parts] for at in range(batches)]
    first, rest = parts[0], parts[1:]
    generate_ns = np.stack([first.column(at).generate_ns for at in range(batches)], axis=1)
    return Floor(
        (Stored(first.prefill_ns, generate_ns, np.ones_like(generate_ns, dtype=np.bool_)),),
        sum(int(part.prefill_ns.min()) for part in rest),
        np.array([sum(int(column.generate_ns.min()) for column in row[1:]) for row in columns], dtype=np.int64),
        np.array([sum(int(column.hbm.min()) for column in row) for row in columns], dtype=np.int64),
    )


@st.composite
def problems(draw) -> Problem:
    batches = tuple(sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))))
    tables = []
    for index in range(draw(st.integers(min_value=1, max_value=3))):
        residuals, prompts = draw(st.integers(min_value=1, max_value=3)), draw(st.sampled_from([1, 2, 4]))
        names = ("attention", "mlp", "vocab")
        parts = tuple(draw(blocks(name, residuals, len(batches))) for name in names)
        floor = highest_floor(parts, len(batches)) if draw(st.booleans()) else no_floor(len(batches))
        steps, tokens = draw(st.sampled_from([1, 1, 2, 5])), draw(st.sampled_from([Fraction(1), Fraction(36, 13)]))
        tables.append(table_of(f"slice{index}", 2**index, prompts, residuals, parts, floor, steps, tokens))
    limit = st.none() | st.integers(min_value=0, max_value=2**34) | SMALL
    limits = Limits(draw(st.none() | st.integers(min_value=0, max_value=90)), draw(limit), draw(limit))
    output, goal = draw(st.integers(1, 9)), draw(st.sampled_from(GOALS))
    return Problem(tuple(tables), batches, output, goal, limits)


@dataclass(frozen=True)
class Found:
    """One legal combination: its goal, what limits bound, and its change."""

    goal: Fraction
    hbm: int
    ttft: Fraction
    tpot: Fraction
    change: int


def solutions(problem: Problem) -> Iterator[Found]:
    """Every legal combination."""
    for table, (at, batch) in product(problem.meshes, enumerate(problem.batches)):
        if table.prompts > batch:
            continue
        for rows in product(*(range(len(block.options)) for block in table.blocks)):
            picked = list(zip(table.blocks, rows, strict=True))
            agree = len({int(block.residual[row]) for block, row in picked}) == 1
            if not agree or not all(block.column(at).legal[row] for block, row in picked):
                continue
            prefill = sum(int(block.prefill_ns[row]) for block, row in picked)
            generate = sum(int(block.column(at).generate_ns[row]) for block, row in picked)
            hbm = sum(int(block.column(at).hbm[row]) for block, row in picked)
            change = sum(int(block.changes(at)[row]) for block, row in picked)
            yield found_of(problem, table, batch, prefill, generate, hbm, change)


def found_of(
    problem: Problem, table: MeshTable, batch: int, prefill: int, generate: int, hbm: int, change: int
) -> Found:
    """A combination with what users see of it, in nanoseconds."""
    out, waiting = problem.output_tokens, Fraction(table.prompts - 1, 2)
    between = table.steps - 1 if batch > table.prompts else 0
    steps = Fraction(out) if table.tokens_per_step == 1 else Fraction(max(1, round(4 * out / table.tokens_per_step)), 4)
    request = Fraction(prefill, table.prompts) + (steps + between) * generate / (batch - waiting)
    ttft = waiting * request + prefill + (1 + between) * generate
    tpot = ((batch - waiting) * Fraction(prefill, table.prompts) + steps * generate) / out
    goals = {"cost": table.chips * request, "throughput": request, "latency": ttft + out * tpot}
    return Found(goals[problem.goal], hbm, ttft, tpot, change)


def kept_solutions(problem: Problem) -> list[tuple[Fraction, int]]:
    """Goal and change of every solution that keeps every limit."""
    limits = problem.limits
    return [
        (found.goal, found.change)
        for found in solutions(problem)
        if (limits.hbm is None or found.hbm <= limits.hbm)
        and (limits.ttft is None or found.ttft <= limits.ttft)
        and (limits.tpot is None or found.tpot <= limits.tpot)
    ]


def brute_force(problem: Problem) -> Fraction | None:
    """The least goal over all solutions that keep every limit."""
    return min((goal for goal, _ in kept_solutions(problem)), default=None)


@st.composite
def changing(draw, problem: Problem) -> Problem:
    """A problem with a random change for every option and batch."""

    def with_change(block: Block) -> Block:
        shape = len(block.options), len(problem.batches)
        count = shape[0] * shape[1]
        values = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
        return replace(block, change=np.array(values, dtype=np.int64).reshape(shape))

    changed = [tuple(map(with_change, table.blocks)) for table in problem.meshes]
    tables = (
        replace(table, price=lambda parts=parts: parts) for table, parts in zip(problem.meshes, changed, strict=True)
    )
    return replace(problem, meshes=tuple(tables))
