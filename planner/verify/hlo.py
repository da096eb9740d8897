"""Optimised HLO text -> Module: computations, instructions, what is donated, and how often each computation runs.

Reads what `compiled.as_text()` prints on TPU and CPU. Only what the audit asks about is parsed; the rest of an
instruction stays text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

BITS = {"pred": 8, "token": 0, "opaque": 0}
"""Bits of dtypes whose name does not end in them."""

_SHAPE = re.compile(r"\b([a-z][a-z0-9]*)\[([\d,<=]*)\](\{[^{}]*\})?")
_INSTRUCTION = re.compile(r"^  (ROOT )?%([\w.\-]+) = ")
_HEADER = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_NAME = re.compile(r"%([\w.\-]+)")
_COMMENT = re.compile(r"/\*.*?\*/")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation|branch_computations|called_computations)"
    r"=(\{[^}]*\}|%[\w.\-]+)"
)
_ALIASED = re.compile(r"\((\d+), \{[^}]*\}, (?:may|must)-alias\)")
_KNOWN_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_LAYOUT = re.compile(r"\{([\d,]*)")
_TILE = re.compile(r"T\(([\d,]*)\)")
_INTEGER = re.compile(r"\d+")


class Shape(NamedTuple):
    """One array: dtype, dimensions, and its layout as printed, tiles and memory space included."""

    dtype: str
    dims: tuple[int, ...]
    layout: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def bits(self) -> int:
        """Bits of one element."""
        digits = re.search(r"\d+", self.dtype)
        return BITS[self.dtype] if self.dtype in BITS or digits is None else int(digits[0])

    @property
    def bytes(self) -> int:
        """Bytes of the elements, without the padding of tiles."""
        return -(-self.elements * self.bits // 8)

    @property
    def padded_bytes(self) -> int:
        """Bytes with the padding of tiles, which count dimensions from the minor end of the layout."""
        order, tile = _LAYOUT.match(self.layout), _TILE.search(self.layout)
        if order is None or tile is None:
            return self.bytes
        dims = list(self.dims)
        minor_first = [int(axis) for axis in order[1].split(",") if axis]
        sides = [int(side) for side in tile[1].split(",") if side]
        for axis, side in zip(minor_first, reversed(sides), strict=False):
            dims[axis] = -(-dims[axis] // side) * side
        return -(-prod(dims) * self.bits // 8)

    @property
    def in_hbm(self) -> bool:
        """Whether the array is in HBM (or host memory on CPU)."""
        return self.memory_space == 0

    @property
    def hbm_bytes(self) -> int:
        """Padded bytes if the array is in HBM."""
        return self.padded_bytes if self.in_hbm else 0

    @property
    def memory_space(self) -> int:
        """0 is HBM (or host memory on CPU), 1 is VMEM; others hold semaphores and scalars."""
        space = re.search(r"S\((\d+)\)", self.layout)
        return int(space[1]) if space else 0


@dataclass(frozen=True)
class Instruction:
    """One instruction; `shapes` are its results, a tuple flattened; `attributes` is the text after the operands."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    arguments: str
    attributes: str
    is_root: bool

    @property
    def called(self) -> tuple[str, ...]:
        """Computations that the instruction names."""
        return tuple(name for group in _CALLED.findall(self.attributes) for name in _NAME.findall(group))

    def named(self, attribute: str) -> str | None:
        """The computation given as `attribute`, such as the body of a loop."""
        found = re.search(rf"\b{attribute}=%([\w.\-]+)", self.attributes)
        return found[1] if found else None

    @property
    def scope(self) -> str:
        """The path of named scopes and operations that the instruction was traced from, or an empty text."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found[1] if found else ""


@dataclass(frozen=True)
class Computation:
    """A named sequence of instructions."""

    name: str
    instructions: Mapping[str, Instruction]

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return next(each for each in self.instructions.values() if each.is_root)

    @cached_property
    def users(self) -> Mapping[str, Sequence[Instruction]]:
        """Instructions by the names of those that they read."""
        found: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for each in self.instructions.values():
            for operand in dict.fromkeys(each.operands):
                found.setdefault(operand, []).append(each)
        return found

    def operands(self, instruction: Instruction) -> Iterator[Instruction]:
        """The instructions that an instruction of this computation reads."""
        return (self.instructions[name] for name in instruction.operands if name in self.instructions)


@dataclass(frozen=True)
class Module:
    """A compiled program of one chip. `donated` numbers the entry parameters whose memory a result takes over."""

    computations: Mapping[str, Computation]
    entry: str
    donated: frozenset[int]

    @property
    def parameters(self) -> dict[int, Instruction]:
        """Entry parameters by number."""
        found = (each for each in self.computations[self.entry].instructions.values() if each.opcode == "parameter")
        return {int(each.arguments): each for each in found}


def parse(text: str) -> Module:
    """The module in the text of a compiled program."""
    computations: dict[str, Computation] = {}
    entry = ""
    header = text[: text.find("\n")] if "\n" in text else text
    for name, is_entry, lines in _blocks(text):
        instructions = (_instruction(line) for line in lines)
        computations[name] = Computation(name, {each.name: each for each in instructions})
        entry = name if is_entry else entry
    return Module(computations, entry, frozenset(int(number) for number in _ALIASED.findall(header)))


def _blocks(text: str) -> Iterator[tuple[str, bool, list[str]]]:
    """(name, whether it is the entry, one line for each instruction) of every computation."""
    name, is_entry, lines = "", False, list[str]()
    for line in text.splitlines():
        if not name:
            if header := _HEADER.match(line):
                name, is_entry, lines = header[2], bool(header[1]), []
        elif _INSTRUCTION.match(line):
            lines.append(line)
        elif line == "}" or line.startswith("}, execution_thread="):
            yield name, is_entry, lines
            name = ""
        elif lines:  # metadata with line breaks inside
            lines[-1] += line


def _instruction(line: str) -> Instruction:
    """The instruction on a line: `ROOT %name = type opcode(operands), attributes`."""
    start = _INSTRUCTION.match(line)
    assert start is not None
    rest = line[start.end() :]
    end = _closing(rest) if rest.startswith("(") else rest.index(" ")
    opcode = _OPCODE.match(rest, end)
    assert opcode is not None, f"no opcode in: {line[:200]}"
    close = _closing(rest, opcode.end() - 1)
    arguments = _COMMENT.sub("", rest[opcode.end() : close - 1])
    return Instruction(
        name=start[2],
        opcode=opcode[1],
        shapes=shapes_in(rest[:end]),
        operands=tuple(_NAME.findall(arguments)),
        arguments=arguments,
        attributes=rest[close:],
        is_root=bool(start[1]),
    )


def _closing(text: str, start: int = 0) -> int:
    """The index after the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index + 1
    return len(text)


