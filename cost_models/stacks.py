"""Software stacks: launch costs, efficiencies and overlap, which belong to the program and not to the chip."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from cost_models.roofline import Overlap


@dataclass(frozen=True, slots=True)
class Stack:
    """What a software stack adds to the chip's physics. Seconds and fractions; see stacks.toml for what each means."""

    name: str
    title: str
    collective_launch_s: float
    step_s: float
    mxu_efficiency: float
    hbm_efficiency: float
    ici_efficiency: float
    latency: Literal["max", "sum"]
    ring_factor: Literal["asymptotic", "exact"]
    overlap: Overlap
    weight_passes: float
    hop_s: float | None = None
    """Seconds per hop where the stack's differs from the chip's."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)


@cache
def stacks() -> tuple[Stack, ...]:
    """Every stack of stacks.toml."""
    tables = tomllib.loads(resources.files(__package__).joinpath("stacks.toml").read_text(encoding="utf-8"))
    return tuple(_stack(name, table) for name, table in tables.items())


def stack(name: str) -> Stack:
    """The stack called `name`."""
    for each in stacks():
        if each.name == name:
            return each
    raise LookupError(f'unknown stack "{name}"; known are {", ".join(each.name for each in stacks())}')


def _stack(name: str, table: dict[str, Any]) -> Stack:
    rows = {key: row for key, row in table.items() if key != "title"}
    values = {key: row["value"] for key, row in rows.items()}
    sources = MappingProxyType({key: row["source"] for key, row in rows.items()})
    return Stack(name=name, title=table["title"], sources=sources, **values)


BOOK = stack("book")
CPU = stack("cpu")
