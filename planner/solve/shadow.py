"""What a limit is worth: what a little more of it would save, and how much of it the optimum leaves."""

from dataclasses import dataclass, replace

from planner.problem.problem import LimitName, Problem
from planner.solve.search import Solution, search


@dataclass(frozen=True)
class Better:
    """A better plan that more of a limit would allow: what it needs, and the share of the goal that it saves."""

    need: int
    saves: float


@dataclass(frozen=True)
class Shadow:
    """One limit in the problem's units (64 KiB; nanoseconds, TPOT for one token).

    `used` is what the optimum takes of it. `step_saves` is the share of the goal that `step` more of the limit saves.
    `first` is the least that a better plan needs, `free` the optimum without the limit; None where there is none.
    """

    limit: LimitName
    have: int
    used: int
    step: int
    step_saves: float
    first: Better | None = None
    free: Better | None = None

    @property
    def binds(self) -> bool:
        """Whether the limit rules out a better plan."""
        return self.free is not None


def shadow_of(problem: Problem, optimum: Solution, name: LimitName, step: int) -> Shadow:
    """The shadow of one limit of a problem, by solving it again with the limit moved, or left out."""
    have, used = problem.limits.named()[name], quantity_of(optimum, name)
    without = replace(problem, limits=problem.limits.without(name))
    free = search(without)
    assert free is not None, "what keeps every limit keeps all but one"
    if free.value >= optimum.value:
        return Shadow(name, have, used, step, 0.0)

    def saved(limit: int) -> float:
        moved = search(replace(problem, limits=replace(problem.limits, **{name: limit})))
        assert moved is not None, "a looser limit leaves the optimum"
        return share_saved(moved, optimum)

    better = replace(without, goal=name, below=((problem.goal, optimum.value),))
    nearest = search(better)
    assert nearest is not None, "the optimum without the limit is better"
    need = quantity_of(nearest, name)
    return Shadow(
        name,
        have,
        used,
        step,
        saved(have + step),
        Better(need, saved(need)),
        Better(quantity_of(free, name), share_saved(free, optimum)),
    )


def quantity_of(solution: Solution, name: LimitName) -> int:
    """What a solution needs of a limit, rounded up to the limit's unit."""
    candidate = solution.taken.candidate
    weights = candidate.problem.goal_weights(name, candidate.place)
    return candidate.problem.units(name, solution.taken.quantity(weights) * weights.scale)


def share_saved(solution: Solution, optimum: Solution) -> float:
    """How much cheaper a solution is than the optimum, as a share of the optimum."""
    return float((optimum.value - solution.value) / optimum.value)
