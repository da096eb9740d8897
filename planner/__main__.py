"""`python -m planner` is the `shardwright` command."""

from planner.cli import main

main(prog_name="shardwright")
