"""What is said of a sweep in words, in text and on the page."""

from planner.plan.schema import Strategy
from planner.sweep.frontier import MEASURES
from planner.sweep.over import BATCH, SLICE
from planner.sweep.schema import Point, Sweep


def headline(sweep: Sweep) -> str:
    """What is swept: `NAME on v5e: TPOT against cost`."""
    return f"{sweep.name} on {sweep.chip}: {MEASURES[sweep.latency].title} against {sweep.against}"


def counts_text(sweep: Sweep) -> str:
    """How many settings and points there are, and what became of them."""
    feasible = sweep.settings - len(sweep.infeasible)
    return (
        f"{plural(sweep.settings, 'setting')}: {feasible} feasible, {len(sweep.infeasible)} infeasible; "
        f"{plural(len(sweep.points), 'point')}: {len(sweep.frontier)} on the frontier, {len(sweep.dominated)} dominated"
    )


def plural(count: int, noun: str) -> str:
    """`1 point`, `2 points`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def others_of(sweep: Sweep) -> list[str]:
    """What is varied besides slice and batch."""
    return [name for name in sweep.over if name not in (SLICE, BATCH)]


def strategy_text(strategy: Strategy, with_cache: bool = False) -> str:
    """The strategies of attention, KV cache, MLP and experts without their axes: `1d, heads_x_batch, 1d`."""
    blocks = ("attention", *(("kv_cache",) if with_cache else ()), "mlp", "experts")
    strategies = dict(strategy)
    return ", ".join(strategies[block].partition(":")[0] for block in blocks if block in strategies)


def best_for_text(point: Point) -> str:
    """Which end of its setting's trade-off a point is: `TPOT, cost`, or `between` both."""
    ends = [name.upper() if name in ("tpot", "ttft") else name for name in point.best_for if name != "objective"]
    return ", ".join(ends) or ("objective" if point.best_for else "between")
