"""Collectives of a compiled step, read from its optimised text: kind, mesh axes, bytes, executions."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "permute",
}
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "s8": 1, "u8": 1, "pred": 1, "s32": 4, "u32": 4, "s64": 8, "f64": 8}
Key = tuple[str, tuple[str, ...], int]


def collectives(text: str, mesh: Mapping[str, int]) -> Counter[Key]:
    """(kind, axes in mesh order, bytes of the larger of operand and result) -> executions in a run.

    Groups of one device are left out.
    """
    bodies = dict(_computations(text))
    found: Counter[Key] = Counter()
    pending = [(next(name for name in bodies if name.startswith("ENTRY")), 1)]
    while pending:
        name, times = pending.pop()
        for line in bodies[name]:
            if called := re.search(r"\bwhile\(.*condition=%?([\w.-]+), body=%?([\w.-]+)", line):
                pending.append((called[2], times * _trips(line, bodies[called[1]])))
            elif called := re.search(r"\b(?:call|fusion)\(.*(?:to_apply|calls)=%?([\w.-]+)", line):
                pending.append((called[1], times))
            elif match := re.search(rf"= (.*?) ({'|'.join(KINDS)})(?:-start)?\((.*)", line):
                found[_key(match[2], match[1], line, bodies[name], mesh)] += times
    return Counter({key: times for key, times in found.items() if key[1]})


def _computations(text: str) -> Iterator[tuple[str, list[str]]]:
    name, body = "", list[str]()
    for line in text.splitlines():
        if header := re.match(r"(ENTRY )?%?([\w.-]+) \(.*\{$", line):
            name, body = f"{header[1] or ''}{header[2]}", []
        elif line.startswith("}"):
            yield name, body
        else:
            body.append(line)


def _trips(line: str, condition: Sequence[str]) -> int:
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', line):
        return int(known[1])
    return int(re.findall(r"constant\((\d+)\)", "\n".join(condition))[-1])


def _bytes(shapes: str) -> int:
    return sum(
        ITEM_BYTES[dtype] * prod(int(size) for size in sizes.split(",") if size)
        for dtype, sizes in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shapes)
    )


def _key(kind: str, result: str, line: str, body: Sequence[str], mesh: Mapping[str, int]) -> Key:
    arguments = re.findall(r"%([\w.-]+)", line.split(f"{kind}(", 1)[1].split(")", 1)[0])
    operands = sum(
        _bytes(other.split(" = ", 1)[1].split("(", 1)[0])
        for other in body
        if other.strip().removeprefix("ROOT ").split(" = ")[0].lstrip("%") in arguments
    )
    return KINDS[kind], _axes(line, mesh), max(_bytes(result), operands)


def _axes(line: str, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The mesh axes along which the first replica group varies."""
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        group = [int(device) for device in listed[1].split(",")]
    else:
        iota = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line)
        assert iota, line
        shape, source = ([int(n) for n in part.split(",")] for part in iota.groups()[:2])
        order = [int(n) for n in iota[3].split(",")] if iota[3] else range(len(source))
        group = list(np.arange(prod(source)).reshape(source).transpose(order).reshape(shape)[0])
    places = np.unravel_index(group, list(mesh.values()))
    return tuple(axis for axis, place in zip(mesh, places, strict=True) if len(set(place.tolist())) > 1)
