"""What plans compile to: for each step its collectives, HBM bytes over the least, temporaries and seconds of compiling.

A row fails when something is not as planned, or temporaries are over 2 % of HBM in generate and 10 % in prefill. Other
goals are told where they are missed: HBM bytes of generate at most 1.10 times weights and KV once (v5p keeps rows of
activations in HBM, which count), 30 s for a program. `make audit` runs this.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from audits import Case, cases
from peer import peer_rows

from planner.errors import CannotRun
from planner.plan.schema import Plan
from planner.plan.units import bytes_text, seconds_text
from planner.render.model import RenderError
from planner.verify import StepAudit, verify_plan

MOST_OVER_LEAST = 1.10
MOST_TEMPORARIES = {"prefill": 0.10, "insert": 0.02, "generate": 0.02}
"""Of a chip's HBM."""
MOST_SECONDS = 30.0
HEADER = (
    f"{'plan':<36}{'step':<14}{'compile':>9}{'as planned':>12}{'sent':>10}{'HBM bytes':>11}{'/ least':>9}{'temp.':>9}"
)


def row(name: str, step: StepAudit) -> str:
    """A step on one line."""
    matched = f"{sum(row.status == 'matched' for row in step.rows)} of {len(step.rows)}"
    sent = sum(row.found.bytes * row.found.count for row in step.rows if row.found)
    moved = (
        f"{bytes_text(step.traffic.rows[-1].found):>11}{step.traffic.over_least:>9.3f}" if step.traffic else " " * 20
    )
    return (
        f"{name:<36}{step.step.name:<14}{seconds_text(step.seconds):>9}{matched:>12}{bytes_text(sent):>10}{moved}"
        f"{bytes_text(step.temporaries):>9}"
    )


def missed(plan: Plan, step: StepAudit) -> Iterator[str]:
    """The goals that a step misses, besides those of its plan."""
    share = step.temporaries / plan.at(step.step.phase).hbm.capacity
    if share > MOST_TEMPORARIES[step.step.phase]:
        yield f"{step.step.name}: temporaries are {share:.1%} of HBM"


def notes(step: StepAudit) -> Iterator[str]:
    """What is worth knowing of a step, and the goals it misses; a busy machine makes it slow to compile."""
    yield from step.notes
    if step.step.phase == "generate" and step.traffic and step.traffic.over_least > MOST_OVER_LEAST:
        yield f"generate: {step.traffic.over_least:.2f} times the least HBM bytes, where {MOST_OVER_LEAST} is the goal"
    if step.seconds > MOST_SECONDS:
        yield f"{step.step.name}: {step.seconds:.0f} s to compile, where {MOST_SECONDS:.0f} s is the goal"


def report(case: Case, all_buckets: bool) -> bool:
    """Print the rows of a case and what is wrong with it; whether nothing is."""
    plan = case.plan()
    try:
        audit = verify_plan(plan, buckets=None if all_buckets else [plan.prefill.tokens])
    except RenderError as error:
        print(f"{case.name:<36}refused: {error}", flush=True)
        return False
    for step in audit.steps:
        print(row(case.name, step))
    wrong = [*audit.differences, *(each for step in audit.steps for each in missed(plan, step))]
    for each in wrong:
        print(f"    {each}")
    for note in dict.fromkeys(note for step in audit.steps for note in notes(step)):
        print(f"    note: {note}")
    sys.stdout.flush()
    return not wrong


def main() -> int:
    """Print the table; 1 when a case fails."""
    options = arguments()
    started, failed = time.perf_counter(), []
    chosen = [case for group in options.groups for case in cases(group) if options.only in case.name]
    print(HEADER)
    for case in chosen:
        if not report(case, options.all_buckets):
            failed.append(case.name)
        if options.peer and case.spec in ("llama_3_1_8b_v5e_2x4.yaml", "llama_3_1_70b_v5e_4x4.yaml") and not case.set:
            try:
                print(*peer_rows(options.peer, case.plan()), sep="\n", flush=True)
            except CannotRun as error:
                print(f"    peer: {error}", flush=True)
    count = len(chosen) - len(failed)
    print(f"{count} of {len(chosen)} plans pass, in {seconds_text(time.perf_counter() - started)}")
    for name in failed:
        print(f"    failed: {name}")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """What is compiled, and beside what."""
    found = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    found.add_argument("--groups", nargs="+", default=["large"], choices=["small", "large"])
    found.add_argument("--only", default="", metavar="TEXT", help="plans with this in their name")
    found.add_argument("--all-buckets", action="store_true", help="compile prefill for every bucket")
    found.add_argument(
        "--peer", type=Path, metavar="DIR", help="a checkout of jax-ml/jax-llm-examples, compiled beside"
    )
    return found.parse_args()


if __name__ == "__main__":
    sys.exit(main())
