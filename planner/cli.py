"""The command line: parse, call, print, exit code. No logic, and nothing heavy is imported before it is needed.

Exit codes: 0 done; 1 the answer is no (invalid spec, drift, difference); 2 the work could not be done (usage,
unreadable input, internal error); 3 no feasible plan.
"""

import sys
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import planner

if getattr(planner, "DISTRIBUTION", None) != "shardwright":
    sys.exit("another distribution's package `planner` hides shardwright's; uninstall it, or use a fresh environment")

import click

from planner import console

P = ParamSpec("P")
R = TypeVar("R")

SPEC = click.argument("spec", type=click.Path(path_type=Path, dir_okay=False))
PLAN = click.argument("plan", type=click.Path(path_type=Path, dir_okay=False))
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the spec, e.g. hardware.slice=4x8. May be repeated.",
)
FORMAT = click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print the result.",
)


class Examples(click.Command):
    """A command whose help ends with an EXAMPLES block."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the examples as they are."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write_text(line.strip())


def answers(function: Callable[P, int | None]) -> Callable[P, None]:
    """Turn what a command returns into an exit code, and what a user can cause into a message without a traceback."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        sys.exit(console.guarded(lambda: function(*args, **kwargs)))

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=planner.DISTRIBUTION, prog_name="shardwright")
def main() -> None:
    """Plan how a language model is sharded on a slice, for prefill and for generate, and render the JAX package.

    A YAML spec says what is served on what; `plan` proves the best layouts; `render` writes the package that does
    exactly what the plan says; `diff` shows what a change means, `review` what it means to a folder of specs.
    """


@main.command(
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


@main.command(
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


@main.command(cls=Examples, examples="shardwright show plan.yaml\nshardwright show plan.yaml --collectives")
@PLAN
@click.option("--collectives", is_flag=True, help="List the planned collectives of both phases as well.")
@FORMAT
@answers
def show(plan: Path, collectives: bool, style: str) -> int:
    """Print PLAN as tables."""
    from planner.commands import show_command

    return show_command(plan, collectives, style)


@main.command(
    cls=Examples,
    examples="shardwright render plan.yaml -o llama_70b\nshardwright render plan.yaml -o llama_70b --check",
)
@PLAN
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The package's folder; its name is the package's name.",
)
@click.option(
    "--overlay",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A folder of templates that replace or add to the built-in ones.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; exit 1 when the folder differs from what would be rendered."
)
@answers
def render(plan: Path, output: Path, overlay: Path | None, check: bool) -> int:
    """Render PLAN as a runnable JAX package, or check that a folder still equals it."""
    from planner.commands import render_command

    return render_command(plan, output, overlay, check)


@main.command(
    cls=Examples,
    examples="shardwright diff base.yaml head.yaml\nshardwright diff origin/main:serving/plan.yaml serving/plan.yaml\n"
    "shardwright diff base.yaml head.yaml --format markdown --policy policy.yaml",
)
@click.argument("base")
@click.argument("head")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "markdown", "json", "html"]),
    default="text",
    show_default=True,
    help="How to print the difference.",
)
@click.option("--exit-code", is_flag=True, help="Exit 1 when the plans differ.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Limits on what may change, as YAML; exit 1 when one is broken.",
)
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="The day on which waivers of the policy are read.  [default: today]",
)
@click.option(
    "--attribute/--no-attribute",
    default=None,
    help="Find which input caused which decision, by planning specs in between.  [default: where a side is a spec]",
)
@SET
@answers
def diff(
    base: str,
    head: str,
    style: str,
    exit_code: bool,
    policy: Path | None,
    today: datetime | None,
    attribute: bool | None,
    overrides: tuple[str, ...],
) -> int:
    """Show what changes between BASE and HEAD and why, and hold it against a policy.

    Each is a plan or a spec, in a file or in a git revision (REV:path); --set applies to specs.
    """
    from planner.commands import DiffRequest, diff_command

    day = None if today is None else today.date()
    return diff_command(base, head, DiffRequest(style, exit_code, overrides, attribute, policy, day))


