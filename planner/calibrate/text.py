"""A calibration as tables and as JSON."""

import json
from dataclasses import asdict
from math import inf, isinf

from rich.console import Group, RenderableType
from rich.table import Table

from planner.calibrate.calibrate import Calibration, Constant
from planner.plan.catalogue import flops_text
from planner.plan.show import plain_table
from planner.plan.units import bytes_text, digits, seconds_text

FORMAT_VERSION = "1.0"


def calibration_tables(found: Calibration) -> RenderableType:
    """Constants beside the catalogue's, then every collective beside both predictions."""
    opening = (
        f"{found.devices} virtual CPU devices on {found.cores} cores, all at work at once; "
        "a busy machine measures slower, so repeat before you believe"
    )
    closing = (
        f"collectives: the fitted constants are typically off by a factor of {digits(found.fitted_factor)}, "
        f"the catalogue's by {digits(found.catalogue_factor)}"
    )
    drowned = [f"left out because noise drowned them: {found.drowned}"] if found.drowned else []
    return Group(opening, "", constants_table(found), "", collectives_table(found), "", closing, *drowned)


def constants_table(found: Calibration) -> Table:
    """One row per constant."""
    table = plain_table("constant", "where", "measured", "catalogue", "ratio", numeric=(2, 3, 4))
    for each in found.constants:
        ratio = digits(each.measured / each.catalogue) if not isinf(each.measured) else "-"
        table.add_row(each.name, each.place, value_text(each, each.measured), value_text(each, each.catalogue), ratio)
    return table


def value_text(constant: Constant, value: float) -> str:
    """A constant with its unit, which its name tells."""
    if constant.name.startswith("peak_flops"):
        return flops_text(value)
    if constant.name.endswith("bytes_per_s"):
        return "too fast to tell" if value == inf else f"{bytes_text(value)}/s"
    return seconds_text(value)


def collectives_table(found: Calibration) -> Table:
    """One row per measured collective."""
    table = plain_table("collective", "devices", "bytes", "measured", "fitted", "catalogue", numeric=range(1, 6))
    for line in found.collectives:
        sample, times = line.sample, (line.sample.seconds, line.fitted_s, line.catalogue_s)
        table.add_row(sample.kind, str(sample.ways), bytes_text(sample.bytes), *map(seconds_text, times))
    return table


def calibration_to_json(found: Calibration) -> str:
    """Everything as JSON; a rate too fast to tell is null."""
    data = asdict(found)
    for each in data["constants"]:
        each["measured"] = None if isinf(each["measured"]) else each["measured"]
    return json.dumps({"format_version": FORMAT_VERSION, **data}, indent=2) + "\n"
