"""Copies of weights and KV caches that a compiled program makes: whole arrays, and slices of one layer.

A plan reads every weight and every page once, straight from HBM into the computation that uses it. What is copied
first costs time or memory that nobody planned, unless it is how the bytes get where they are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.verify.hlo import Computation, Instruction, Module, Shape, executions
from planner.verify.origins import HELD, Origin, Origins
from planner.verify.transfers import KINDS

SMALLEST_SHARE = 1e-4
SMALLEST_BYTES = 64 * 1024
"""Copies of less than this share of a program's arguments, or so few bytes, are left out: norms, scales, positions."""
MEMORIES = {0: "HBM", 1: "VMEM", 3: "CMEM", 5: "host"}
"""Memory space of a TPU program -> its name; CMEM is the on-chip memory of v4."""
ON_CHIP = frozenset({"VMEM", "CMEM"})
WAITS = frozenset({"bitcast", "copy-done", "copy-start", "get-tuple-element", "slice-done"})
JOINED = '"ConcatBitcast"'
"""The custom call that takes pieces which were copied side by side as one array."""
PARTIAL_READS = frozenset({"dynamic-slice", "gather"})


@dataclass(frozen=True)
class Copy:
    """A copy that is made `count` times a run: of which argument, how much of it, and where to.

    `purpose` says why a copy is no fault: it feeds a planned gather, or brings on chip what is read there in full.
    """

    array: str
    part: str
    bytes: int
    count: int
    memory: str
    instruction: str
    purpose: str | None


def copies(module: Module, on_tpu: bool) -> list[Copy]:
    """Every copy of weights or cache, or of a part of them, that is large enough to matter."""
    origins = Origins(module)
    total = sum(parameter.shapes[0].bytes for parameter in module.parameters.values())
    found = (
        copy
        for name, count in executions(module).items()
        for each in module.computations[name].instructions.values()
        for copy in _copies(module, origins, module.computations[name], each, count, on_tpu)
    )
    return [copy for copy in found if copy.bytes >= max(SMALLEST_BYTES, SMALLEST_SHARE * total)]


def _copies(
    module: Module, origins: Origins, home: Computation, each: Instruction, count: int, on_tpu: bool
) -> Iterator[Copy]:
    """The copies that one executed instruction writes."""
    if each.opcode not in ("copy", "copy-start", "convert", "fusion", "reshape", "slice", "slice-start", "transpose"):
        return
    inside = _inside(module, home, each)
    for index, shape in _written(each):
        origin = origins.of(home, each, index)
        if origin and origin.parameter.scope.startswith(HELD) and _moved_by(origin, inside):
            memory = MEMORIES.get(shape.memory_space, "on-chip memory") if on_tpu else "host"
            part = _part(shape, origin.parameter.shapes[0])
            purpose = _purpose(module, home, each, memory, part)
            yield Copy(origin.parameter.scope, part, shape.bytes, count, memory, each.name, purpose)


def _written(each: Instruction) -> Iterator[tuple[int | None, Shape]]:
    """The arrays that an instruction writes, with their place in its tuple where it makes several."""
    if each.opcode == "fusion" and len(each.shapes) > 1:
        yield from enumerate(each.shapes)
    else:  # the result of a slice-start stands after its operand, that of a copy-start before it
        yield None, each.shapes[1 if each.opcode == "slice-start" else 0]


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


def _part(shape: Shape, whole: Shape) -> str:
    """How much of an argument a copy holds: `whole`, or `1/80`."""
    share = whole.elements / shape.elements
    return "whole" if share <= 1 else f"1/{share:.0f}"


def _purpose(module: Module, home: Computation, each: Instruction, memory: str, part: str) -> str | None:
    """Why a copy is no fault, or None."""
    readers = list(_readers(module, home, each))
    if readers and all(_gathers(reader) for reader, _ in readers):
        return "feeds a gather"
    if memory in ON_CHIP and readers and not any(_reads_part(module, *reading) for reading in readers):
        return f"brought to {memory} and read there in full"
    if memory == "host" and part != "whole":
        return "the CPU backend's matmuls read plain arrays"
    return None


def _readers(module: Module, home: Computation, each: Instruction) -> Iterator[tuple[Instruction, str]]:
    """The instructions that read a value, and its name there, through those that wait for it, rename it or join it."""
    for reader in home.instructions.values():
        if each.name in reader.operands:
            if reader.opcode == "tuple":
                yield from _readers_in_loops(module, home, reader, reader.operands.index(each.name))
            elif reader.opcode in WAITS or JOINED in reader.attributes:
                yield from _readers(module, home, reader)
            else:
                yield reader, each.name


def _readers_in_loops(
    module: Module, home: Computation, carried: Instruction, index: int
) -> Iterator[tuple[Instruction, str]]:
    """The instructions that read element `index` of what a loop carries."""
    for loop in home.instructions.values():
        body = loop.named("body") if loop.opcode == "while" and carried.name in loop.operands else None
        if body is None:
            continue
        inside = module.computations[body]
        for each in inside.instructions.values():
            of_carry = (
                each.opcode == "get-tuple-element" and inside.instructions[each.operands[0]].opcode == "parameter"
            )
            if of_carry and int(each.attributes.partition("index=")[2].partition(",")[0]) == index:
                yield from _readers(module, inside, each)


def _gathers(reader: Instruction) -> bool:
    """Whether an instruction is a collective, or starts one."""
    return reader.opcode.removesuffix("-start") in KINDS or reader.name.startswith("async-collective-start")


def _reads_part(module: Module, reader: Instruction, name: str) -> bool:
    """Whether `reader` takes only a part of the value `name`, such as the rows of a look-up."""
    if reader.opcode != "fusion":
        return reader.opcode in PARTIAL_READS
    body = module.computations[reader.called[0]].instructions.values()
    parameters = {
        fused.name for fused in body if fused.opcode == "parameter" and reader.operands[int(fused.arguments)] == name
    }
    return any(fused.opcode in PARTIAL_READS and fused.operands[0] in parameters for fused in body)
