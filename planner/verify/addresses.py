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
    """The plan address of an instruction: its own, or of what it fuses, of what reads its value, of what made it."""
    return _nearest(module, home, each, forwards=True) or _nearest(module, home, each, forwards=False)


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


def _own_address(module: Module, each: Instruction) -> str | None:
    fused = list(module.computations[each.called[0]].instructions.values()) if each.opcode == "fusion" else []
    for instruction in (each, *reversed(fused)):
        if found := addresses_of(instruction.scope):
            return found[-1]
    return None
