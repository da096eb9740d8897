"""The ledger of rejected candidates as a file of JSON lines, and in a few words.

The first line counts; then one line for each candidate, and one for each option of the taken candidate. Values and
bounds are the solver's integers, which compare between candidates; sizes are bytes, times seconds.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from math import ceil

from planner.plan.units import in_base_unit, limit_text
from planner.problem.options import Mode, Option, Role
from planner.problem.problem import LimitName, MeshTable
from planner.solve.candidate import Candidate
from planner.solve.ledger import Entry, Least, Ledger, OptionEntry

FORMAT_VERSION = "1.0"

WORDS = {
    "taken": "taken",
    "tied": "as good but later in the order",
    "dearer": "solved and dearer",
    "bounded": "dismissed by their bound",
    "limit": "ruled out by one limit",
    "limits": "ruled out by the limits together",
    "illegal": "without a legal layout",
    "kept": "left to the solver",
    "dominated": "dominated",
}
"""What a count of each verdict is called."""

OPTION_WORDS = {**WORDS, "dearer": "only in dearer solutions"}


def ledger_to_jsonl(ledger: Ledger, name: str) -> str:
    """The ledger as JSON lines; the same problem gives the same bytes."""
    winner = next((index for index, entry in enumerate(ledger.entries) if entry.verdict == "taken"), None)
    lines: list[dict[str, object]] = [header(ledger, name)]
    lines += [candidate_line(entry, index, ledger, winner) for index, entry in enumerate(ledger.entries)]
    lines += [option_line(entry, ledger) for entry in ledger.options]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def header(ledger: Ledger, name: str) -> dict[str, object]:
    """What was solved, and how many candidates and options met which end."""
    return {
        "kind": "ledger",
        "format_version": FORMAT_VERSION,
        "name": name,
        "objective": ledger.problem.goal,
        "value": ceil(ledger.taken.value) if ledger.taken else None,
        "candidates": dict(counted(ledger.entries)),
        "options": {block: dict(counts) for block, counts in option_counts(ledger).items()},
    }


def counted(entries: Iterable[Entry | OptionEntry]) -> Counter[str]:
    """How many entries have each verdict, in the order of the verdicts."""
    found: Counter[str] = Counter(entry.verdict for entry in entries)
    return Counter({verdict: found[verdict] for verdict in WORDS if found[verdict]})


def option_counts(ledger: Ledger) -> dict[str, Counter[str]]:
    """Per block of the taken candidate, how many options have each verdict."""
    if ledger.taken is None:
        return {}
    blocks = ledger.taken.candidate.table.blocks
    return {
        block.name: counted(entry for entry in ledger.options if entry.block == number)
        for number, block in enumerate(blocks)
    }


def candidate_line(entry: Entry, index: int, ledger: Ledger, winner: int | None) -> dict[str, object]:
    """One candidate; `ratio` is its value, or else its bound, over the taken value."""
    candidate = entry.candidate
    line: dict[str, object] = {
        "kind": "candidate",
        "index": index,
        "slice": candidate.table.slice,
        "mesh": mesh_text(candidate.table),
        "prompts": candidate.table.prompts,
        **({} if candidate.table.chunk is None else {"chunk": candidate.table.chunk}),
        **({"drafted_tokens": candidate.table.drafts.tokens} if candidate.table.drafts else {}),
        "batch": candidate.batch,
        "verdict": entry.verdict,
        "bound": None if entry.bound is None else ceil(entry.bound),
    }
    if len(stored_bytes(ledger)) > 1:
        sizes = candidate.table.source.machine.sizes
        line |= {"weight_bytes": sizes.weight_bytes, "kv_bytes": sizes.kv_bytes}
    if entry.value is not None:
        line["value"] = ceil(entry.value)
    reached = entry.bound if entry.value is None else entry.value
    if ledger.taken is not None and reached is not None:
        line["ratio"] = round(float(reached / ledger.taken.value), 6) if ledger.taken.value else 1.0
        if entry.verdict in ("bounded", "dearer", "tied"):
            line["by"] = winner
    if entry.broken:
        line["broken"] = [least_data(least) for least in entry.broken]
    return line


def stored_bytes(ledger: Ledger) -> set[tuple[float, float]]:
    """Bytes of a weight and of a cached value that candidates differ in, where the spec leaves a choice of dtypes."""
    machines = [table.source.machine for table in ledger.problem.meshes if table.source is not None]
    return {(machine.sizes.weight_bytes, machine.sizes.kv_bytes) for machine in machines}


def mesh_text(table: MeshTable) -> str:
    """The mesh axes: `x=4, y0=2, y1=2`."""
    return ", ".join(f"{axis.name}={axis.size}" for axis in table.mesh)


def least_data(least: Least) -> dict[str, object]:
    """A limit, and the least that is needed: bytes or seconds."""
    have, need = (in_base_unit(least.limit, value) for value in (least.have, least.need))
    return {"limit": least.limit, "have": have, "need": need}


def option_line(entry: OptionEntry, ledger: Ledger) -> dict[str, object]:
    """One option of the taken candidate, by its block and its row in the block's table."""
    assert ledger.taken is not None
    candidate = ledger.taken.candidate
    line: dict[str, object] = {
        "kind": "option",
        "block": candidate.table.blocks[entry.block].name,
        "index": entry.index,
        "option": option_data(candidate, entry),
        "verdict": entry.verdict,
    }
    if entry.by is not None:
        line["by"] = entry.by
    if entry.limit is not None:
        line["limit"] = entry.limit
    return line


def option_data(candidate: Candidate, entry: OptionEntry) -> dict[str, str]:
    """What an option does with each mesh axis: its role, how prefill reads the axis where it reads a copy, and its mode
    in prefill where that is another one."""
    block, mesh = candidate.table.blocks[entry.block], candidate.table.mesh
    option: Option = block.options[entry.index]
    axes = zip(mesh, option.roles, option.stored or option.roles, option.modes, strict=True)
    return {
        axis.name: axis_text(role, None if option.stored is None else read, mode) for axis, role, read, mode in axes
    }


def axis_text(role: Role, read: Role | None, mode: Mode) -> str:
    """`d_ff`, `d_ff, gathered`, or with a copy `d_ff, read as none, sequence`."""
    read_as = [] if read is None else [f"read as {read}"]
    return ", ".join([role, *read_as, *([] if mode is Mode.SAME else [mode])])


def ledger_to_text(ledger: Ledger) -> str:
    """How many candidates and options met which end."""
    lines = [f"{len(ledger.entries)} candidates (mesh x batch): {counts_text(counted(ledger.entries), WORDS)}"]
    lines += [f"  {text}" for text in limit_texts(ledger)]
    for block, counts in option_counts(ledger).items():
        lines.append(f"{counts.total()} options of {block} in the taken one: {counts_text(counts, OPTION_WORDS)}")
    return "\n".join(lines)


def counts_text(counts: Counter[str], words: dict[str, str]) -> str:
    """`1 taken, 19 dismissed by their bound`."""
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items())


def limit_texts(ledger: Ledger) -> Iterator[str]:
    """For each limit that rules out candidates alone: how many, and the nearest of them."""
    least: dict[LimitName, list[Least]] = {}
    for entry in ledger.entries:
        for each in entry.broken:
            least.setdefault(each.limit, []).append(each)
    for limit, found in least.items():
        nearest = min(found, key=lambda each: each.need)
        need, have = (limit_text(limit, value) for value in (nearest.need, nearest.have))
        yield f"{limit.upper()} rules out {len(found)} alone; the nearest needs {need} of {have}"
