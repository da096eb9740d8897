"""Commands about machines: the catalogue of chips, and measurements of this machine."""

import click

from planner.cli.options import FORMAT, Examples, answers


@click.command(cls=Examples, examples="shardwright chips\nshardwright chips v5e")
@click.argument("name", required=False)
@FORMAT
@answers
def chips(name: str | None, style: str) -> int:
    """List the chip catalogue, or one chip with the source of every number."""
    from planner.commands import chips_command

    return chips_command(name, style)


@click.command(cls=Examples, examples="shardwright calibrate\nshardwright calibrate --devices 8 --format json")
@click.option(
    "--devices", default=8, show_default=True, type=click.IntRange(min=2), help="Virtual CPU devices to measure on."
)
@FORMAT
@answers
def calibrate(devices: int, style: str) -> int:
    """Measure this machine (matmul, memory, collectives) beside what the catalogue says of the host CPU."""
    from planner.commands import calibrate_command

    return calibrate_command(devices, style)
