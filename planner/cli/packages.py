"""Commands about packages: render one, compile and audit it, run the demo's."""

from pathlib import Path

import click

from planner.cli.options import FORMAT, PLAN, Examples, answers


@click.command(
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


@click.command(
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


@click.command(cls=Examples, examples="shardwright demo\nshardwright demo --prompt 'Name three rivers.'")
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
