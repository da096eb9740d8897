"""A plan among the plans beside it: every batch around its own on every slice of its spec, solved again.

Latency against cost is the frontier; the plans of the plan's own slice, batch by batch, are the neighbours.
"""

from dataclasses import dataclass

from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.problem.build import batch_steps, pinned_slices
from planner.spec import Spec
from planner.sweep.frontier import marked
from planner.sweep.grid import Grid, grid_of
from planner.sweep.over import BATCH, SLICE
from planner.sweep.run import Advance, run_sweep
from planner.sweep.schema import Infeasible, Point, Sweep
from planner.sweep.solve import point_of

BEYOND = 4
"""Batches up to so many times the plan's own are solved, to see where a limit ends it."""
NEAR = 4
"""Fleets take a solve for each batch: of them only those down to a fourth of the plan's are."""


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


def grid_around(plan: Plan) -> Grid:
    """The slices of the plan's spec and the batches around its own."""
    spec, batch = spec_of(plan), plan.generate.batch
    batches = set(batch_steps(BEYOND * batch)) | {batch}
    if plan.fleet is not None:
        batches = {each for each in batches if each >= batch / NEAR}
    return grid_of(spec, pinned_slices(spec), tuple(sorted(batches)))


def around(plan: Plan, jobs: int, advance: Advance = lambda settings: None) -> Around:
    """What is around a plan; raises ShardwrightError where nothing of it can be solved."""
    grid = grid_around(plan)
    found = run_sweep(grid, jobs=jobs, advance=advance)
    own = point_of(plan, {SLICE: plan.slice, BATCH: plan.generate.batch}, ()).model_copy(update={"chosen": True})
    twins = [point for point in found.points if point.layout == own.layout]
    points = tuple(point.model_copy(update={"chosen": point in twins}) for point in found.points)
    return Around(
        sweep=within_concurrency(found.model_copy(update={"chosen": own, "points": points}), grid.spec, plan),
        own=own,
        neighbours=tuple(each for each in points if each.values[SLICE] == plan.slice and "objective" in each.best_for),
        infeasible=tuple(each for each in found.infeasible if each.values[SLICE] == plan.slice),
        concurrency=grid.spec.workload.concurrency,
        stale=any(point.service.tpot_s != own.service.tpot_s for point in twins),
        pinned=BATCH in grid.spec.pins,
    )


def within_concurrency(found: Sweep, spec: Spec, plan: Plan) -> Sweep:
    """The part of a sweep that the spec could have: batches up to its concurrency, and the plan's own."""
    most = max(spec.workload.concurrency, plan.generate.batch)
    batches = tuple(each for each in found.over[BATCH] if int(each) <= most)
    points = [point for point in found.points if int(point.values[BATCH]) <= most]
    return found.model_copy(
        update={
            "over": {**found.over, BATCH: batches},
            "settings": len(batches) * len(found.over[SLICE]),
            "points": marked(points, found.latency, found.against),
            "infeasible": tuple(each for each in found.infeasible if int(each.values[BATCH]) <= most),
        }
    )
