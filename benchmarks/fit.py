"""Constants of the measured stacks, fitted to the copied measurements alone, and how well they generalise.

Soft-L1 loss on log(predicted / measured) with a weak pull to a plausible value of each constant. Scores: in sample,
half (families in two halves, each predicted from the other), and leave one family out. Run with `--write` to put the
constants into cost_models/measured.toml.
"""

import argparse
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from case import Case
from measurements import DEFAULT_FILE, load_rows, read
from scipy.optimize import least_squares
from stack_fits import FITS, Fit

from cost_models.stacks import Stack, stack

PULL = 0.02
"""Weight of one constant's distance from its plausible value, in units of that value, beside one case's log ratio."""

SOFT = 0.15
"""Log ratio at which the loss turns from squared to linear."""

TOML = Path(__file__).resolve().parents[1] / "cost_models" / "measured.toml"

ASSUMED_LAYOUT = {"jle-scout", "sglcb-v7x"}
"""Families priced by a borrowed stack or in a layout that no source states."""

EFFICIENCIES = {"mxu_efficiency", "hbm_efficiency", "ici_efficiency", "attention_efficiency", "network_efficiency"}


def fitted(base: Stack, plausible: dict[str, float], cases: Sequence[Case]) -> Stack:
    """`base` with the constants that fit `cases` best."""
    names = list(plausible)
    values = np.array([plausible[name] for name in names])
    upper = [1 / plausible[name] if name in EFFICIENCIES else 10.0 for name in names]
    measured = np.array([math.log(case.measured_s) for case in cases])

    def residuals(scale: np.ndarray) -> np.ndarray:
        trial = replace(base, **dict(zip(names, (scale * values).tolist(), strict=True)))
        logs = np.array([math.log(case.seconds(trial)) for case in cases])
        return np.concatenate([logs - measured, PULL * len(cases) ** 0.5 * (scale - 1)])

    start = np.minimum(np.ones(len(names)), np.array(upper) * 0.999)
    found = least_squares(residuals, start, bounds=(0.02, upper), loss="soft_l1", f_scale=SOFT, max_nfev=40, xtol=1e-5)
    return replace(base, **dict(zip(names, (found.x * values).tolist(), strict=True)))


def errors(case: Case, on: Stack) -> float:
    """Predicted over measured, less one."""
    return case.seconds(on) / case.measured_s - 1


def held_out(fit: Fit, cases: Sequence[Case], folds: Iterable[set[str]]) -> dict[str, float]:
    """The error of every case, predicted from constants fitted without its fold of families."""
    base = stack(fit.stack_name)
    found: dict[str, float] = {}
    for fold in folds:
        inside = [case for case in cases if fit.family(case) not in fold]
        outside = [case for case in cases if fit.family(case) in fold]
        trial = fitted(base, fit.plausible, inside)
        found |= {case.id: errors(case, trial) for case in outside}
    return found


def halves(fit: Fit, cases: Sequence[Case]) -> list[set[str]]:
    """The families in two halves of about as many cases, the largest dealt first."""
    sizes: dict[str, int] = {}
    for case in cases:
        sizes[fit.family(case)] = sizes.get(fit.family(case), 0) + 1
    dealt: list[set[str]] = [set(), set()]
    counts = [0, 0]
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        place = counts.index(min(counts))
        dealt[place].add(name)
        counts[place] += sizes[name]
    return dealt


def score_text(found: dict[str, float], cases: Sequence[Case]) -> str:
    """n, MAPE and signed median of `cases`, in percent."""
    mine = [found[case.id] for case in cases if case.id in found]
    if not mine:
        return "-"
    mape = statistics.mean(map(abs, mine))
    return f"{len(mine):>4} {mape:>7.1%} {statistics.median(mine):>+7.1%}"


def fitting_cases(fit: Fit, cases: Sequence[Case]) -> list[Case]:
    """The cases of the stack's own source with known batch, chips and layout; tier C serves for order alone."""
    lent = {"pytorch-xla", "vllm-tpu", "jetstream", "vllm-gpu"}
    mine = [case for case in cases if case.stack_name == fit.stack_name and case.sparse == fit.sparse]
    own = [case for case in mine if case.group not in lent and case.family not in ASSUMED_LAYOUT]
    return [case for case in own if "; ? x" not in case.label and case.tier != "C"]


