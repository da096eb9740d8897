"""Numbers with a written unit: `30 ms` is 0.03 seconds."""

import re

from pydantic_core import PydanticCustomError

# Unit -> (what it measures, its size in the base unit of that measure).
UNITS: dict[str, tuple[str, float]] = {
    "s": ("time", 1.0),
    "ms": ("time", 1e-3),
    "us": ("time", 1e-6),
    "min": ("time", 60.0),
    "B": ("bytes", 1.0),
    "KB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "TB": ("bytes", 1e12),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "TiB": ("bytes", 2.0**40),
    "%": ("fraction", 1e-2),
}
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*")
_EXAMPLES = {"time": "30 ms or 1.5 s", "bytes": "16 GiB", "fraction": "0.08 or 8 %"}


def quantity(value: object, measure: str) -> object:
    """`value` in the base unit of `measure` (seconds, bytes, one); what is neither number nor text is passed on."""
    if not isinstance(value, str):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise _wrong(f'cannot be "{value}": that is not a {measure}', measure)
    number, unit = float(match[1]), match[2]
    if not unit:
        return number
    if unit not in UNITS:
        raise _wrong(f'cannot be "{value}": "{unit}" is not a unit of {measure}', measure)
    found, size = UNITS[unit]
    if found != measure:
        raise _wrong(f'cannot be "{value}": that is in {found}, and a {measure} is wanted', measure)
    return number / round(1 / size) if size < 1 else number * size


def seconds(value: object) -> object:
    """`value` in seconds; a bare number is seconds already."""
    return quantity(value, "time")


def fraction(value: object) -> object:
    """`value` as a part of one; a bare number is that already."""
    return quantity(value, "fraction")


def _wrong(problem: str, measure: str) -> PydanticCustomError:
    known = ", ".join(unit for unit, (found, _) in UNITS.items() if found == measure)
    hint = f"write {_EXAMPLES[measure]} (units: {known})"
    return PydanticCustomError("unit", "{problem}", {"problem": problem, "hint": hint})
