"""Predictions against published measurements: errors by group, choices in rank sets, what fits, what is skipped.

The constants are those of cost_models/measured.toml, most of them fitted to the same cases: benchmarks/fit.py prints
the errors on cases left out. Beside ours stands a bare roofline: peak rates, perfectly split, no communication.
"""

import argparse
import json
import statistics
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from case import HBM_RESERVE, Case
from measurements import DEFAULT_FILE, load_rows, read
from memory_cases import MemoryCase, read_memory

from cost_models.stacks import stack

CLOSE = 0.05
"""A choice within this fraction of the best measured one is as good as the best."""


@dataclass(frozen=True)
class Scored:
    """One case with what is predicted for it."""

    case: Case
    predicted_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_s / self.case.measured_s - 1

    @property
    def bare_error(self) -> float:
        """The same of the bare roofline."""
        return self.case.bare_s / self.case.measured_s - 1


@dataclass(frozen=True)
class Summary:
    """Errors of some cases. Fractions, not percent."""

    label: str
    n: int
    median: float
    mape: float
    bare_mape: float
    n_sane: int
    sane_mape: float | None
    worst: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Choice:
    """One rank set: whether the predicted best is the best measured, and how much slower it was measured."""

    rank_set: str
    chosen: str
    best: str
    regret: float
    pathological: bool


@dataclass(frozen=True)
class Fits:
    """How many runs are told rightly to fit or not to fit."""

    ran: int
    ran_right: int
    refused: int
    refused_right: int
    wrong: tuple[str, ...]


def score(cases: Iterable[Case], name: str | None = None) -> list[Scored]:
    """Every case priced by the constants of its stack, or by those of the stack called `name`."""
    return [Scored(case, case.seconds(stack(name or case.stack_name))) for case in cases]


def summaries(scored: Sequence[Scored]) -> list[Summary]:
    """Errors by group, phase and tier; collectives also by size."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for each in scored:
        groups[_label(each.case)].append(each)
    return [_summary(label, groups[label]) for label in sorted(groups)]


def _label(case: Case) -> str:
    size = "" if case.bytes_moved is None else (", 1 MB and more" if case.bytes_moved >= 1e6 else ", below 1 MB")
    return f"{case.group}, {case.phase}, tier {case.tier}{size}{', experts' if case.sparse else ''}"


def _summary(label: str, scored: Sequence[Scored]) -> Summary:
    sane = [abs(each.error) for each in scored if not each.case.pathological]
    worst = sorted(scored, key=lambda each: -abs(each.error))[:3]
    return Summary(
        label,
        len(scored),
        statistics.median(each.error for each in scored),
        statistics.mean(abs(each.error) for each in scored),
        statistics.mean(abs(each.bare_error) for each in scored),
        len(sane),
        statistics.mean(sane) if sane else None,
        tuple((each.case.id, each.error) for each in worst),
    )


def choices(scored: Sequence[Scored]) -> list[Choice]:
    """The predicted best of every rank set with two cases or more."""
    sets: dict[str, list[Scored]] = defaultdict(list)
    for each in scored:
        if each.case.rank_set:
            sets[each.case.rank_set].append(each)
    return [_choice(name, sets[name]) for name in sorted(sets) if len(sets[name]) > 1]


def _choice(name: str, scored: Sequence[Scored]) -> Choice:
    chosen = min(scored, key=lambda each: each.predicted_s)
    best = min(scored, key=lambda each: each.case.measured_s)
    regret = chosen.case.measured_s / best.case.measured_s - 1
    return Choice(name, chosen.case.id, best.case.id, regret, any(each.case.pathological for each in scored))


def fits(cases: Iterable[Case], memory: Iterable[MemoryCase]) -> Fits:
    """Runs of a stated batch that took place must fit; those reported not to fit must not."""
    told = {case.id: (True, case.hbm_share < 1 - HBM_RESERVE) for case in cases if case.hbm_share is not None}
    told |= {case.id: (bool(case.measured), bool(case.predicted)) for case in memory if case.quantity == "fits"}
    wrong = tuple(name for name, (measured, predicted) in told.items() if measured != predicted)
    ran = [predicted for measured, predicted in told.values() if measured]
    refused = [not predicted for measured, predicted in told.values() if not measured]
    return Fits(len(ran), sum(ran), len(refused), sum(refused), wrong)


def call_ms(cases: Sequence[Case]) -> tuple[float, float]:
    """Milliseconds of one warm evaluation, the mean and the slowest of `cases`; a case may hold several steps."""
    stacks = {name: stack(name) for name in {case.stack_name for case in cases}}
    taken = [0.0]
    for case in cases:
        started = time.perf_counter()
        case.seconds(stacks[case.stack_name])
        taken.append(time.perf_counter() - started)
    return sum(taken) / max(1, len(cases)) * 1e3, max(taken) * 1e3


def by_reason(skipped: dict[str, str]) -> dict[str, list[str]]:
    """Ids under the reason for which they are skipped, the most common reason first."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in skipped.items():
        reasons[reason].append(name)
    return dict(sorted(reasons.items(), key=lambda row: (-len(row[1]), row[0])))