def shapes_in(text: str) -> tuple[Shape, ...]:
    """The arrays in the text of a type."""
    return tuple(
        Shape(dtype, tuple(int(size.lstrip("<=")) for size in dims.split(",") if size), layout)
        for dtype, dims, layout in _SHAPE.findall(_COMMENT.sub("", text))
    )


def executions(module: Module) -> dict[str, int]:
    """How often each computation runs in one run of the program; those inside fusions and reductions are left out.

    Branches of a conditional count as if each were taken.
    """
    counts = dict.fromkeys(module.computations, 0)
    pending = [(module.entry, 1)]
    while pending:
        name, times = pending.pop()
        counts[name] += times
        for instruction in module.computations[name].instructions.values():
            if instruction.opcode == "while":
                body = instruction.named("body")
                assert body is not None
                pending.append((body, times * trips(module, instruction)))
            elif instruction.opcode in ("call", "conditional", "call-start", "async-start"):
                pending.extend((called, times) for called in instruction.called)
    return {name: times for name, times in counts.items() if times}


def trips(module: Module, loop: Instruction) -> int:
    """How often the body of a `while` runs; once, if it cannot be told."""
    return known_trips(module, loop) or 1


def known_trips(module: Module, loop: Instruction) -> int | None:
    """How often the body of a `while` runs: as the compiler noted it, or the bound that its condition counts up to."""
    if noted := _KNOWN_TRIPS.search(loop.attributes):
        return int(noted[1])
    name = loop.named("condition")
    assert name is not None
    condition = module.computations[name]
    bounds = [
        int(each.arguments)
        for each in condition.operands(condition.root)
        if each.opcode == "constant" and _INTEGER.fullmatch(each.arguments)
    ]
    return bounds[0] if len(bounds) == 1 else None


def uncounted_loops(module: Module) -> list[str]:
    """Executed loops of which it cannot be told how often they run."""
    return [
        each.name
        for name in executions(module)
        for each in module.computations[name].instructions.values()
        if each.opcode == "while" and known_trips(module, each) is None
    ]
