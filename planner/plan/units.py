"""Numbers as people read them: three significant digits with a unit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.problem.problem import LimitName

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
RESOURCES = {"compute": "compute", "hbm": "HBM", "ici": "ICI", "fixed": "fixed overhead"}
"""What can bind a step, as people read it."""


def digits(value: float) -> str:
    """Three significant digits, never in exponent form: 1230, 45.6, 7.89, 0.123."""
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text or abs(value) >= 1000 else text


def seconds_text(seconds: float) -> str:
    """A duration: `7.41 ms`."""
    if seconds == 0:
        return "0"
    scale, unit = next(((s, u) for s, u in TIMES if abs(seconds) >= s * 0.9995), TIMES[-1])
    return f"{digits(seconds / scale)} {unit}"


def bytes_text(size: float) -> str:
    """A size in decimal units: `13.6 GB`."""
    scale, unit = next(((s, u) for s, u in SIZES if abs(size) >= s * 0.9995), (1.0, "B"))
    return f"{digits(size / scale)} {unit}"


def percent_text(fraction: float) -> str:
    """A share or a change: `24.5 %`."""
    return f"{digits(round(fraction * 100, 4))} %"


def dearer_text(ratio: float) -> str:
    """An objective against another: `3.39 % dearer`, or `0.4 % cheaper` below it."""
    return f"{percent_text(abs(ratio - 1))} {'cheaper' if ratio < 1 else 'dearer'}"


def in_base_unit(limit: "LimitName", value: int) -> float:
    """A limited quantity of a problem in bytes per chip, or in seconds."""
    # Text is also made of plans that are only read, which need none of what problems are built with.
    from planner.problem.problem import NS, UNIT_BYTES

    return float(value * UNIT_BYTES) if limit == "hbm" else value / NS


def limit_text(limit: "LimitName", value: int) -> str:
    """A limited quantity of a problem: `14.7 GB`, `20 ms`."""
    return (bytes_text if limit == "hbm" else seconds_text)(in_base_unit(limit, value))
