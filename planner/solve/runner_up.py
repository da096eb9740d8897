"""The best plan not taken, for each phase: same slice, mesh and batch, but another way to cut the phase's layers."""

from dataclasses import replace

import numpy as np

from planner.problem.options import RULES, Mode, Option
from planner.problem.pools import PoolPricer
from planner.problem.problem import Bools, MeshTable
from planner.problem.rules import Axes, GenerateRules, PrefillRules
from planner.problem.spaces import Key, Roles, Space
from planner.problem.tables import Judged
from planner.solve.model import Taken
from planner.solve.search import solve_one

PHASES = ("prefill", "generate")

Cut = tuple[tuple[int, ...], ...]


def runner_up(taken: Taken, phase: str) -> Taken | None:
    """The best solution of the same slice, mesh and batch in which some block of layers, any but the last, leaves the
    cut of a phase."""
    candidate, cuts = taken.candidate, cuts_of(taken, phase)
    if phase == "prefill" and not isinstance(candidate.table.source, PoolPricer):
        candidate = replace(candidate, table=apart(candidate.table, cuts))
    hits = [forbidden(candidate.table, number, cut, phase) for number, cut in enumerate(cuts)]
    return solve_one(candidate, None, (*hits, None))


def cuts_of(taken: Taken, phase: str) -> list[Cut]:
    """What a solution does to each block of layers in a phase."""
    table, found = taken.candidate.table, []
    for choice in taken.choices[:-1]:
        block = table.blocks[choice.block]
        option: Option = block.options[choice.index]
        side = option.roles if phase == "generate" else (option.read, option.modes)
        found.append(cut(table, block.name, side))
    return found


def apart(table: MeshTable, cuts: list[Cut]) -> MeshTable:
    """A table in which no option of another cut is left out because one of these is better."""

    def judge(number: int, key: Key) -> Judged:
        return Judged(apart=int(cut(table, table.blocks[number].name, key) == cuts[number]))

    blocks = tuple(
        table.source.block(
            table.blocks[number].name,
            table.prompts,
            table.chunk,
            table.drafts,
            lambda key, number=number: judge(number, key),
        )
        for number in range(len(cuts))
    )
    return replace(table, price=lambda: (*blocks, table.blocks[-1]))


def forbidden(table: MeshTable, number: int, own: Cut, phase: str) -> Bools:
    """Whether each option of a block cuts it in this way."""
    block = table.blocks[number]
    space: Space = block.options  # type: ignore[assignment]
    sides, of = (space.roles, space.role_of) if phase == "generate" else (space.keys, space.key_of)
    same: Bools = np.array([cut(table, block.name, side) == own for side in sides], dtype=np.bool_)[of]
    return same


def cut(table: MeshTable, name: str, side: Roles | Key) -> Cut:
    """What a side of an option does to its block: the sizes of the axes behind each logical axis, not their names."""
    names = tuple(axis.name for axis in table.mesh)
    sizes = {axis.name: axis.size for axis in table.mesh}
    rules = table_of(name, names, side)
    return tuple(tuple(sorted(sizes[axis] for axis in axes)) for axes in rules)


def table_of(name: str, names: Axes, side: Roles | Key) -> GenerateRules | PrefillRules:
    """The table of a phase that a side is."""
    if isinstance(side[0], tuple):
        return RULES[name](names, Option(*side))[1]
    return RULES[name](names, Option(side, (Mode.SAME,) * len(side)))[0]
