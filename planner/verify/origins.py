"""Where values of a compiled program come from: the entry parameter behind a value that was only moved, never computed.

A value is followed upwards through tuples, loops (a loop carries its arrays in place), calls and fusions.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.verify.hlo import Computation, Instruction, Module

HELD = ("weights.", "cache")
"""How the names of the arguments begin that a chip holds from step to step."""
MOVES = frozenset({"convert", "copy", "copy-start", "dynamic-slice", "reshape", "slice", "slice-start", "transpose"})
"""What makes a new array out of an old one, or of a part of it, without computing."""
PASSES = frozenset({"bitcast", "copy-done", "optimization-barrier", "slice-done"})
UPDATES = frozenset({"dynamic-update-slice", "scatter"})
"""What changes a part of an array in place."""


class Place(NamedTuple):
    """An instruction in its computation."""

    computation: str
    instruction: str


@dataclass(frozen=True)
class Origin:
    """The entry parameter that a value comes from, and where it was moved and updated on the way, latest last."""

    parameter: Instruction
    moves: tuple[Place, ...] = ()
    updates: tuple[Place, ...] = ()


class Origins:
    """The origins of the values of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._callers = {
            called: (home.name, each)
            for home in module.computations.values()
            for each in home.instructions.values()
            if each.opcode in ("call", "conditional", "fusion", "while")
            for called in each.called
        }

    def of(self, home: Computation, each: Instruction, index: int | None = None) -> Origin | None:
        """The origin of the value of an instruction, or of element `index` of its tuple; None for a computed value."""
        here = Place(home.name, each.name)
        match each.opcode:
            case "parameter":
                return self._of_parameter(home, each, index)
            case "get-tuple-element":
                return self._of_operand(home, each, 0, int(each.attributes.partition("index=")[2].partition(",")[0]))
            case "tuple":
                return None if index is None else self._of_operand(home, each, index)
            case "while":
                return self._of_operand(home, each, 0, index)
            case "fusion":
                body = self._module.computations[each.called[0]]
                return self.of(body, body.root, index)
            case opcode if opcode in MOVES:
                found = self._of_operand(home, each, 0)
                return found and replace(found, moves=(*found.moves, here))
            case opcode if opcode in UPDATES:
                found = self._of_operand(home, each, 0)
                return found and replace(found, updates=(*found.updates, here))
            case opcode if opcode in PASSES:
                return self._of_operand(home, each, 0)
        return None

    def _of_operand(self, home: Computation, each: Instruction, number: int, index: int | None = None) -> Origin | None:
        operand = home.instructions.get(each.operands[number]) if number < len(each.operands) else None
        return self.of(home, operand, index) if operand else None

    def _of_parameter(self, home: Computation, each: Instruction, index: int | None) -> Origin | None:
        if home.name == self._module.entry:
            return Origin(each)
        if home.name not in self._callers:
            return None
        name, caller = self._callers[home.name]
        number = int(each.arguments)
        if caller.opcode == "conditional":
            number = 1 + caller.called.index(home.name)
        return self._of_operand(self._module.computations[name], caller, number, index)
