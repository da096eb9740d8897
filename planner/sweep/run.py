"""A grid solved by several processes: the same answer, in the same order, whatever their number."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait

from cost_models.chips import chip
from cost_models.torus import parse_slice
from planner.errors import CannotRun, Unsupported
from planner.sweep.frontier import marked
from planner.sweep.grid import Case, Grid
from planner.sweep.schema import AgainstName, LatencyName, Point, Sweep
from planner.sweep.solve import Solved, chosen_point, solve_case

Advance = Callable[[int], None]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_sweep(
    grid: Grid,
    latency: LatencyName = "tpot",
    against: AgainstName | None = None,
    jobs: int = 1,
    advance: Advance = lambda settings: None,
) -> Sweep:
    """Every setting solved, the frontier marked, and what `plan` takes; `advance` is told of settings as they end.

    `against` is throughput when that is the spec's objective, and else cost. Raises `Unsupported` when that is the
    answer to every setting.
    """
    against = against or ("throughput" if grid.spec.objective == "throughput" else "cost")
    jobs = min(jobs, len(grid.cases))
    solved, chosen = (
        solve_here(grid, latency, against, advance)
        if jobs == 1
        else solve_in_processes(grid, latency, against, jobs, advance)
    )
    points = [point for each in solved for point in each.points]
    infeasible = tuple(reason for each in solved for reason in each.infeasible)
    heading = f"{Unsupported.heading}: "
    if not points and all(each.reason.startswith(heading) for each in infeasible):
        raise Unsupported(infeasible[0].reason.removeprefix(heading))
    return Sweep(
        name=grid.spec.name,
        chip=grid.spec.hardware.chip,
        objective=grid.spec.objective,
        latency=latency,
        against=against,
        limits={name: value for name, value in grid.spec.limits if value is not None},
        over=grid.over,
        settings=grid.settings,
        points=marked(with_chosen(grid, solved, chosen), latency, against),
        infeasible=infeasible,
        chosen=chosen and chosen.model_copy(update={"chosen": True}),
        accuracy=tuple(dict.fromkeys(point.accuracy for point in points)),
    )


def with_chosen(grid: Grid, solved: Sequence[Solved], chosen: Point | None) -> list[Point]:
    """All points, the one that `plan` takes marked where it is among them."""
    points = []
    for case, each in zip(grid.cases, solved, strict=True):
        for point in each.points:
            same = case.own and chosen is not None and point.layout == chosen.layout
            points.append(point.model_copy(update={"chosen": True}) if same else point)
    return points


def solve_here(
    grid: Grid, latency: LatencyName, against: AgainstName, advance: Advance
) -> tuple[list[Solved], Point | None]:
    """Case after case in this process."""
    solved = []
    for case in grid.cases:
        solved.append(solve_case(case, latency, against))
        advance(len(case.batches))
    return solved, chosen_point(grid.spec)


def solve_in_processes(
    grid: Grid, latency: LatencyName, against: AgainstName, jobs: int, advance: Advance
) -> tuple[list[Solved], Point | None]:
    """Cases in `jobs` processes, the largest first so that none is left for the end."""
    with workers(jobs) as pool:
        futures: dict[Future[Solved], int] = {}
        with interrupts_held():
            chosen = pool.submit(chosen_point, grid.spec)
            for index in sorted(range(len(grid.cases)), key=lambda index: -work_of(grid.cases[index])):
                futures[pool.submit(solve_case, grid.cases[index], latency, against)] = index
        solved: dict[int, Solved] = {}
        for future in as_completed(futures):
            index = futures[future]
            solved[index] = future.result()
            advance(len(grid.cases[index].batches))
        return [solved[index] for index in range(len(grid.cases))], chosen.result()


def work_of(case: Case) -> int:
    """What a case costs to solve, roughly: larger slices have more meshes."""
    return parse_slice(chip(case.spec.hardware.chip), case.slice).chips


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool that leaves no process behind, however this one ends."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=follow_parent)
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise CannotRun("a process of the sweep ended early, perhaps for lack of memory; try --jobs 1") from None
        raise
    finally:
        pool.shutdown()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Interrupts wait until the end, and processes started meanwhile never see one: a terminal sends it to all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent() -> None:
    """Leave interrupts to the parent, and end with it even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
