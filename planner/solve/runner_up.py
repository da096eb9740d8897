"""The best plan not taken, for each phase: same slice, mesh and batch, but another way to cut the phase's layers."""

from planner.problem.options import RULES, Option
from planner.problem.rules import Axes, GenerateRules, PrefillRules
from planner.solve.candidate import Candidate, Choice, Forbid
from planner.solve.model import Taken
from planner.solve.search import runner_up

PHASES = ("prefill", "generate")


def runner_up_in(taken: Taken, phase: str) -> Taken | None:
    """The best solution whose cut of some block of its layers in a phase differs in more than axis names."""
    return runner_up(taken, same_cut(taken, phase))


def same_cut(taken: Taken, phase: str) -> Forbid:
    """Whether a choice of a block of layers, any but the last, cuts its phase as the solution does."""
    cuts = {choice.block: cut(taken.candidate, choice, phase) for choice in taken.choices[:-1]}

    def forbidden(candidate: Candidate, choice: Choice) -> bool:
        return choice.block in cuts and cut(candidate, choice, phase) == cuts[choice.block]

    return forbidden


def cut(candidate: Candidate, choice: Choice, phase: str) -> tuple[object, ...]:
    """What a choice does to its block in a phase: the sizes of the axes behind each logical axis, not their names."""
    mesh = candidate.table.mesh
    names = tuple(axis.name for axis in mesh)
    sizes = {axis.name: axis.size for axis in mesh}
    block = candidate.table.blocks[choice.block]
    option: Option = block.options[choice.index]
    tables: tuple[GenerateRules, PrefillRules] = RULES[block.name](names, option)
    table = tables[PHASES[::-1].index(phase)]

    def cut_by(axes: Axes) -> tuple[int, ...]:
        return tuple(sorted(sizes[axis] for axis in axes))

    return tuple(cut_by(axes) for axes in table)
