"""The chip catalogue as tables and as plain data."""

from dataclasses import fields
from typing import Any

from rich.table import Table

from cost_models.chips import Chip, chips
from planner.plan.show import plain_table
from planner.plan.units import bytes_text, digits


def catalogue_table() -> Table:
    """One row per chip."""
    table = plain_table("chip", "kind", "peak bf16", "HBM", "HBM/s", "link/s", "largest", "wraps", numeric=range(2, 6))
    for each in chips():
        table.add_row(
            each.name,
            each.kind,
            flops_text(each.peak_flops_per_s.get("bf16")),
            bytes_text(each.hbm_bytes),
            f"{bytes_text(each.hbm_bytes_per_s)}/s",
            f"{bytes_text(each.ici_bytes_per_s)}/s",
            "x".join(map(str, each.max_slice)),
            each.wrap_rule,
        )
    return table


def flops_text(flops_per_s: float | None) -> str:
    """A peak rate: `197 TFLOP/s`."""
    if flops_per_s is None:
        return "-"
    scale, unit = (1e12, "TFLOP/s") if flops_per_s >= 1e12 else (1e9, "GFLOP/s")
    return f"{digits(flops_per_s / scale)} {unit}"


def chip_table(chip: Chip) -> Table:
    """Every number of one chip with its source."""
    table = plain_table(f"{chip.name}: {chip.title}", "value", "source")
    values = chip_data(chip)
    for name, source in chip.sources.items():
        table.add_row(name, str(looked_up(values, name)), source)
    return table


def chip_data(chip: Chip) -> dict[str, Any]:
    """A chip as plain data, without its sources."""
    values = {field.name: getattr(chip, field.name) for field in fields(chip) if field.name != "sources"}
    return {**values, "peak_flops_per_s": dict(chip.peak_flops_per_s)}


def looked_up(values: dict[str, Any], dotted: str) -> Any:
    """The value at a dotted name."""
    found: Any = values
    for part in dotted.split("."):
        found = found[part]
    return found
