"""Commands that look at one plan: tables, sentences, a page, replayed requests."""

from pathlib import Path

import click

from planner.cli.options import FORMAT, PLAN, Examples, answers


@click.command(cls=Examples, examples="shardwright show plan.yaml\nshardwright show plan.yaml --collectives")
@PLAN
@click.option("--collectives", is_flag=True, help="List the planned collectives of both phases as well.")
@FORMAT
@answers
def show(plan: Path, collectives: bool, style: str) -> int:
    """Print PLAN as tables."""
    from planner.commands import show_command

    return show_command(plan, collectives, style)


@click.command(
    cls=Examples,
    examples="shardwright explain plan.yaml\nshardwright explain plan.yaml generate.attention\n"
    "shardwright explain plan.yaml --why-not generate.kv_cache=heads --why-not slice=2x4",
)
@PLAN
@click.argument("address", required=False)
@click.option(
    "--why-not",
    "questions",
    multiple=True,
    metavar="ADDRESS=VALUE",
    help="Ask what another choice would cost, by the address of a pin. May be repeated; each is its own question. "
    'Choices that are meant together are one: "A=V & B=W".',
)
@FORMAT
@answers
def explain(plan: Path, address: str | None, questions: tuple[str, ...], style: str) -> int:
    """Say what binds each phase of PLAN, or one ADDRESS of it, what limits are worth, and why not otherwise."""
    from planner.commands import explain_command

    return explain_command(plan, address, style, questions)


@click.command(
    cls=Examples,
    examples="shardwright report plan.yaml -o plan.html\n"
    "shardwright report plan.yaml --base origin/main:plan.yaml -o plan.html",
)
@PLAN
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The HTML file to write."
)
@click.option(
    "--base",
    metavar="PLAN",
    help="Also show what changed against another plan, or a spec, in a file or in a git revision (REV:path).",
)
@click.option(
    "--around/--no-around",
    default=True,
    help="Solve the batches and slices around the plan, for its latencies against the batch and the frontier.  "
    "[default: around]",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes to solve with.  [default: one a core]")
@answers
def report(plan: Path, output: Path, base: str | None, around: bool, jobs: int | None) -> int:
    """Write PLAN as one self-contained HTML page: no script, nothing loaded, to read on screens and on paper."""
    from planner.commands import ReportRequest, report_command

    return report_command(plan, ReportRequest(output, base, around, jobs))


@click.command(cls=Examples, examples="shardwright simulate plan.yaml --requests 500")
@PLAN
@click.option("--requests", default=200, show_default=True, type=click.IntRange(min=1), help="Requests to replay.")
@click.option("--seed", default=0, show_default=True, help="Seed of the request lengths.")
@FORMAT
@answers
def simulate(plan: Path, requests: int, seed: int, style: str) -> int:
    """Replay requests of the spec's lengths against the predicted steps of PLAN: TTFT and TPOT as distributions."""
    from planner.commands import simulate_command

    return simulate_command(plan, requests, seed, style)
