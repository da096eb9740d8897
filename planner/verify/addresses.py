"""Plan addresses of instructions: their own named scopes, or those of what is near."""

import re
from collections import deque
from collections.abc import Collection

from planner.verify.hlo import Computation, Instruction, Module

UNTOLD = frozenset({"constant", "get-tuple-element", "parameter", "tuple", "while"})
"""Beyond these an address says nothing of an instruction."""
FARTHEST = 50
"""So many instructions are looked at for an address."""

_ADDRESS = re.compile(r"\b((?:prefill|generate|insert)\.[a-z_]+(?:\.[a-z0-9_]+)?)(?:/|$)")


def addresses_of(scope: str) -> list[str]:
    """The plan addresses in a path of named scopes, innermost last; of joined instructions those of all."""
    return _ADDRESS.findall(scope)


def address_in(module: Module, home: Computation, each: Instruction) -> str | None:
    """The plan address of an instruction: its own, or of what it fuses, of what reads its value, of what made it.

    A product of matrices that lost its name belongs to what made its rows: a plan counts the reading of weights there.
    """
    first = not _multiplies(module, each)
    return _nearest(module, home, each, forwards=first) or _nearest(module, home, each, forwards=not first)


def address_made(module: Module, home: Computation, each: Instruction, among: Collection[str]) -> str | None:
    """The nearest of some addresses at which an instruction's value was made."""
    return _nearest(module, home, each, forwards=False, among=among)


def _nearest(
    module: Module, home: Computation, start: Instruction, forwards: bool, among: Collection[str] = ()
) -> str | None:
    """The address nearest to an instruction among what reads its value, or among what that was made of."""
    pending, seen = deque([start]), {start.name}
    while pending and len(seen) < FARTHEST:
        each = pending.popleft()
        found = _own_address(module, each)
        if found and (found in among or not among):
            return found
        for other in home.users[each.name] if forwards else home.operands(each):
            if other.name not in seen and other.opcode not in UNTOLD:
                seen.add(other.name)
                pending.append(other)
    return None


def _multiplies(module: Module, each: Instruction) -> bool:
    return any(instruction.opcode in ("convolution", "dot") for instruction in (each, *_fused(module, each)))


def _fused(module: Module, each: Instruction) -> list[Instruction]:
    return list(module.computations[each.called[0]].instructions.values()) if each.opcode == "fusion" else []


def _own_address(module: Module, each: Instruction) -> str | None:
    for instruction in (each, *reversed(_fused(module, each))):
        if found := addresses_of(instruction.scope):
            return found[-1]
    return None
