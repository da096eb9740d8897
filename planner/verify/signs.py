"""Signs of trouble in a compiled program that are no transfer and no copy: work done twice, and slow instructions."""

import re
from collections.abc import Iterator
from statistics import median

from planner.verify.hlo import Instruction, Module, executions
from planner.verify.traffic import Pages, address_in, moved

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
    """Instructions whose estimated cycles per byte are far above those of the others that move as much."""
    sizes = {each.instruction: each for each in moved(module, pages)}
    whole = sum(each.bytes for each in sizes.values())
    large = {
        each.name: (home, each, cycles * count / sizes[each.name].bytes)
        for name, count in executions(module).items()
        for home in (module.computations[name],)
        for each in home.instructions.values()
        if (cycles := cycles_of(each)) and each.name in sizes and sizes[each.name].bytes >= LARGE * whole
    }
    if len(large) < FEWEST:
        return
    usual = median(rate for *_, rate in large.values())
    for home, each, rate in large.values():
        if rate > SLOW * usual:
            where = address_in(module, home, each) or "no address"
            yield f"%{each.name} ({where}) is estimated at {rate / usual:.1f} times the cycles of its siblings per byte"


def cycles_of(each: Instruction) -> int:
    """The compiler's estimate of one execution; 0 where it gives none."""
    found = _CYCLES.search(each.attributes)
    return int(found[1]) if found else 0
