"""What commands share: arguments, options, help with examples, and answers that become exit codes."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

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
