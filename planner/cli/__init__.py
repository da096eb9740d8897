"""The command line: parse, call, print, exit code. No logic, and nothing heavy is imported before it is needed.

Exit codes: 0 done; 1 the answer is no (invalid spec, drift, difference); 2 the work could not be done (usage,
unreadable input, internal error); 3 no feasible plan.
"""

import sys

import planner

if getattr(planner, "DISTRIBUTION", None) != "shardwright":
    sys.exit("another distribution's package `planner` hides shardwright's; uninstall it, or use a fresh environment")

import click

from planner.cli import changes, machines, packages, plans, specs


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=planner.DISTRIBUTION, prog_name="shardwright")
def main() -> None:
    """Plan how a language model is sharded on a slice, for prefill and for generate, and render the JAX package.

    A YAML spec says what is served on what; `plan` proves the best layouts; `render` writes the package that does
    exactly what the plan says; `diff` shows what a change means, `review` what it means to a folder of specs.
    """


for command in (
    *(specs.check, specs.plan, specs.sweep, specs.schema),
    *(plans.show, plans.explain, plans.report, plans.simulate),
    *(changes.diff, changes.review),
    *(packages.render, packages.verify, packages.demo),
    *(machines.chips, machines.calibrate),
):
    main.add_command(command)