def subsets(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The cases by group and phase; collectives by size."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        size = "" if case.bytes_moved is None else (" >= 1 MB" if case.bytes_moved >= 1e6 else " small")
        found.setdefault(f"{case.group} {case.phase}{size}", []).append(case)
    return found


def choices_text(found: dict[str, float], cases: Sequence[Case]) -> str:
    """How often the predicted best of a rank set is the best measured, or within 5 %, and the mean regret."""
    sets: dict[str, list[Case]] = {}
    for case in cases:
        if case.rank_set:
            sets.setdefault(case.rank_set, []).append(case)
    regrets = []
    for members in (each for each in sets.values() if len(each) > 1):
        chosen = min(members, key=lambda case: case.measured_s * (1 + found[case.id]))
        regrets.append(chosen.measured_s / min(case.measured_s for case in members) - 1)
    if not regrets:
        return ""
    best, close = (sum(regret <= limit for regret in regrets) / len(regrets) for limit in (0, 0.05))
    text = f"{len(regrets)} sets, best {best:.0%}, within 5 % {close:.0%}, mean regret {statistics.mean(regrets):.1%}"
    return f"  rank sets, every row from constants fitted without its family: {text}"


def report(fit: Fit, cases: Sequence[Case]) -> Stack:
    """Prints constants and scores of one stack and returns it; the constants come from the cases not pathological."""
    everything = fitting_cases(fit, cases)
    sane = [case for case in everything if not case.pathological]
    base = stack(fit.stack_name)
    best = fitted(base, fit.plausible, sane)
    print(f"\n{fit.stack_name}: {len(everything)} cases, {len(sane)} of them not pathological")
    for name in fit.plausible:
        print(f"    {name:<24}{getattr(best, name):>12.4g}")
    families = sorted({fit.family(case) for case in everything})
    tables = {
        "in sample": {case.id: errors(case, best) for case in everything},
        "half": held_out(fit, sane, halves(fit, sane)),
        "lofo": held_out(fit, sane, [{name} for name in families]),
        "lofo, all rows": held_out(fit, everything, [{name} for name in families]),
    }
    for label, chosen in subsets(everything).items():
        kept = [case for case in chosen if not case.pathological]
        print(f"  {label}:  n, MAPE, signed median")
        for title, found in tables.items():
            print(f"    {title:<16}{score_text(found, chosen if title == 'lofo, all rows' else kept)}")
    if choices := choices_text(tables["lofo, all rows"], everything):
        print(choices)
    return best


def write(stacks: Sequence[tuple[Fit, Stack]]) -> None:
    """Puts the constants into measured.toml, to four digits; their sources stay."""
    text = TOML.read_text(encoding="utf-8")
    for fit, best in stacks:
        head, table, tail = _table(text, fit.stack_name)
        for name in fit.plausible:
            value = float(f"{getattr(best, name):.4g}")
            table = re.sub(rf"(?m)^({name} = {{ value = )[^,]+,", rf"\g<1>{value!r},", table)
        text = head + table + tail
    TOML.write_text(text, encoding="utf-8")


def _table(text: str, name: str) -> tuple[str, str, str]:
    """What stands before, in and after the table called `name`."""
    start = text.index(f"[{name}]")
    end = text.find("\n[", start)
    end = len(text) if end < 0 else end
    return text[:start], text[start:end], text[end:]


def main() -> None:
    """Fit, print, and write when told to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stack", action="append", help="fit only this stack; may be given more than once")
    parser.add_argument("--write", action="store_true", help="put the constants into cost_models/measured.toml")
    asked = parser.parse_args()
    cases, _ = read(load_rows(DEFAULT_FILE))
    chosen = [fit for fit in FITS if not asked.stack or fit.stack_name in asked.stack]
    done = [(fit, report(fit, cases)) for fit in chosen]
    if asked.write:
        write(done)


if __name__ == "__main__":
    main()
