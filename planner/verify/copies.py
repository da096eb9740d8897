"""Copies of weights and KV caches that a compiled program makes: whole arrays, and slices of one layer.

A plan reads every weight and every page once, straight from HBM into the computation that uses it. What is copied
first costs time or memory that nobody planned, unless it is how the bytes get where they are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.verify.hlo import Computation, Instruction, Module, Shape, executions
from planner.verify.origins import Origin, Origins
from planner.verify.transfers import KINDS

SMALLEST_SHARE = 1e-4
"""Copies of less than this share of a program's arguments are left out: norms, scales, positions."""
VMEM = 1
WAITS = frozenset({"bitcast", "copy-done", "get-tuple-element", "slice-done"})
PARTIAL_READS = frozenset({"dynamic-slice", "gather"})


@dataclass(frozen=True)
class Copy:
    """A copy that is made `count` times a run: of which argument, how much of it, and where to.

    `purpose` says why a copy is no fault: it feeds a planned gather, or brings to VMEM what is read from there in full.
    """

    array: str
    part: str
    bytes: int
    count: int
    memory: str
    instruction: str
    address: str
    purpose: str | None


def copies(module: Module, on_tpu: bool) -> list[Copy]:
    """Every copy of a whole argument, or of a layer of one, that is large enough to matter."""
    origins = Origins(module)
    total = sum(parameter.shapes[0].bytes for parameter in module.parameters.values())
    found = (
        copy
        for name, count in executions(module).items()
        for each in module.computations[name].instructions.values()
        for copy in _copies(module, origins, module.computations[name], each, count, on_tpu)
    )
    return [copy for copy in found if copy.bytes >= SMALLEST_SHARE * total]


def _copies(
    module: Module, origins: Origins, home: Computation, each: Instruction, count: int, on_tpu: bool
) -> Iterator[Copy]:
    """The copies that one executed instruction writes."""
    if each.opcode not in ("copy", "copy-start", "convert", "fusion", "reshape", "slice", "slice-start", "transpose"):
        return
    inside = _inside(module, home, each)
    for index, shape in enumerate(each.shapes[:1] if each.opcode != "fusion" else each.shapes):
        origin = origins.of(home, each, index if len(each.shapes) > 1 and each.opcode == "fusion" else None)
        if origin is None or not _moved_by(origin, inside):
            continue
        part = _part(shape, origin.parameter.shapes[0])
        if part:
            memory = "host" if not on_tpu else "VMEM" if shape.memory_space == VMEM else "HBM"
            purpose = _purpose(module, home, each, memory, part)
            yield Copy(
                origin.parameter.scope, part, shape.bytes, count, memory, each.name, each.scope.rpartition("/")[0], purpose
            )


def _inside(module: Module, home: Computation, each: Instruction) -> set[tuple[str, str]]:
    """The places that an executed instruction consists of: itself, or what it fuses."""
    places = {(home.name, each.name)}
    if each.opcode == "fusion":
        body = module.computations[each.called[0]]
        for fused in body.instructions.values():
            places |= _inside(module, body, fused)
    return places


def _moved_by(origin: Origin, places: set[tuple[str, str]]) -> bool:
    """Whether an array was moved, and not updated in place, at one of the places."""
    return any(place in places for place in origin.moves) and not any(place in places for place in origin.updates)


def _part(shape: Shape, whole: Shape) -> str | None:
    """How much of an argument a copy holds: all of it, one layer of a stack, or less than is looked at."""
    if shape.elements == whole.elements:
        return "whole"
    if len(whole.dims) > 2 and shape.elements * whole.dims[0] == whole.elements:
        return "layer"
    return None


def _purpose(module: Module, home: Computation, each: Instruction, memory: str, part: str) -> str | None:
    readers = list(_readers(home, each))
    if readers and all(_gathers(reader) for reader in readers):
        return "feeds a gather"
    if memory == "VMEM" and readers and not any(_reads_part(module, home, each, reader) for reader in readers):
        return "brought to VMEM and read there in full"
    if memory == "host" and part == "layer":
        return "the CPU backend's matmuls read plain arrays"
    return None


def _readers(home: Computation, each: Instruction) -> Iterator[Instruction]:
    """The instructions that read a value, looking through those that only wait for it or rename it."""
    for reader in home.instructions.values():
        if each.name in reader.operands:
            if reader.opcode in WAITS:
                yield from _readers(home, reader)
            else:
                yield reader


def _gathers(reader: Instruction) -> bool:
    return reader.opcode.removesuffix("-start") in KINDS or reader.name.startswith("async-collective-start")


def _reads_part(module: Module, home: Computation, each: Instruction, reader: Instruction) -> bool:
    """Whether a reader takes only a part of the value, such as the rows of a look-up."""
    if reader.opcode in PARTIAL_READS:
        return True
    if reader.opcode != "fusion":
        return False
    body = module.computations[reader.called[0]]
    names = {each.name, *(waiting.name for waiting in home.instructions.values() if each.name in waiting.operands)}
    numbers = {number for number, name in enumerate(reader.operands) if name in names}
    parameters = {
        fused.name
        for fused in body.instructions.values()
        if fused.opcode == "parameter" and int(fused.arguments) in numbers
    }
    return any(
        fused.opcode in PARTIAL_READS and fused.operands[0] in parameters for fused in body.instructions.values()
    )
