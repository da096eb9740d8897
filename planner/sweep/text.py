"""A sweep as tables, JSON and CSV."""

import csv
from collections.abc import Iterable
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.plan.schema import Strategy
from planner.plan.show import plain_table
from planner.plan.units import bytes_text, digits, seconds_text
from planner.sweep.frontier import MEASURES, by_latency
from planner.sweep.reasons import reason_lines
from planner.sweep.schema import Point, Sweep
from planner.sweep.words import best_for_text, counts_text, headline, others_of, strategy_text

NUMBERS = ("TTFT", "TPOT", "tokens/s", "chip-s per 1M", "HBM free")


def print_sweep(sweep: Sweep, console: Console, everything: bool = False) -> None:
    """The frontier, what `plan` takes, and what is infeasible; `everything`: dominated points and each reason too."""
    console.print(Text(headline(sweep), style="bold"))
    tell(console, counts_text(sweep))
    if sweep.frontier:
        console.print("", points_table(sweep, sweep.frontier), sep="\n")
    if everything and sweep.dominated:
        console.print("", "dominated:", points_table(sweep, sweep.dominated), sep="\n")
    for line in (chosen_text(sweep), *reason_lines(sweep, everything)):
        tell(console, line)
    for accuracy in sweep.accuracy:
        tell(console, f"accuracy: {accuracy}")


def tell(console: Console, line: str) -> None:
    """A line as it is, brackets and all, left to the terminal to wrap."""
    console.print(Text(line), soft_wrap=True)


def points_table(sweep: Sweep, points: Iterable[Point]) -> Table:
    """One row a point, the fastest first; `*` is what `plan` takes."""
    others = others_of(sweep)
    numeric = range(1, 2 + len(NUMBERS) + len(others))
    table = plain_table("slice", "batch", *others, *NUMBERS, "generate", "prefill", "best for", numeric=numeric)
    for point in by_latency(points, sweep.latency, sweep.against):
        table.add_row(*cells(sweep, point))
    return table


def cells(sweep: Sweep, point: Point) -> tuple[str, ...]:
    """The row of one point."""
    return (
        f"{point.values['slice']}{' *' if point.chosen else ''}",
        str(point.values["generate.batch"]),
        *(str(point.values[name]) for name in others_of(sweep)),
        *number_texts(point),
        strategy_text(point.generate_strategy, with_cache=True),
        strategy_text(point.prefill_strategy),
        best_for_text(point),
    )


def number_texts(point: Point) -> tuple[str, ...]:
    """The numbers of a point, in the order of `NUMBERS`."""
    service = point.service
    return (
        seconds_text(service.ttft_s),
        seconds_text(service.tpot_s),
        digits(service.tokens_per_s),
        digits(service.chip_seconds_per_million_tokens),
        bytes_text(point.hbm.free),
    )


def chosen_text(sweep: Sweep) -> str:
    """What `plan` takes for the spec as it is, and where it stands."""
    point = sweep.chosen
    if point is None:
        return "`plan` finds nothing feasible for the spec as it is"
    place = f"slice {point.values['slice']}, batch {point.values['generate.batch']}"
    measures = [MEASURES[sweep.latency], MEASURES[sweep.against]]
    numbers = ", ".join(f"{measure.title} {measure.shown(point)}" for measure in measures)
    among = [each for each in sweep.points if each.chosen]
    if not among:
        return f"* `plan` takes {place} ({numbers}), which is not among the settings"
    where = "on the frontier" if any(each.on_frontier for each in among) else "off the frontier"
    return f"* `plan` takes {place} ({numbers}) for {sweep.objective}, {where}"


def sweep_to_json(sweep: Sweep) -> str:
    """Everything, as JSON."""
    return sweep.model_dump_json(indent=2) + "\n"


def sweep_to_csv(sweep: Sweep) -> str:
    """One line a point or infeasible setting, numbers in SI units, for spreadsheets."""
    stream = StringIO()
    names = list(sweep.over)
    fields = ("ttft_s", "tpot_s", "tokens_per_s", "chip_seconds_per_million_tokens")
    writer = csv.writer(stream, lineterminator="\n")
    steps = ("prefill_step_s", "generate_step_s")
    last = ("hbm_free_bytes", "generate", "prefill", "best_for", "on_frontier", "chosen", "infeasible")
    writer.writerow([*names, "chips", *fields, *steps, *last])
    for point in sweep.points:
        writer.writerow(
            [
                *(point.values[name] for name in names),
                point.chips,
                *(getattr(point.service, field) for field in fields),
                *(getattr(point, step) for step in steps),
                point.hbm.free,
                strategy_words(point.generate_strategy),
                strategy_words(point.prefill_strategy),
                " ".join(point.best_for),
                int(point.on_frontier),
                int(point.chosen),
                "",
            ]
        )
    blank = [""] * (1 + len(fields) + len(steps) + len(last) - 1)
    for each in sweep.infeasible:
        writer.writerow([*(each.values[name] for name in names), *blank, each.reason])
    return stream.getvalue()


def strategy_words(strategy: Strategy) -> str:
    """The strategies with the axes behind them."""
    return "; ".join(f"{part} {text}" for part, text in strategy)