def print_summaries(rows: Sequence[Summary]) -> None:
    """The table of errors."""
    print(f"{'group, phase, tier':<48}{'n':>4}{'median':>9}{'MAPE':>8}{'roofline':>10}{'listed out':>16}  worst")
    for row in rows:
        sane = "-" if row.sane_mape is None else f"{row.sane_mape:.1%} of {row.n_sane}"
        worst = ", ".join(f"{name} {error:+.0%}" for name, error in row.worst)
        print(f"{row.label:<48}{row.n:>4}{row.median:>+9.1%}{row.mape:>8.1%}{row.bare_mape:>10.1%}{sane:>16}  {worst}")


def print_choices(rows: Sequence[Choice]) -> None:
    """Choices by kind of rank set, and every set in which the choice costs more than CLOSE."""
    kinds: dict[str, list[Choice]] = defaultdict(list)
    for row in rows:
        kinds["-".join(row.rank_set.split("-")[:2])].append(row)
    print(f"\n{'rank sets':<24}{'sets':>5}{'best':>7}{'within 5 %':>12}{'mean regret':>13}")
    for kind, mine in [
        *sorted(kinds.items()),
        ("all", list(rows)),
        ("all, listed out", [r for r in rows if not r.pathological]),
    ]:
        if not mine:
            continue
        best = sum(row.regret == 0 for row in mine) / len(mine)
        close = sum(row.regret <= CLOSE for row in mine) / len(mine)
        print(f"{kind:<24}{len(mine):>5}{best:>7.0%}{close:>12.0%}{statistics.mean(r.regret for r in mine):>13.1%}")
    for row in rows:
        if row.regret > CLOSE:
            print(f"    {row.rank_set}: chose {row.chosen}, best {row.best}, {row.regret:.0%} slower")


def print_memory(found: Fits, memory: Sequence[MemoryCase]) -> None:
    """What fits, and sizes that follow from the KV cache."""
    right, total = found.ran_right + found.refused_right, found.ran + found.refused
    print(
        f"\nfits / does not fit: {right} of {total} right; {found.ran_right} of {found.ran} that ran,"
        f" {found.refused_right} of {found.refused} that did not"
    )
    for name in found.wrong:
        print(f"    wrong: {name}")
    for case in memory:
        if case.quantity != "fits":
            print(f"    {case.id}: {case.predicted:.4g} {case.quantity} against {case.measured:.4g}")


def print_skipped(skipped: dict[str, str]) -> None:
    """Every case that is not scored, by reason."""
    print(f"\nskipped: {len(skipped)}")
    for reason, names in by_reason(skipped).items():
        print(f"  {len(names)}: {reason}")
        print(textwrap.fill(" ".join(names), 116, initial_indent="      ", subsequent_indent="      "))


def _seconds(scored: Scored) -> dict[str, float]:
    """The three times of one case."""
    case = scored.case
    return {"measured_s": case.measured_s, "predicted_s": scored.predicted_s, "roofline_s": case.bare_s}


def main() -> None:
    """Score a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_FILE, help="cases in the form of measurements.yaml"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--stack", help="price every case by this stack, such as book, instead of its own")
    asked = parser.parse_args()
    rows = load_rows(asked.file)
    cases, skipped = read(rows)
    memory, uncounted = read_memory(rows)
    scored = score(cases, asked.stack)
    table, chosen, fitting = summaries(scored), choices(scored), fits(cases, memory)
    if asked.format == "json":
        found = {
            "groups": [asdict(row) for row in table],
            "cases": {each.case.id: _seconds(each) for each in scored},
            "rank_sets": [asdict(row) for row in chosen],
            "fits": asdict(fitting),
            "memory": [asdict(case) for case in memory],
            "skipped": by_reason(skipped | uncounted),
        }
        print(json.dumps(found, indent=2))
        return
    print_summaries(table)
    print_choices(chosen)
    print_memory(fitting, memory)
    print_skipped(skipped | uncounted)
    mean_ms, slowest_ms = call_ms(cases)
    print(f"\none case takes {mean_ms:.2f} ms warm, {slowest_ms:.2f} at most, all its steps and candidate layouts")


if __name__ == "__main__":
    main()
