"""One case solved: for each batch every layout on the trade-off of the two quantities, and the spec's own best.

The prices of a slice are computed once for all batches; each batch is then a problem of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from planner.errors import ShardwrightError
from planner.plan.build import plan_alone
from planner.plan.file import DIGITS
from planner.plan.infeasible import conflict_text, reasons_of
from planner.plan.make import solve_spec
from planner.plan.schema import Plan, Service
from planner.problem.build import Built, build
from planner.problem.problem import NS, UNIT_BYTES, Block, Floor, MeshTable, Problem, Stored
from planner.solve.infeasible import Infeasible as Reasons
from planner.solve.infeasible import Need, explain_infeasible
from planner.solve.search import Solution, search
from planner.spec import Spec
from planner.sweep.grid import Case
from planner.sweep.over import BATCH, SLICE
from planner.sweep.schema import AgainstName, BestFor, Conflict, Infeasible, LatencyName, Point, Values


@dataclass(frozen=True)
class Solved:
    """What became of the settings of one case."""

    points: tuple[Point, ...]
    infeasible: tuple[Infeasible, ...]


def solve_case(case: Case, latency: LatencyName, against: AgainstName) -> Solved:
    """Every setting of a case: its points, or why there are none."""
    if takes_fleet(case.spec):
        return solve_fleets(case, against)
    points: list[Point] = []
    infeasible: list[Infeasible] = []
    try:
        built = build(case.spec, case.batches)
    except ShardwrightError as error:
        return Solved((), tuple(refused(case.values(batch), error) for batch in case.batches))
    for index, batch in enumerate(case.batches):
        try:
            found = list(points_of(case, at_batch(built, index), latency, against))
        except ShardwrightError as error:
            infeasible.append(refused(case.values(batch), error))
            continue
        points += found
        if not found:
            infeasible.append(infeasible_at(case, batch, at_batch(built, index).problem))
    return Solved(tuple(points), tuple(infeasible))


def solve_objective(case: Case) -> Solved:
    """What `plan` would take at every batch of a case, or why there is nothing; no trade-offs beside it."""
    points: list[Point] = []
    infeasible: list[Infeasible] = []
    try:
        built = build(case.spec, case.batches)
    except ShardwrightError as error:
        return Solved((), tuple(refused(case.values(batch), error) for batch in case.batches))
    for index, batch in enumerate(case.batches):
        alone = at_batch(built, index)
        best = search(alone.problem)
        if best is None:
            infeasible.append(infeasible_at(case, batch, alone.problem))
        else:
            points.append(point_of(plan_alone(case.pinned(batch), alone, best), case.values(batch), ("objective",)))
    return Solved(tuple(points), tuple(infeasible))


def takes_fleet(spec: Spec) -> bool:
    """Whether plans of a spec are of several slices."""
    return spec.workload.requests_per_s is not None or spec.serving.mode != "interleaved"


def solve_fleets(case: Case, against: AgainstName) -> Solved:
    """The best fleet of every setting of a case, its slices all alike."""
    points: list[Point] = []
    infeasible: list[Infeasible] = []
    for batch in case.batches:
        spec = case.pinned(batch)
        try:
            solved = solve_spec(spec)
        except ShardwrightError as error:
            infeasible.append(refused(case.values(batch), error))
            continue
        if solved.optimum is None:
            infeasible.append(told(spec, case.values(batch), reasons_of(solved.built)))
            continue
        plan = plan_alone(spec, solved.built, solved.optimum)
        best_for: tuple[BestFor, ...] = ("objective", against) if spec.objective == against else ("objective",)
        points.append(point_of(plan, case.values(batch), best_for))
    return Solved(tuple(points), tuple(infeasible))


def at_batch(built: Built, index: int) -> Built:
    """What was built, with one of its batches alone."""
    problem = one_batch(built.problem, index)
    return replace(built, problem=problem)


def one_batch(problem: Problem, index: int) -> Problem:
    """A problem with one of its batches alone; its tables stay those that are priced."""
    tables = tuple(one_column(table, index) for table in problem.meshes)
    return replace(problem, meshes=tables, batches=(problem.batches[index],))


def one_column(table: MeshTable, index: int) -> MeshTable:
    """A table with one column of everything that depends on the batch."""

    def blocks() -> tuple[Block, ...]:
        return tuple(block_at(block, index) for block in table.blocks)

    return replace(table, floors=lambda hbm: floor_at(table.floor(hbm), index), price=blocks, _floors={})


def block_at(block: Block, index: int) -> Block:
    """A block whose only batch is one of its own."""
    return replace(block, price=lambda _: block.column(index), _columns={})


def floor_at(floor: Floor, index: int) -> Floor:
    """A floor with one batch alone."""
    stored = tuple(
        Stored(each.prefill_ns, each.generate_ns[:, [index]], each.fits[:, [index]]) for each in floor.stored
    )
    return Floor(stored, floor.prefill_ns, floor.generate_ns[[index]], floor.hbm[[index]])


def points_of(case: Case, built: Built, latency: LatencyName, against: AgainstName) -> Iterator[Point]:
    """The points of one setting, from the best against latency to the best in latency."""
    own = search(built.problem)
    if own is None:
        return
    front = trade_off(built.problem, latency, against)
    ends: list[tuple[BestFor, Solution]] = [(against, front[0]), (latency, front[-1]), ("objective", own)]
    layouts = {layout_of(solution): solution for solution in [*front, own]}
    batch = built.problem.batches[0]
    for layout, solution in layouts.items():
        best_for = tuple(name for name, end in ends if layout_of(end) == layout)
        plan = plan_alone(case.pinned(batch), built, solution)
        yield point_of(plan, case.values(batch), best_for)


def trade_off(problem: Problem, latency: LatencyName, against: AgainstName) -> list[Solution]:
    """Every trade-off between the two quantities at one batch of one slice, each a proved optimum.

    The best in `against` is found first; then the best that is faster than the last, until nothing is.
    """
    front: list[Solution] = []
    goal = replace(problem, goal=against)
    found = search(goal)
    while found is not None:
        if front and found.value == front[-1].value:
            front.pop()  # as good, and faster
        front.append(found)
        found = search(replace(goal, below=((latency, latency_of(found, latency)),)))
    return front


def latency_of(solution: Solution, latency: LatencyName) -> Fraction:
    """What a solution takes of a latency, exactly, as `goal_weights` measures it."""
    weights = solution.taken.candidate.problem.goal_weights(latency, solution.taken.candidate.place)
    return solution.taken.quantity(weights) * weights.scale


def layout_of(solution: Solution) -> tuple[int, ...]:
    """What tells solutions of one setting apart."""
    return (solution.taken.candidate.mesh_index, *(choice.index for choice in solution.taken.choices))


def chosen_point(spec: Spec) -> Point | None:
    """What `plan` takes for a spec, or None when it has no plan or is refused."""
    try:
        solved = solve_spec(spec)
    except ShardwrightError:
        return None
    if solved.optimum is None:
        return None
    plan = plan_alone(spec, solved.built, solved.optimum)
    return point_of(plan, {SLICE: plan.slice, BATCH: plan.generate.batch}, ("objective",))


def point_of(plan: Plan, values: Values, best_for: tuple[BestFor, ...]) -> Point:
    """A plan as a point, its numbers with the digits of a plan file."""
    return Point(
        values=values,
        chips=plan.chips,
        fleet=plan.fleet,
        mesh=plan.mesh.axes,
        prefill_rules=plan.prefill.rules,
        generate_rules=plan.generate.rules,
        prefill_copies=plan.prefill.copies,
        prefill_strategy=plan.prefill.strategy,
        generate_strategy=plan.generate.strategy,
        prefill_step_s=rounded(plan.prefill.step_s),
        generate_step_s=rounded(plan.generate.step_s),
        service=Service(**{name: rounded(value) for name, value in dict(plan.service).items() if value is not None}),
        hbm=plan.hbm,
        best_for=best_for,
        accuracy=plan.accuracy,
    )


def rounded(value: float) -> float:
    """The number that a plan file would hold."""
    return float(f"{value:.{DIGITS}g}")


def refused(values: Values, error: ShardwrightError) -> Infeasible:
    """A setting that could not be solved."""
    return Infeasible(values=values, reason=f"{error.heading}: {error}")


def infeasible_at(case: Case, batch: int, problem: Problem) -> Infeasible:
    """Which limits a setting breaks, and by how much."""
    return told(case.pinned(batch), case.values(batch), explain_infeasible(problem))


def told(spec: Spec, values: Values, found: Reasons) -> Infeasible:
    """A conflict as numbers and in one line."""
    return Infeasible(
        values=values,
        conflicts=tuple(conflict_of(need) for need in found.conflict),
        reason="; ".join(sentence.strip() for sentence in conflict_text(spec, found)[1:]),
    )


def conflict_of(need: Need) -> Conflict:
    """A broken limit in bytes or seconds, of a fleet in chips."""
    if need.limit == "fleet_chips":
        return Conflict(limit=need.limit, have=need.have, need=need.need)
    if need.limit == "hbm":
        return Conflict(limit="hbm", have=need.have * UNIT_BYTES, need=need.need * UNIT_BYTES)
    return Conflict(limit=need.limit, have=rounded(need.have / NS), need=rounded(need.need / NS))
