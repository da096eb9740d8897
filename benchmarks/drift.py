"""What moved since another revision: a grid of specs, solved by the code and the catalogue of both, compared.

`--base REV` is checked out in a temporary worktree; each side solves in a process of its own. A spec that had a plan
and has none any more fails, with exit code 1; plans and predictions that moved are told. Exit code 2: it could not be
done.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "gemma-2-9b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-120b",
    "deepseek-v3",
)  # fmt: skip
CHIPS = {"v5e": ("2x4", "4x4"), "v5p": ("2x2x2", "2x4x4"), "v6e": ("2x4", "4x8"), "h100": ("8",), "b200": ("8",)}
WORKLOADS = {"chat": (1024, 256, 32), "long": (3072, 512, 16), "batch": (512, 512, 256)}
"""Mean prompt and output tokens, and sequences in flight; a p95 is twice the mean."""
VISIBLE = 1e-3
"""Relative changes below this are rounding."""
MOST_LINES = 40
PREDICTIONS = (
    ("service", "ttft_s"), ("service", "tpot_s"), ("service", "tokens_per_s"),
    ("service", "chip_seconds_per_million_tokens"), ("prefill", "step_s"), ("generate", "step_s"), ("hbm", "total"),
)  # fmt: skip
DECISIONS = (
    ("chip",), ("slice",), ("mesh", "axes"), ("pool", "slice"), ("fleet", "mode"), ("prefill", "rules"),
    ("prefill", "copies"), ("prefill", "prompts"), ("prefill", "chunk"), ("generate", "rules"), ("generate", "batch"),
)  # fmt: skip

Answers = dict[str, dict[str, Any]]


class Moved(NamedTuple):
    """One spec that is answered otherwise: `lost`, `gained`, `plan`, `predictions` or `refusal`, and what moved."""

    spec: str
    kind: str
    what: tuple[str, ...]


def grid() -> dict[str, str]:
    """Name -> YAML of every spec: models x chips and slices x workloads."""
    return {
        f"{model} {chip} {each} {name}": spec(model, chip, each, *workload)
        for model in MODELS
        for chip, slices in CHIPS.items()
        for each in slices
        for name, workload in WORKLOADS.items()
    }


def spec(model: str, chip: str, slice_: str, prompt: int, output: int, concurrency: int) -> str:
    """The YAML of one spec."""
    return (
        f"version: 1\nname: drift\nmodel: {{config: {model}, weights: {{dtype: int8}}}}\n"
        f'hardware: {{chip: {chip}, slice: "{slice_}"}}\nworkload:\n'
        f"  prompt_tokens: {{mean: {prompt}, p95: {2 * prompt}}}\n"
        f"  output_tokens: {{mean: {output}, p95: {2 * output}}}\n  concurrency: {concurrency}\n"
    )


def solve(specs: Mapping[str, str], home: Path) -> Answers:
    """What the code of this process answers to each spec; it must be the code in `home`. Only names that the first
    release had are used, and `bare_plan` where it is there."""
    import planner.plan.make as make
    from planner.errors import ShardwrightError
    from planner.spec import SpecErrors, load_spec

    assert make.__file__ is not None
    if not Path(make.__file__).resolve().is_relative_to(home.resolve()):
        sys.exit(f"{home} was to be measured, and {make.__file__} was imported")
    answers: Answers = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spec.yaml")
        for name, text in specs.items():
            path.write_text(text, encoding="utf-8")
            try:
                plan = getattr(make, "bare_plan", make.make_plan)(load_spec(path))
            except SpecErrors as error:
                answers[name] = {"refused": error.diagnostics[0].message}
            except ShardwrightError as error:
                answers[name] = {} if error.exit_code == 3 else {"refused": str(error).splitlines()[0]}
            else:
                answers[name] = {} if plan is None else {"plan": plan.model_dump(mode="json")}
    return answers


def solved_by(home: Path, specs: Mapping[str, str]) -> Answers:
    """What the code in a folder answers, from an interpreter of its own; SystemExit 2 where it cannot."""
    command = [sys.executable, __file__, "--solve", str(home)]
    variables = {**os.environ, "PYTHONPATH": str(home)}
    done = subprocess.run(command, input=json.dumps(specs), env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(f"the code in {home} cannot be run:\n{done.stderr.strip()}")
    answers: Answers = json.loads(done.stdout)
    return answers


@contextmanager
def worktree(repository: Path, revision: str) -> Iterator[Path]:
    """The files of a revision in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "base")
        command = ["git", "-C", str(repository), "worktree"]
        added = subprocess.run(
            [*command, "add", "--quiet", "--detach", str(place), revision], capture_output=True, text=True, check=False
        )
        if added.returncode:
            stop(f"--base {revision} cannot be checked out: {added.stderr.strip()}; give a tag, a branch or a commit")
        try:
            yield place
        finally:
            subprocess.run([*command, "remove", "--force", str(place)], check=True, capture_output=True)


