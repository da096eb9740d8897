"""How long a plan takes, in a warm process and as a whole command, and how much memory: one row for each case."""

import resource
import subprocess
import sys
import time
from pathlib import Path

from planner.plan.make import make_plan
from planner.spec import load_spec

ROOT = Path(__file__).resolve().parents[1]
L70B = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"
REPEATS = 5

CASES: dict[str, list[str]] = {
    "70B, v5e 4x4": [],
    "70B, v5e 2x4 + 4x4 + 4x8": ["hardware={chip: v5e, slices: [2x4, 4x4, 4x8]}"],
    "70B, v5e 16x16, concurrency 512": ["hardware.slice=16x16", "workload.concurrency=512"],
    "70B, v5p 4x4x4, concurrency 256": ["hardware={chip: v5p, slices: [4x4x4]}", "workload.concurrency=256"],
    "70B, v5e 4x4, objective latency": ["objective=latency"],
    "405B, v5e 16x16": ["model.config=llama-3.1-405b", "hardware.slice=16x16"],
}


def warm_s(overrides: list[str]) -> tuple[float, str]:
    """The median of several plans in this process, and the proof's status."""
    spec = load_spec(L70B, overrides)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        plan = make_plan(spec)
        times.append(time.perf_counter() - started)
    return sorted(times)[REPEATS // 2], plan.proof.status


def command(overrides: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of the whole command."""
    flags = [part for override in overrides for part in ("--set", override)]
    code = (
        "import resource, sys; from planner.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", str(L70B), *flags], cwd=ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    return seconds, int(done.stderr.split()[-1]) / 1024


def main() -> None:
    """Print the table."""
    warm_s([])
    print(f"{'case':<36}{'warm plan':>12}{'command':>12}{'peak':>12}  status")
    for name, overrides in CASES.items():
        seconds, status = warm_s(overrides)
        whole_s, mebibytes = command(overrides)
        print(f"{name:<36}{seconds:>10.2f} s{whole_s:>10.2f} s{mebibytes:>8.0f} MiB  {status}")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB peak")


if __name__ == "__main__":
    main()
