"""How long a review takes: two solved plans, and two specs of a 70B model with the causes of every decision.

Each row in a warm process, and as a whole command less what a bare interpreter takes to start; seconds on the clock and
of the processor, which a busy machine changes less. Solves are those of specs between base and head, besides these two.
"""

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from planner.commands import DiffRequest, diff_command
from planner.diff import attribute
from planner.plan import make
from planner.plan.file import plan_to_yaml
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import Spec, load_spec, spec_to_yaml

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"
REPEATS = 5
SLICES = ("hardware.slice=4x8",)
TWO = (*SLICES, "workload.concurrency=48")
THREE = (*TWO, "model.kv_cache.dtype=int8")
FOUR = (*THREE, "limits.tpot=25 ms")


class Case(NamedTuple):
    """Two sides, and the most seconds that their difference may take in a warm process."""

    name: str
    overrides: Sequence[str]
    plans: bool
    most_s: float


CASES = (
    Case("two plans of 70B, another slice", SLICES, True, 0.3),
    Case("two plans of 70B, four inputs", FOUR, True, 0.3),
    Case("two specs of 70B, one input", SLICES, False, 5),
    Case("two specs of 70B, two inputs", TWO, False, 5),
    Case("two specs of 70B, three inputs", THREE, False, 5),
    Case("two specs of 70B, four inputs", FOUR, False, 5),
)


def sides(case: Case, folder: Path) -> Iterator[str]:
    """The files of both sides."""
    for name, overrides in (("base", ()), ("head", case.overrides)):
        spec, path = load_spec(SPEC, overrides), folder / f"{name}.yaml"
        path.write_text(plan_to_yaml(make_plan(spec)) if case.plans else spec_to_yaml(spec), encoding="utf-8")
        yield str(path)


class Taken(NamedTuple):
    """Seconds on the clock, and of the processor with those of child processes."""

    clock_s: float
    processor_s: float

    def less(self, other: "Taken") -> "Taken":
        """What is left when some of it is not counted."""
        return Taken(self.clock_s - other.clock_s, self.processor_s - other.processor_s)


def taken(work: Callable[[], object]) -> Taken:
    """The medians of several runs."""
    runs = []
    for _ in range(REPEATS):
        clock, used = time.perf_counter(), sum(os.times()[:4])
        work()
        runs.append((time.perf_counter() - clock, sum(os.times()[:4]) - used))
    clocks, processor = zip(*runs, strict=True)
    return Taken(statistics.median(clocks), statistics.median(processor))


def warm(base: str, head: str) -> tuple[Taken, int]:
    """The time of the command's work in this process, and the specs between that are solved."""
    solved = 0
    solve = make.bare_plan

    def counted(spec: Spec) -> Plan | None:
        nonlocal solved
        solved += 1
        return solve(spec)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            diff_command(base, head, DiffRequest("markdown"))

    with patch.object(attribute, "bare_plan", counted):
        found = taken(run)
    return found, solved // REPEATS


def command(*arguments: str) -> Taken:
    """The time of a Python process."""
    return taken(lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True))


def main() -> None:
    """Print the table."""
    bare = command("-c", "pass")
    print(f"{'case':<34}{'warm':>8}{'':<11}{'processor':>10}{'command':>10}{'processor':>11}{'solves':>8}")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            base, head = sides(case, Path(folder))
            inside, solved = warm(base, head)
            whole = command("-m", "planner", "diff", base, head, "--format", "markdown").less(bare)
        print(
            f"{case.name:<34}{inside.clock_s:>6.3f} s <= {case.most_s:<4g} s{inside.processor_s:>8.3f} s"
            f"{whole.clock_s:>8.3f} s{whole.processor_s:>9.3f} s{solved:>8}",
            flush=True,
        )
    print(f"a bare interpreter starts in {bare.clock_s:.3f} s, which commands are told without")


if __name__ == "__main__":
    main()