@main.command(
    cls=Examples,
    examples="shardwright review --base origin/main --folder serving\n"
    "shardwright review --base origin/main --folder serving --policy policy.yaml --comment-file comment.md\n"
    "shardwright review --check --all",
)
@click.option(
    "--base", default="HEAD", show_default=True, metavar="REV", help="The git revision that specs are compared with."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("."),
    show_default=True,
    help="Where specs, plans and packages lie.",
)
@click.option("--all", "everything", is_flag=True, help="Review every spec, not only those that the change touches.")
@click.option("--check", is_flag=True, help="Only check that plans and packages are current; compare with nothing.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Limits on what may change, as YAML; exit 1 when a spec breaks one.",
)
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="The day on which waivers of the policy are read.  [default: today]",
)
@click.option(
    "--attribute/--no-attribute",
    default=True,
    show_default=True,
    help="Find which input caused which decision, by planning specs in between.",
)
@click.option(
    "--overlay",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder of templates that packages were rendered with.",
)
@click.option(
    "--comment-file",
    "comment",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a review comment for all specs to this file, as Markdown.",
)
@FORMAT
@answers
def review(
    base: str,
    folder: Path,
    everything: bool,
    check: bool,
    policy: Path | None,
    today: datetime | None,
    attribute: bool,
    overlay: Path | None,
    comment: Path | None,
    style: str,
) -> int:
    """Review the specs of a folder that a change touches: differences, a policy, stale plans and packages.

    Exits 1 when a policy is broken or something is stale, 2 when a spec is wrong or has no plan.
    """
    from planner.commands import ReviewRequest, review_command

    day = None if today is None else today.date()
    return review_command(
        ReviewRequest(folder, base, everything, check, policy, day, attribute, overlay, comment, style)
    )


@main.command(
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


@main.command(
    cls=Examples,
    examples="shardwright verify plan.yaml\nshardwright verify plan.yaml --bucket 1024\n"
    "shardwright verify plan.yaml --target cpu --run tiny",
)
@PLAN
@click.option(
    "--target", type=click.Choice(["tpu", "cpu"]), help="What to compile for; the plan's own chip by default."
)
@click.option(
    "--bucket",
    "buckets",
    type=int,
    multiple=True,
    metavar="TOKENS",
    help="Compile prefill for this bucket only, of all buckets of the plan. May be repeated.",
)
@click.option(
    "--run",
    type=click.Choice(["tiny", "full"]),
    help="With --target cpu, also execute a tiny model under the same rules, or the full one, and compare its numbers "
    "with one device.",
)
@FORMAT
@answers
def verify(plan: Path, target: str | None, buckets: tuple[int, ...], run: str | None, style: str) -> int:
    """Compile every program of PLAN, no hardware needed, and compare them with it; exits 1 if they differ."""
    from planner.commands import verify_command

    return verify_command(plan, target, style, buckets, run)


@main.command(
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


@main.command(cls=Examples, examples="shardwright simulate plan.yaml --requests 500")
@PLAN
@click.option("--requests", default=200, show_default=True, type=click.IntRange(min=1), help="Requests to replay.")
@click.option("--seed", default=0, show_default=True, help="Seed of the request lengths.")
@FORMAT
@answers
def simulate(plan: Path, requests: int, seed: int, style: str) -> int:
    """Replay requests of the spec's lengths against the predicted steps of PLAN: TTFT and TPOT as distributions."""
    from planner.commands import simulate_command

    return simulate_command(plan, requests, seed, style)


@main.command(cls=Examples, examples="shardwright calibrate\nshardwright calibrate --devices 8 --format json")
@click.option(
    "--devices", default=8, show_default=True, type=click.IntRange(min=2), help="Virtual CPU devices to measure on."
)
@FORMAT
@answers
def calibrate(devices: int, style: str) -> int:
    """Measure this machine (matmul, memory, collectives) beside what the catalogue says of the host CPU."""
    from planner.commands import calibrate_command

    return calibrate_command(devices, style)


@main.command(
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


@main.command(cls=Examples, examples="shardwright chips\nshardwright chips v5e")
@click.argument("name", required=False)
@FORMAT
@answers
def chips(name: str | None, style: str) -> int:
    """List the chip catalogue, or one chip with the source of every number."""
    from planner.commands import chips_command

    return chips_command(name, style)


@main.command(
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


@main.command(cls=Examples, examples="shardwright demo\nshardwright demo --prompt 'Name three rivers.'")
@click.option("--prompt", default="What is the capital of France?", show_default=True, help="What to ask the model.")
@click.option(
    "--directory",
    default=Path("demo"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where plan and package are written.",
)
@answers
def demo(prompt: str, directory: Path) -> int:
    """Plan, render and run SmolLM2-135M on 8 virtual CPU devices."""
    from planner.commands import demo_command

    return demo_command(prompt, directory)
