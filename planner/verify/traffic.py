"""HBM bytes that one run of a TPU program moves on a chip, by plan address, read from its instructions.

Every executed instruction reads its operands and writes its results; those in HBM are counted with the padding of their
tiles, loops multiplied out. What a fusion takes only a part of counts as that part, and so does what it updates in
place. A kernel that is given the KV cache reads the pages of its slots, which the text does not say: `Pages` does.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from planner.verify.addresses import address_in
from planner.verify.hlo import Computation, Instruction, Module, Shape, executions
from planner.verify.origins import Origins
from planner.verify.transfers import KINDS

ELSEWHERE = "elsewhere"
COLLECTIVES = "collectives"
KERNEL = '"tpu_custom_call"'
FREE = frozenset(
    (
        *("after-all", "bitcast", "call", "call-start", "conditional", "constant", "get-tuple-element"),
        *("optimization-barrier", "parameter", "partition-id", "replica-id", "tuple", "while"),
    )
)
"""Instructions that move nothing themselves."""
RENAMES = frozenset({"bitcast", "convert", "copy", "reshape", "transpose"})
"""What only passes a value on when it is fused."""
PARTS = frozenset({"dynamic-slice", "gather", "slice"})
UPDATED_WITH = {"dynamic-update-slice": 1, "scatter": 2}
"""Updates in place -> number of the operand that holds the new elements."""
SUBLANES, WORD_BYTES = 8, 4


@dataclass(frozen=True)
class Pages:
    """How much of the KV cache a kernel touches: `slots` of a chip, each with so many pages on it.

    Where a slot's pages are cut over chips, these have them in turn, and on average a part of one. `of_prompt`: the
    share of a prompt's keys and values of all layers that one chunk reads in one layer, on average.
    """

    slots: int
    pages_per_slot: float
    of_prompt: float = 1.0

    @property
    def read(self) -> float:
        """Pages of all slots."""
        return self.slots * self.pages_per_slot


@dataclass(frozen=True)
class Moved:
    """HBM bytes of one instruction in a run of the program."""

    address: str
    bytes: int
    instruction: str
    sent: bool = False
    """Whether it is a collective."""


def hbm_bytes(module: Module, pages: Pages) -> dict[str, int]:
    """Bytes of a run by plan address, in the order of the text; those of collectives by themselves."""
    total: dict[str, int] = defaultdict(int)
    for each in moved(module, pages):
        total[COLLECTIVES if each.sent else each.address] += each.bytes
    return dict(total)


def moved(module: Module, pages: Pages) -> Iterator[Moved]:
    """The bytes of every executed instruction that moves some."""
    reader = _Reader(module, pages)
    for name, count in executions(module).items():
        home = module.computations[name]
        for each in home.instructions.values():
            if size := reader.bytes_of(home, each):
                address = address_in(module, home, each) or ELSEWHERE
                yield Moved(address, size * count, each.name, sends(module, each))


def sends(module: Module, each: Instruction) -> bool:
    """Whether an instruction is a collective, or holds one."""
    if each.opcode == "fusion":
        return any(sends(module, fused) for fused in module.computations[each.called[0]].instructions.values())
    return each.opcode.removesuffix("-start") in KINDS


class _Reader:
    """What instructions of one module move."""

    def __init__(self, module: Module, pages: Pages) -> None:
        self._module, self._pages, self._origins = module, pages, Origins(module)

    def bytes_of(self, home: Computation, each: Instruction) -> int:
        """HBM bytes that one execution of an instruction moves."""
        if each.opcode in FREE or each.opcode.endswith(("-done", "-update")) or each.opcode == "async-start":
            return 0
        if each.opcode == "fusion":
            return self._of_fusion(home, each)
        if each.opcode == "custom-call":
            return self._of_kernel(home, each) if KERNEL in each.attributes else 0
        if each.opcode in PARTS or each.opcode == "slice-start":
            part = each.shapes[1] if each.opcode == "slice-start" else each.shapes[0]
            return part.bytes * sum(shape.in_hbm for shape in (_array(next(home.operands(each))), part))
        if each.opcode in UPDATED_WITH:
            return self._of_update(home, each)
        operands = sum(_array(operand).hbm_bytes for operand in home.operands(each))
        return operands + sum(shape.hbm_bytes for shape in _results(each))

    def _of_fusion(self, home: Computation, each: Instruction) -> int:
        body = self._module.computations[each.called[0]]
        numbered = {int(fused.arguments): fused for fused in body.instructions.values() if fused.opcode == "parameter"}
        read = 0
        for number, operand in enumerate(home.operands(each)):
            whole = _array(operand)
            if whole.in_hbm and number in numbered:
                part = self._part_read(body, numbered[number])
                read += whole.hbm_bytes if part is None else min(part, whole.hbm_bytes)
        outputs = list(body.operands(body.root)) if body.root.opcode == "tuple" else [body.root]
        written = (
            self._written(body, output) if shape.in_hbm else 0
            for output, shape in zip(outputs, each.shapes, strict=False)
        )
        return read + sum(written)

    def _part_read(self, body: Computation, value: Instruction) -> int | None:
        """Bytes that a fusion reads of a value, None for all of them."""
        if value.is_root:
            return None
        total = 0
        for user in body.users[value.name]:
            part = self._part_used(body, user, value)
            if part is None:
                return None
            total += part
        return total

    def _part_read_updated(self, body: Computation, updated: Instruction) -> int | None:
        """Bytes that a fusion reads of a value after an update in place; nothing where it only returns that."""
        total = 0
        for user in body.users[updated.name]:
            returned = user.is_root and (user.opcode == "tuple" or user.opcode in RENAMES)
            part = 0 if returned else self._part_used(body, user, updated)
            if part is None:
                return None
            total += part
        return total

    def _part_used(self, body: Computation, user: Instruction, value: Instruction) -> int | None:
        """Bytes that one user in a fusion reads of a value, None for all of them."""
        first = user.operands[0] == value.name
        if user.opcode in PARTS and first:
            return -(-user.shapes[0].elements * value.shapes[0].bits // 8)
        if user.opcode in UPDATED_WITH and first:
            return self._part_read_updated(body, user)
        if user.opcode in RENAMES:
            return self._part_read(body, user)
        if user.opcode == "fusion":
            inner = self._module.computations[user.called[0]]
            own = next(
                each
                for each in inner.instructions.values()
                if each.opcode == "parameter" and user.operands[int(each.arguments)] == value.name
            )
            return self._part_read(body, user) if _renamed(inner) is own else self._part_read(inner, own)
        return None

    def _written(self, body: Computation, output: Instruction) -> int:
        """Bytes that a fusion writes of one of its results."""
        shape = output.shapes[0]
        while output.opcode in RENAMES:
            output = next(body.operands(output))
        if output.opcode == "fusion":
            inner = self._module.computations[output.called[0]]
            return min(self._written(inner, inner.root), shape.padded_bytes)
        if output.opcode in UPDATED_WITH:
            return self._of_update(body, output)
        return shape.padded_bytes

    def _of_update(self, home: Computation, each: Instruction) -> int:
        """An update in place writes its new elements."""
        operands = list(home.operands(each))
        return _array(operands[UPDATED_WITH[each.opcode]]).bytes

    def _of_kernel(self, home: Computation, each: Instruction) -> int:
        """Operands and results of a kernel, of the KV cache the pages that it touches."""
        kept = "output_to_operand_aliasing" in each.attributes
        total = 0
        for operand in (home.instructions[name] for name in dict.fromkeys(each.operands)):
            origin, shape = self._origins.of(home, operand), _array(operand)
            if origin and origin.parameter.scope.startswith("cache") and shape.in_hbm:
                total += self._tokens_written(shape) if kept else self._pages_read(shape)
            elif origin and origin.parameter.scope == "kv":
                total += ceil(shape.hbm_bytes * self._pages.of_prompt)
            else:
                total += shape.hbm_bytes
        held = 0 if kept else sum(shape.hbm_bytes for shape in each.shapes)
        return total + held

    def _pages_read(self, cache: Shape) -> int:
        return ceil(cache.padded_bytes / cache.dims[0] * self._pages.read)

    def _tokens_written(self, cache: Shape) -> int:
        """A token is written by reading and writing the rows that share its tile."""
        rows = SUBLANES * WORD_BYTES * 8 // cache.bits if len(cache.dims) == 3 else 1
        return ceil(2 * rows * cache.padded_bytes / (cache.dims[0] * cache.dims[1]) * self._pages.slots)


def _renamed(body: Computation) -> Instruction:
    """What a fused computation returns under another name: its root, looked at through moves."""
    found = body.root
    while found.opcode in RENAMES:
        found = next(body.operands(found))
    return found


def _array(instruction: Instruction) -> Shape:
    return max(instruction.shapes, key=lambda shape: shape.bytes)


def _results(each: Instruction) -> tuple[Shape, ...]:
    """The arrays that an instruction writes: what starts a copy or a collective names its operands too."""
    if each.opcode == "copy-start":
        return each.shapes[:1]
    kind = each.opcode.removesuffix("-start")
    if kind in KINDS and each.opcode.endswith("-start") and len(each.shapes) >= 2 * len(each.operands):
        return each.shapes[len(each.operands) : 2 * len(each.operands)]
    return each.shapes