def stop(message: str) -> None:
    """End with an error."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def moved(base: Answers, head: Answers) -> list[Moved]:
    """Every spec that is answered otherwise."""
    found = (compared(name, before, head[name]) for name, before in base.items())
    return [each for each in found if each is not None]


def compared(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Moved | None:
    """How two answers to one spec differ."""
    if "plan" in before and "plan" not in after:
        return Moved(name, "lost", (after.get("refused", "no feasible plan"),))
    if "plan" in after and "plan" not in before:
        return Moved(name, "gained", (f"before: {before.get('refused', 'no feasible plan')}",))
    if "plan" not in before:
        return None if before == after else Moved(name, "refusal", (str(after.get("refused", "no feasible plan")),))
    otherwise = tuple(".".join(at) for at in DECISIONS if value(before["plan"], at) != value(after["plan"], at))
    predictions = tuple(changes(before["plan"], after["plan"]))
    if not otherwise and not predictions:
        return None
    return Moved(name, "plan" if otherwise else "predictions", (*otherwise, *predictions))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The predictions that moved, in percent."""
    for at in PREDICTIONS:
        old, new = value(before, at), value(after, at)
        if old is None or new is None:
            if old is not new:
                yield f"{'.'.join(at)} {'gone' if new is None else 'told now'}"
        elif abs(new - old) > VISIBLE * max(abs(old), abs(new)):
            yield f"{'.'.join(at)} {100 * (new / old - 1) if old else float('inf'):+.2f}%"


def value(plan: Mapping[str, Any], address: Sequence[str]) -> Any:
    """What a plan holds at an address, None for nothing."""
    found: Any = plan
    for key in address:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def report(found: Sequence[Moved], base: Answers, head: Answers, revision: str) -> str:
    """The table for people: the lost ones first."""
    planned = [sum("plan" in answer for answer in side.values()) for side in (base, head)]
    counts = {kind: sum(each.kind == kind for each in found) for kind in KINDS}
    lines = [
        f"{len(base)} specs against {revision}: {planned[0]} had a plan, {planned[1]} have one",
        *(f"{count:>5} {words}" for kind, words in KINDS.items() if (count := counts[kind])),
    ]
    ordered = sorted(found, key=lambda each: (*KINDS,).index(each.kind))
    lines += [f"{each.kind:<12}{each.spec:<36}{', '.join(each.what)}" for each in ordered[:MOST_LINES]]
    lines += [f"... {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return "\n".join(lines if found else [*lines, "nothing moved"])


KINDS = {
    "lost": "had a plan and have none: a regression",
    "gained": "have a plan and had none",
    "plan": "have another plan",
    "predictions": "have the same plan with other predictions",
    "refusal": "are refused otherwise",
}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--base", metavar="REV", help="the revision to compare with, such as the tag of the last release"
    )
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="DIR", help="where both are; this checkout")
    parser.add_argument("--spec", type=Path, nargs="+", metavar="FILE", help="solve these specs instead of the grid")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="solve each Nth spec of the grid only")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--solve", type=Path, help=argparse.SUPPRESS)
    parsed = parser.parse_args(given)
    if parsed.solve is None and parsed.base is None:
        parser.error("--base REV is needed: the revision to compare with")
    if parsed.every < 1:
        parser.error(f"--every {parsed.every} is below 1")
    return parsed


def main(given: Sequence[str] | None = None) -> int:
    """Compare, print, and return the exit code."""
    asked = arguments(given)
    if asked.solve is not None:
        json.dump(solve(json.load(sys.stdin), asked.solve), sys.stdout)
        return 0
    listed = {str(path): path.read_text(encoding="utf-8") for path in asked.spec} if asked.spec else grid()
    specs = {name: listed[name] for name in list(listed)[:: asked.every]}
    started = time.perf_counter()
    with worktree(asked.repository, asked.base) as place:
        base = solved_by(place, specs)
    head = solved_by(asked.repository, specs)
    found = moved(base, head)
    if asked.format == "json":
        planned = {
            "base": sum("plan" in each for each in base.values()),
            "head": sum("plan" in e for e in head.values()),
        }
        data = {"base": asked.base, "specs": len(specs), "planned": planned, "moved": [e._asdict() for e in found]}
        print(json.dumps(data, indent=2))
    else:
        print(report(found, base, head, asked.base))
    print(f"{len(specs)} specs solved twice in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 1 if any(each.kind == "lost" for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
