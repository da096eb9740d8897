"""Commands that compare: two plans or specs, or a folder of specs with what it was."""

from datetime import datetime
from pathlib import Path

import click

from planner.cli.options import FORMAT, SET, Examples, answers

TODAY = click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="The day on which waivers of the policy are read.  [default: today]",
)


@click.command(
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
@TODAY
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


@click.command(
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
@TODAY
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
