"""How long a plan takes, in a warm process and as a whole command, and how much memory: one row for each case.

The warm plan is the problem built and solved with its proof; the command besides finds runner-ups and writes the plan.
"""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cost_models.chips import chip
from cost_models.torus import legal_slices
from planner.errors import Unsupported
from planner.plan.optimum import optimum_of
from planner.problem.build import Built, build
from planner.problem.problem import MeshTable
from planner.spec import SpecErrors, load_spec

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"
REPEATS = 5
GROWTH = (4, 16, 64, 256, 1024, 4096, 8960)
LLAMA_8B = ("model.config=llama-3.1-8b", "workload.concurrency=512")


RATE = ("workload.requests_per_s=10", "limits.ttft=600 ms")


class Case(NamedTuple):
    """A spec, and the seconds that its plan may take."""

    name: str
    overrides: Sequence[str]
    most_s: float | None = None


def up_to(chip_name: str, most: int) -> str:
    """The override that allows every slice of up to `most` chips."""
    slices = ", ".join(f'"{each}"' for each in legal_slices(chip(chip_name), most))
    return f"hardware={{chip: {chip_name}, slices: [{slices}]}}"


CASES = (
    Case("llama-3.1-70b, v5e 4x4", ["hardware.slice=4x4"], 0.5),
    Case("llama-3.1-70b, v5e to 32 chips", [up_to("v5e", 32)], 2),
    Case("llama-3.1-70b, v5e to 32 chips, latency", [up_to("v5e", 32), "objective=latency"], 2),
    Case("llama-3.1-70b, v5e to 32 chips, both modes", [up_to("v5e", 32), "serving.mode=auto"], 2),
    Case("llama-3.1-70b, v5e to 32, both, 10/s", [up_to("v5e", 32), "serving.mode=auto", *RATE], 2),
    Case("llama-3.1-70b, v5e 16x16, 512 at once", ["hardware.slice=16x16", "workload.concurrency=512"]),
    Case("llama-3.1-8b, v5e to 32 chips, 512 at once", [up_to("v5e", 32), *LLAMA_8B]),
    Case("deepseek-v3, v5p to 256 chips", [up_to("v5p", 256), "model.config=deepseek-v3"], 5),
    Case("llama-3.1-405b, v5p to 8960 chips", [up_to("v5p", 8960), "model.config=llama-3.1-405b"], 15),
    Case(
        "llama-3.1-405b, v5p to 8960 chips, latency",
        [up_to("v5p", 8960), "model.config=llama-3.1-405b", "objective=latency"],
        15,
    ),
)


def growth() -> Iterator[Case]:
    """One model on ever more slices."""
    for most in GROWTH:
        yield Case(f"llama-3.1-70b, v5p to {most} chips", [up_to("v5p", most)])


class Timed(NamedTuple):
    """The median of several plans in this process, and what the search did."""

    warm_s: float
    slices: int
    meshes: int
    priced: int
    candidates: int
    solved: int
    proved: bool


def timed(overrides: Sequence[str]) -> Timed:
    """The times of one case."""
    spec = load_spec(SPEC, ["serving.strategies=all", *overrides])
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        built = build(spec)
        solution = optimum_of(built)
        times.append(time.perf_counter() - started)
    assert solution is not None
    tables = tables_of(built)
    return Timed(
        statistics.median(times),
        len({table.slice for table in tables}),
        len(tables),
        sum("blocks" in vars(table) for table in tables),
        solution.candidates,
        solution.solved,
        solution.bound == solution.value,
    )


def tables_of(built: Built) -> list[MeshTable]:
    """The tables of all modes that may be taken."""
    pools = (pool for apart in built.apart for pool in (*apart.prefill, *apart.generate))
    together = built.problem.meshes if built.together else ()
    return [*together, *(table for pool in pools for table in pool.problem.meshes)]


def command(overrides: Sequence[str]) -> tuple[float, float]:
    """Seconds and peak MiB of the whole command. (What getrusage says of a child starts with its parent's peak.)"""
    flags = [part for override in ["serving.strategies=all", *overrides] for part in ("--set", override)]
    code = (
        "import sys; from planner.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", str(SPEC), *flags], cwd=ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    return seconds, int(done.stderr.split()[-1]) / 1024


def show(case: Case) -> None:
    """Print one row; a model that is not planned yet says so."""
    try:
        found = timed(case.overrides)
    except (Unsupported, SpecErrors) as reason:
        print(f"{case.name:<44}not planned: {reason}", flush=True)
        return
    whole_s, mebibytes = command(case.overrides)
    most = "" if case.most_s is None else f"<= {case.most_s:g} s"
    print(
        f"{case.name:<44}{found.slices:>7}{found.meshes:>8}{found.priced:>8}{found.candidates:>12}{found.solved:>8}"
        f"{found.warm_s:>8.2f} s {most:<9}{whole_s:>6.2f} s{mebibytes:>6.0f} MiB  "
        f"{'optimal' if found.proved else 'NOT PROVED'}",
        flush=True,
    )


def main() -> None:
    """Print the table. `meshes` counts each once for every number of prompts read together."""
    timed(CASES[0].overrides)
    print(
        f"{'case':<44}{'slices':>7}{'meshes':>8}{'priced':>8}{'candidates':>12}{'solved':>8}"
        f"{'warm plan':>10} {'target':<9}{'command':>8}{'peak':>10}  status"
    )
    for case in (*CASES, *growth()):
        show(case)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB peak")


if __name__ == "__main__":
    main()
