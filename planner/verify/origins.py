"""Where values of a compiled program come from: the entry parameter behind a value that was only moved, never computed.

A value is followed upwards through tuples, loops (a loop carries its arrays in place), calls and fusions.
"""

import re
from dataclasses import dataclass
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
        moves: list[Place] = []
        updates: list[Place] = []
        value: Value | None = Value(home, each, index)
        while value is not None:
            place = Place(value.home.name, value.each.name)
            if value.each.opcode == "parameter" and value.home.name == self._module.entry:
                return Origin(value.each, tuple(reversed(moves)), tuple(reversed(updates)))
            if value.each.opcode in MOVES:
                moves.append(place)
            if value.each.opcode in UPDATES or value.each.opcode == "custom-call":
                updates.append(place)
            value = self._before(*value)
        return None

    def _before(self, home: Computation, each: Instruction, index: int | None) -> "Value | None":
        """The value that a value is, one instruction earlier."""
        match each.opcode:
            case "parameter":
                return self._given(home, each, index)
            case "get-tuple-element":
                return _operand(home, each, 0, int(each.attributes.partition("index=")[2].partition(",")[0]))
            case "tuple":
                return None if index is None else _operand(home, each, index)
            case "while":
                return _operand(home, each, 0, index)
            case "fusion":
                body = self._module.computations[each.called[0]]
                return Value(body, body.root, index)
            case opcode if opcode in MOVES | UPDATES | PASSES:
                return _operand(home, each, 0)
            case "custom-call":
                kept = updated_operand(each, index)
                return None if kept is None else _operand(home, each, kept)
        return None

    def _given(self, home: Computation, each: Instruction, index: int | None) -> "Value | None":
        """What the caller of a computation gives it as a parameter."""
        if home.name not in self._callers:
            return None
        name, caller = self._callers[home.name]
        number = int(each.arguments)
        if caller.opcode == "conditional":
            number = 1 + caller.called.index(home.name)
        return _operand(self._module.computations[name], caller, number, index)


def updated_operand(kernel: Instruction, index: int | None = None) -> int | None:
    """Number of the operand that a kernel updates in place to make its result, or element `index` of its results."""
    made = "" if index is None else str(index)
    found = re.search(rf"output_to_operand_aliasing=.*?\{{{made}\}}: \((\d+), \{{\}}\)", kernel.attributes)
    return int(found[1]) if found else None


class Value(NamedTuple):
    """The value of an instruction of a computation, or element number `part` of its tuple."""

    home: Computation
    each: Instruction
    part: int | None


def _operand(home: Computation, each: Instruction, number: int, index: int | None = None) -> Value | None:
    operand = home.instructions.get(each.operands[number]) if number < len(each.operands) else None
    return Value(home, operand, index) if operand else None
