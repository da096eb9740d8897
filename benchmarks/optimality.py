"""Optima of the solver against enumeration without the solver, on real specs with and without binding limits."""

import time
from dataclasses import replace
from pathlib import Path

from planner.problem.build import build
from planner.problem.problem import Limits, Problem
from planner.solve.search import search
from planner.solve.verify import exact_optimum, faults
from planner.spec import load_spec

ROOT = Path(__file__).resolve().parents[1]
SPECS = sorted((ROOT / "docs" / "examples").glob("*.yaml"))
GOALS = ("cost", "throughput", "latency")


def tightened(problem: Problem, share: float) -> Problem:
    """The problem with every limit `share` of the way from the least possible to what the free optimum takes."""
    free = replace(problem, limits=Limits())
    best = search(free)
    assert best is not None
    weights = {name: free.goal_weights(name, 1, best.taken.candidate.batch) for name in ("hbm", "ttft")}
    limits = {}
    for name in ("hbm", "ttft"):
        least = search(replace(free, goal=name))
        assert least is not None
        taken = best.taken.quantity(weights[name])
        limits[name] = least.value + int(share * max(taken - least.value, 0))
    return replace(problem, limits=Limits(**limits))


def main() -> None:
    """Print the table."""
    print(f"{'spec':<28}{'goal':<12}{'limits':<10}{'search':>10}{'enumerated':>12}  equal")
    for path in SPECS:
        for goal in GOALS:
            problem = replace(build(load_spec(path)).problem, goal=goal)
            for label, case in (("HBM", problem), ("binding", tightened(problem, 0.5))):
                started = time.perf_counter()
                solution = search(case)
                solved = time.perf_counter()
                exact = exact_optimum(case)
                enumerated = time.perf_counter()
                equal = (solution.value if solution else None) == exact and not (solution and faults(solution.taken))
                row = f"{solved - started:>8.2f} s{enumerated - solved:>10.2f} s  {'yes' if equal else 'NO'}"
                print(f"{path.stem:<28}{goal:<12}{label:<10}{row}")


if __name__ == "__main__":
    main()
