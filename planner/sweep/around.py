"""A plan among the plans beside it: every batch around its own on every slice of its spec, solved again.

Latency against cost is the frontier; the plans of the plan's own slice, batch by batch, are the neighbours.
"""

from dataclasses import dataclass

from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.problem.build import batch_steps, pinned_slices
from planner.sweep.grid import Grid, grid_of
from planner.sweep.over import BATCH, SLICE
from planner.sweep.run import Advance, run_sweep
from planner.sweep.schema import Infeasible, Point, Sweep
from planner.sweep.solve import Solved, point_of, solve_objective

BEYOND = 4
"""Batches up to so many times the plan's own are solved, to see where a limit ends it."""
NEAR = 4
"""Fleets take a solve for each batch: of them only those from a fourth to four times the plan's are."""


@dataclass(frozen=True)
class Around:
    """A sweep around a plan, its own point chosen, and the best plan of its slice for each batch that has one.

    `stale`: the same layout is priced another way today than when the plan was made.
    """

    sweep: Sweep
    own: Point
    neighbours: tuple[Point, ...]
    infeasible: tuple[Infeasible, ...]
    concurrency: int
    stale: bool = False
    pinned: bool = False


def around(plan: Plan, jobs: int, advance: Advance = lambda settings: None) -> Around:
    """What is around a plan; raises `Unsupported` where that is the answer to all of it."""
    grid = grid_around(plan)
    found = run_sweep(grid, jobs=jobs, advance=advance)
    own = point_of(plan, {SLICE: plan.slice, BATCH: plan.generate.batch}, ()).model_copy(update={"chosen": True})
    twins = [point for point in found.points if point.layout == own.layout]
    points = tuple(point.model_copy(update={"chosen": point in twins}) for point in found.points)
    there = best_on(plan, grid, found)
    return Around(
        sweep=found.model_copy(update={"chosen": own, "points": points}),
        own=own,
        neighbours=tuple(each.model_copy(update={"chosen": each.layout == own.layout}) for each in there.points),
        infeasible=there.infeasible,
        concurrency=grid.spec.workload.concurrency,
        stale=any(point.service.tpot_s != own.service.tpot_s for point in twins),
        pinned=BATCH in grid.spec.pins,
    )


def grid_around(plan: Plan) -> Grid:
    """The slices of the plan's spec and the batches that may be chosen there; of fleets those around its own."""
    spec, batch = spec_of(plan), plan.generate.batch
    batches = {*batch_steps(max(spec.workload.concurrency, batch)), batch}
    if plan.fleet is not None:
        batches = {each for each in batches if batch / NEAR <= each <= NEAR * batch}
    return grid_of(spec, pinned_slices(spec), tuple(sorted(batches)))


def best_on(plan: Plan, grid: Grid, found: Sweep) -> Solved:
    """The plan's own slice at each batch, with what the spec asks for; also beyond its concurrency, up to where a limit
    ends it. A fleet's is what the sweep has found."""
    if plan.fleet is not None:
        return Solved(
            tuple(each for each in found.points if each.values[SLICE] == plan.slice),
            tuple(each for each in found.infeasible if each.values[SLICE] == plan.slice),
        )
    batches = tuple(sorted({*batch_steps(BEYOND * plan.generate.batch), *map(int, grid.over[BATCH])}))
    (case,) = grid_of(grid.spec, [plan.slice], batches).cases
    return solve_objective(case)
