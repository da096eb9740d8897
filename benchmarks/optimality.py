"""Optima of the solver against enumeration without it: whole models and slices, every objective, limits that bind.

The enumeration prices every mesh and number of prompts and goes through every combination of options of each candidate
and layout whose bound is below the best; it uses neither floors, nor dominance, nor CP-SAT.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from planner.problem.build import build
from planner.problem.pools import Apart
from planner.problem.problem import Limits, Problem
from planner.solve.fleet import search_fleet
from planner.solve.search import search
from planner.solve.shadow import quantity_of
from planner.solve.verify import exact_fleet, exact_optimum, faults
from planner.spec import load_spec

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"
GOALS = ("cost", "throughput", "latency")
LIMITED = ("hbm", "ttft", "tpot")
SPECS: dict[str, list[str]] = {
    "llama-3.1-70b, v5e 4x4": [],
    "llama-3.1-70b, v5e 2x4 4x4": ["hardware.slices=[2x4, 4x4]"],
    "llama-3.1-70b bf16, v5p 2x2x4": ["hardware={chip: v5p, slices: [2x2x4]}", "model.weights.dtype=bf16"],
    "llama-3.1-70b, v6e 4x4": ["hardware={chip: v6e, slices: [4x4]}", "workload.concurrency=48"],
    "llama-3.1-70b, v5e 4x4, book": ["hardware.stack=book"],
    "llama-3.1-70b, v5e 4x4, long": ["workload.prompt_tokens={mean: 6000, p95: 8192}", "workload.concurrency=6"],
    "llama-3.1-405b, v5p 4x4x4": ["model.config=llama-3.1-405b", "hardware={chip: v5p, slices: [4x4x4]}"],
    "llama-3.1-8b, v5e 2x2 2x4": ["model.config=llama-3.1-8b", "hardware.slices=[2x2, 2x4]"],
    "llama-2-7b, v4 2x2x2": ["model.config=llama-2-7b", "hardware={chip: v4, slices: [2x2x2]}"],
    "mistral-7b-v0.3, h100 8": ["model.config=mistral-7b-v0.3", "hardware={chip: h100, slices: ['8']}"],
    "llama-3.2-1b, v5e 1x1 2x2": ["model.config=llama-3.2-1b", "hardware.slices=[1x1, 2x2]"],
    "llama-3.1-8b, v5e to 4x4, 128": [
        "model.config=llama-3.1-8b",
        "hardware.slices=[1x1, 2x2, 2x4, 4x4]",
        "workload.concurrency=128",
    ],
    "llama-3.1-8b, h200 4 8": ["model.config=llama-3.1-8b", "hardware={chip: h200, slices: ['4', '8']}"],
    "llama-2-70b, v5e 4x8": ["model.config=llama-2-70b", "hardware.slice=4x8"],
    "llama-2-70b, v4 2x4x4": ["model.config=llama-2-70b", "hardware={chip: v4, slices: [2x4x4]}"],
    "llama-3.1-70b, v5e 16x16, 256": ["hardware.slice=16x16", "workload.concurrency=256"],
    "llama-3.1-70b, v5p 4x8x8": ["hardware={chip: v5p, slices: [4x8x8]}"],
    "llama-3.1-405b, v5p 8x8x8": ["model.config=llama-3.1-405b", "hardware={chip: v5p, slices: [8x8x8]}"],
    "llama-3.1-405b, v6e 8x8": ["model.config=llama-3.1-405b", "hardware={chip: v6e, slices: [8x8]}"],
    "smollm2-135m, cpu 2x4": [
        "model.config=smollm2-135m",
        "hardware={chip: cpu, slices: [2x4]}",
        "workload.concurrency=8",
    ],
}


class Row(NamedTuple):
    """One comparison: what the solver found, and what the enumeration did; None where nothing fits."""

    solved: Fraction | None
    exact: Fraction | None
    sound: bool
    search_s: float
    exact_s: float

    @property
    def gap(self) -> float:
        """How far the solver is from the optimum, as a share of it; endless where only one found a plan."""
        if self.solved is None or self.exact is None:
            return 0.0 if self.solved == self.exact else float("inf")
        return float(self.solved / self.exact - 1)


def tightened(problem: Problem, share: Fraction) -> Problem:
    """The problem with limits so far of the way from the least possible to what the free optimum takes.

    Latency is TTFT and TPOT together, so one of them alone is limited.
    """
    free = replace(problem, limits=Limits())
    best = search(free)
    assert best is not None
    limits = {}
    for name in LIMITED[:2] if problem.goal == "latency" else LIMITED:
        nearest = search(replace(free, goal=name))
        assert nearest is not None
        least, taken = quantity_of(nearest, name), quantity_of(best, name)
        limits[name] = least + int(share * max(taken - least, 0))
    return replace(problem, limits=Limits(**limits))


def cases() -> Iterator[tuple[str, str, str, Problem]]:
    """Every spec with every goal, once as it is and once with limits that bind."""
    for name, overrides in SPECS.items():
        for goal in GOALS:
            spec = load_spec(SPEC, ["serving.strategies=all", f"objective={goal}", *overrides])
            problem = build(spec).problem
            yield name, goal, "HBM", problem
            yield name, goal, "binding", tightened(problem, Fraction(3, 4))


FLEETS: dict[str, list[str]] = {
    "llama-3.1-70b, v5e 2x4 4x4, 10/s": ["hardware.slices=[2x4, 4x4]", "workload.requests_per_s=10"],
    "llama-3.1-8b, v5e 1x1 2x2, 50/s": [
        "model.config=llama-3.1-8b",
        "hardware.slices=[1x1, 2x2]",
        "workload={prompt_tokens: {mean: 1024, p95: 2048}, output_tokens: {mean: 256, p95: 512}, requests_per_s: 50}",
    ],
    "llama-3.1-70b, v5e 2x4 4x4, closed": ["hardware={chip: v5e, slices: [2x4, 4x4], fleet_chips: 32}"],
}
"""Specs of fleets, for slices that take turns and for slices of each phase."""


def fleets() -> Iterator[tuple[str, str, str, Row]]:
    """Fleets with limits that bind and without, in both modes; a closed loop has a fleet for each phase only."""
    for name, overrides in FLEETS.items():
        for limits, told in (("HBM", []), ("binding", ["limits={ttft: 600 ms, tpot: 25 ms}"])):
            for mode in ("interleaved", "disaggregated"):
                if mode == "disaggregated" or "closed" not in name:
                    given = ["serving={mode: " + mode + "}", "workload.concurrency=64", *overrides, *told]
                    built = build(load_spec(SPEC, given))
                    row = compared(built.problem) if mode == "interleaved" else compared_fleet(built.apart[0])
                    yield f"{name}", mode, limits, row


def compared_fleet(apart: Apart) -> Row:
    """One comparison of fleets with slices for each phase."""
    started = time.perf_counter()
    solution = search_fleet(apart)
    solved = time.perf_counter()
    exact = exact_fleet(apart)
    value = None if solution is None else Fraction(solution.value)
    sound = solution is None or not (faults(solution.prefill) or faults(solution.generate))
    return Row(value, None if exact is None else Fraction(exact), sound, solved - started, time.perf_counter() - solved)


def compared(problem: Problem) -> Row:
    """One comparison."""
    started = time.perf_counter()
    solution = search(problem)
    solved = time.perf_counter()
    exact = exact_optimum(problem)
    value, sound = (solution.value, not faults(solution.taken)) if solution else (None, True)
    return Row(value, exact, sound, solved - started, time.perf_counter() - solved)


def main() -> int:
    """Print the table; 1 if any optimum is not confirmed."""
    rows = []
    print(f"{'spec':<36}{'goal or mode':<14}{'limits':<9}{'search':>10}{'enumerated':>12}{'gap':>8}")
    slices = ((name, goal, limits, compared(problem)) for name, goal, limits, problem in cases())
    for name, goal, limits, row in chain(slices, fleets()):
        rows.append(row)
        found = f"{row.gap:>8.2%}" if row.exact is not None or row.solved is not None else "  no plan"
        print(f"{name:<36}{goal:<14}{limits:<9}{row.search_s:>8.2f} s{row.exact_s:>10.2f} s{found}", flush=True)
    equal = sum(row.solved == row.exact and row.sound for row in rows)
    planned = sum(row.exact is not None for row in rows)
    print(f"{equal} of {len(rows)} confirmed over {len(SPECS) + len(FLEETS)} specs, {planned} with a plan; ", end="")
    print(f"largest gap {max(row.gap for row in rows):.2%}")
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
