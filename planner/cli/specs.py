"""Commands that start from a spec: check it, plan it, vary it, describe what it may hold."""

from pathlib import Path
from typing import Literal

import click

from planner.cli.options import FORMAT, SET, SPEC, Examples, answers


@click.command(
    cls=Examples,
    examples="shardwright check spec.yaml\nshardwright check spec.yaml --set hardware.slice=4x8 --resolved",
)
@SPEC
@SET
@click.option("--resolved", is_flag=True, help="Print the resolved spec: every default and every size filled in.")
@FORMAT
@answers
def check(spec: Path, overrides: tuple[str, ...], resolved: bool, style: str) -> int:
    """Report every error and warning of SPEC, with lines."""
    from planner.commands import check_command

    return check_command(spec, overrides, resolved, style)


@click.command(
    cls=Examples,
    examples="shardwright plan spec.yaml -o plan.yaml\nshardwright plan spec.yaml --set 'limits.tpot=20 ms'\n"
    "shardwright plan spec.yaml --near plan.yaml --within 2% -o plan.yaml",
)
@SPEC
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan to this file.")
@SET
@click.option(
    "--near",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN",
    help="Change as little as possible against an earlier plan: weights that move first.",
)
@click.option("--within", metavar="FRACTION", help="How far above the optimum --near may go.  [default: 1%]")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write why each candidate was not taken to this file, as JSON lines.",
)
@FORMAT
@answers
def plan(
    spec: Path,
    output: Path | None,
    overrides: tuple[str, ...],
    near: Path | None,
    within: str | None,
    ledger: Path | None,
    style: str,
) -> int:
    """Solve SPEC, prove the plan optimal, and summarise it; exits 3 when no plan is feasible."""
    from planner.commands import PlanRequest, plan_command

    return plan_command(spec, overrides, style, PlanRequest(output, ledger, near, within))


@click.command(
    cls=Examples,
    examples="shardwright sweep spec.yaml\nshardwright sweep spec.yaml --over slice=2x4,4x4,4x8 -o sweep.html\n"
    "shardwright sweep spec.yaml --over generate.batch=1..256 --over model.weights.dtype=bf16,int8 --latency ttft",
)
@SPEC
@click.option(
    "--over",
    multiple=True,
    metavar="PATH=V1,V2",
    help="What to vary: slice, generate.batch (also a range, 1..256: 2^i and 3*2^i), another pin, or any path that "
    "--set takes. May be repeated. By default slice and generate.batch, over what the spec allows.",
)
@click.option(
    "--latency", type=click.Choice(["tpot", "ttft"]), default="tpot", show_default=True, help="What has to be fast."
)
@click.option(
    "--against",
    type=click.Choice(["throughput", "cost"]),
    help="What it is traded for: tokens/s of the slice, or chip-seconds per token.  [default: cost, or throughput when "
    "that is the spec's objective]",
)
@click.option("--all", "everything", is_flag=True, help="Show dominated points and each infeasible setting as well.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the sweep: a self-contained .html page, or an .svg.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes to solve with.  [default: one a core]")
@SET
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="How to print the result; json and csv hold every point and every infeasible setting.",
)
@answers
def sweep(
    spec: Path,
    over: tuple[str, ...],
    latency: Literal["tpot", "ttft"],
    against: Literal["throughput", "cost"] | None,
    everything: bool,
    output: Path | None,
    jobs: int | None,
    overrides: tuple[str, ...],
    style: str,
) -> int:
    """Solve SPEC over a grid of settings: the frontier of latency against throughput or cost; exits 3 if none fits."""
    from planner.commands import sweep_command

    return sweep_command(spec, overrides, over, latency, against, output, jobs, style, everything)


@click.command(
    cls=Examples, examples="shardwright schema > spec.schema.json\nshardwright schema --of diff > plan-diff.schema.json"
)
@click.option(
    "--of", type=click.Choice(["spec", "diff"]), default="spec", show_default=True, help="What the schema describes."
)
@answers
def schema(of: str) -> int:
    """Print the JSON schema of a spec, for editors, or of what `diff --format json` writes."""
    from planner.commands import schema_command

    return schema_command(of)
