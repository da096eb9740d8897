"""Module -> the transfers between chips that one run of it makes, as a plan would list them.

What is only another spelling of the same transfer is counted as that transfer, and `spelling` says so:

    an all-reduce with its own slice in one fusion, which the TPU compiler makes of a reduce-scatter
    an asynchronous collective that appears in a start, in the fusions beside it, and in a done
    an all-to-all of one array given as one operand for each chip
    a collective of several arrays, which a compiler makes of several collectives that need not wait for each other
    bf16 values that the CPU backend widens to float32 on their way, since it has no bf16 collectives
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.verify.addresses import address_made, addresses_of
from planner.verify.groups import Axes, Sizes, axes_of
from planner.verify.hlo import Computation, Instruction, Module, Shape, executions
from planner.verify.origins import HELD, Origins

KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "all-to-all": "all_to_all",
    "collective-broadcast": "broadcast",
    "collective-permute": "permute",
    "ragged-all-to-all": "ragged_all_to_all",
    "reduce-scatter": "reduce_scatter",
}
WIDENED = "float32 in place of bf16"
FUSED = "all-reduce and slice in one fusion"
PIECES = "one operand for each chip"
JOINED = "one of several in one instruction"
BF16_BYTES_OF_FLOAT32 = 2


@dataclass(frozen=True)
class Transfer:
    """A collective of the compiled program, executed `count` times a run.

    `bytes` is per chip, of the larger of operand and result; `address` the innermost plan address among its named
    scopes, if the compiler kept them; `axes` is None for groups that are no set of mesh axes. `array` names the weight
    or cache that is sent, if it is one.
    """

    kind: str
    axes: Axes | None
    bytes: int
    count: int
    address: str | None
    instruction: str
    spelling: str | None = None
    array: str | None = None


def transfers(module: Module, sizes: Sizes) -> list[Transfer]:
    """Every transfer of a run, in the order of the text; `sizes` are the mesh axes, major first."""
    origins = Origins(module)
    return [
        replace(transfer, array=_array_sent(origins, module.computations[name], instruction))
        for name, count in executions(module).items()
        for instruction in module.computations[name].instructions.values()
        for transfer in _of(module, module.computations[name], instruction, count, sizes)
    ]


def _array_sent(origins: Origins, home: Computation, each: Instruction) -> str | None:
    """The weight or cache that an instruction sends."""
    for operand in home.operands(each):
        origin = origins.of(home, operand)
        if origin and origin.parameter.scope.startswith(HELD):
            return origin.parameter.scope
    return None


def address_of(scope: str) -> str | None:
    """The innermost plan address of a collective in a path of named scopes."""
    found = [address for address in addresses_of(scope) if address.count(".") > 1]
    return found[-1] if found else None


def _of(module: Module, home: Computation, each: Instruction, count: int, sizes: Sizes) -> Iterator[Transfer]:
    """The transfers that one executed instruction makes."""
    if _kind(each):
        yield from _plain(module, home, each, count, sizes)
    elif each.opcode == "fusion":
        for called in each.called:
            yield from _fused(module, module.computations[called], each, count, sizes)


def _kind(instruction: Instruction) -> str | None:
    return KINDS.get(instruction.opcode.removesuffix("-start"))


def _plain(module: Module, home: Computation, each: Instruction, count: int, sizes: Sizes) -> Iterator[Transfer]:
    """The transfers of a collective; a variadic one makes one for each operand."""
    kind, axes = _kind(each), axes_of(each.attributes, sizes)
    assert kind is not None
    if axes == ():
        return
    parts = list(_parts(home, each))
    spelling = None
    if kind == "all_to_all" and len(parts) > 1:
        parts, spelling = [sum(parts)], PIECES
    if _widened(module, home, each):
        parts, spelling = [part // BF16_BYTES_OF_FLOAT32 for part in parts], WIDENED
    addresses = _part_addresses(module, home, each, len(parts))
    if spelling is None and len(set(addresses)) > 1:
        spelling = JOINED
    for part, address in zip(parts, addresses, strict=True):
        yield Transfer(kind, axes, part, count, address, each.name, spelling)


def _part_addresses(module: Module, home: Computation, each: Instruction, parts: int) -> list[str | None]:
    """The plan address of each part: where several collectives were joined, the one at which its operand was made."""
    own, named = address_of(each.scope), addresses_of(each.scope)
    if parts == 1 or len(set(named)) < 2:
        return [own] * parts
    return [address_made(module, home, operand, named) or own for operand in home.operands(each)]


def _parts(home: Computation, each: Instruction) -> Iterator[int]:
    """Bytes of the larger of operand and result, operand by operand."""
    operands = [_array(operand) for operand in home.operands(each)]
    results = [shape for shape in each.shapes if shape.dims or len(operands) == len(each.shapes)]
    if each.opcode.endswith("-start") and len(results) >= 2 * len(operands):
        results = results[len(operands) : 2 * len(operands)]
    for index, operand in enumerate(operands):
        result = results[index] if index < len(results) else operand
        yield max(operand.bytes, result.bytes)


def _array(instruction: Instruction) -> Shape:
    return max(instruction.shapes, key=lambda shape: shape.bytes)


def _fused(module: Module, body: Computation, fusion: Instruction, count: int, sizes: Sizes) -> Iterator[Transfer]:
    """The transfers that start in a fusion."""
    started = {
        name
        for each in body.instructions.values()
        if each.opcode == "custom-call" and '"AsyncCollectiveStart"' in each.attributes
        for name in each.operands
    }
    sliced = {each.operands[0] for each in body.instructions.values() if each.opcode == "dynamic-slice"}
    for each in body.instructions.values():
        if each.opcode == "fusion":
            for called in each.called:
                yield from _fused(module, module.computations[called], each, count, sizes)
        elif _kind(each) and ("chain_id=" not in each.attributes or each.name in started):
            for transfer in _plain(module, body, each, count, sizes):
                address = transfer.address or address_of(fusion.scope)
                if transfer.kind == "all_reduce" and each.name in sliced:
                    yield Transfer("reduce_scatter", transfer.axes, transfer.bytes, count, address, fusion.name, FUSED)
                else:
                    yield Transfer(transfer.kind, transfer.axes, transfer.bytes, count, address, fusion.name)


def _widened(module: Module, home: Computation, each: Instruction) -> bool:
    """Whether float32 values are bf16 ones, widened for the transfer.

    Reductions of the CPU backend say so in the name of their sum; values that are only moved come straight from a
    conversion.
    """
    if any(shape.dtype != "f32" for shape in each.shapes):
        return False
    reduces = each.named("to_apply")
    if reduces is not None:
        return reduces.endswith("_promoted")
    return all(_converted(module, home, operand) for operand in home.operands(each))


def _converted(module: Module, home: Computation, each: Instruction) -> bool:
    """Whether an instruction's value is a bf16 one converted to float32, looking through moves and into fusions."""
    if each.opcode == "fusion":
        body = module.computations[each.called[0]]
        return _converted(module, body, body.root)
    if each.opcode == "convert":
        return next(home.operands(each)).shapes[0].dtype == "bf16"
    if each.opcode in ("bitcast", "copy", "reshape", "transpose", "slice"):
        return _converted(module, home, next(home.operands(each)))
    return False
