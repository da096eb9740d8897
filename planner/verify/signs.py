"""Signs of trouble in a compiled program that are no transfer and no copy: work done twice, and slow instructions."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from planner.verify.addresses import address_in
from planner.verify.hlo import Instruction, Module, executions
from planner.verify.traffic import Pages, moved

SLOW = 3.0
"""An instruction with so many times the cycles of its siblings per byte changes the order of what it reads."""
LARGE = 0.01
"""Siblings are those that move at least this share of a program's bytes."""
FEWEST = 4

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


def recomputed(module: Module) -> list[str]:
    """Executed instructions that the compiler added to compute once more what did not stay in memory."""
    return [
        each.name
        for name in executions(module)
        for each in module.computations[name].instructions.values()
        if ".remat" in each.name
    ]


def slow_instructions(module: Module, pages: Pages) -> Iterator[str]:
    """Instructions whose estimated cycles per byte are far above those at which most bytes of a program are moved."""
    rates = list(_rates(module, pages))
    if len(rates) < FEWEST:
        return
    usual = _usual(rates)
    for each in rates:
        if each.cycles_per_byte > SLOW * usual:
            times = each.cycles_per_byte / usual
            yield (
                f"%{each.instruction.name} ({each.address or 'no address'}) is estimated at {times:.1f} times the "
                "cycles of its siblings per byte"
            )


class _Rate(NamedTuple):
    """An instruction's cycles for each byte that it moves in HBM, without those that any instruction takes."""

    instruction: Instruction
    address: str | None
    bytes: int
    cycles_per_byte: float


def _rates(module: Module, pages: Pages) -> Iterator[_Rate]:
    """The rates of the instructions that move a large share of a program's bytes."""
    sizes = {each.instruction: each.bytes for each in moved(module, pages)}
    whole = sum(sizes.values())
    estimated = [
        (home, each, cycles, count)
        for name, count in executions(module).items()
        for home in (module.computations[name],)
        for each in home.instructions.values()
        if (cycles := cycles_of(each))
    ]
    start = min((cycles for _, _, cycles, _ in estimated), default=0)
    for home, each, cycles, count in estimated:
        size = sizes.get(each.name, 0)
        if size and size >= LARGE * whole:
            yield _Rate(each, address_in(module, home, each), size, (cycles - start) * count / size)


def _usual(rates: Sequence[_Rate]) -> float:
    """The rate of the middle one of all bytes, so that a few large instructions outweigh many small ones."""
    ordered = sorted(rates, key=lambda each: each.cycles_per_byte)
    below = accumulate(each.bytes for each in ordered)
    half = sum(each.bytes for each in ordered) / 2
    return next(each.cycles_per_byte for each, bytes_ in zip(ordered, below, strict=True) if bytes_ >= half)


def cycles_of(each: Instruction) -> int:
    """The compiler's estimate of one execution; 0 where it gives none."""
    found = _CYCLES.search(each.attributes)
    return int(found[1]) if found else 0
