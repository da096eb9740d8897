"""An audit as tables for people, and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.plan.show import plain_table
from planner.plan.units import bytes_text, seconds_text
from planner.verify.audit import Audit, PhaseAudit, counted
from planner.verify.compare import FIELDS, Row
from planner.verify.memory import MemoryLine

FORMAT_VERSION = "1.0"
STYLES = {"matched": "", "different": "yellow", "missing": "red", "unplanned": "red"}


def show_audit(audit: Audit, console: Console) -> None:
    """Print an audit: what was compiled, each phase, and every difference."""
    compiler = "the TPU compiler" if audit.target == "tpu" else "the CPU compiler"
    console.print(Text.assemble((audit.name, "bold"), f" on {audit.chip} {audit.slice}, by {compiler}"))
    for note in audit.notes:
        console.print(f"  note: {note}")
    for phase in audit.phases:
        show_phase(phase, console)
    if audit.total:
        console.print("", memory_table([audit.total]), sep="\n")
    console.print("", *verdict(audit), sep="\n")


def verdict(audit: Audit) -> Iterator[Text | str]:
    """The differences, one a line, under a line that counts them."""
    if audit.ok:
        yield Text("no difference from the plan", style="green")
        return
    yield Text(f"{counted(len(audit.differences), 'difference')} from the plan", style="bold red")
    yield from (f"  {difference}" for difference in audit.differences)


def show_phase(phase: PhaseAudit, console: Console) -> None:
    """Print one phase."""
    console.print("", Text.assemble((phase.phase, "bold"), f": {summary(phase)}"), sep="\n")
    if phase.failure:
        return
    if phase.rows:
        console.print(row_table(phase.rows))
    if phase.copies:
        console.print(copy_table(phase))
    console.print(memory_table(phase.memory))
    for note in phase.notes:
        console.print(f"  note: {note}")


def summary(phase: PhaseAudit) -> str:
    """How long the phase took to compile, and how its collectives fared."""
    if phase.failure:
        return f"does not compile: {phase.failure}"
    counts = {status: sum(row.status == status for row in phase.rows) for status in STYLES}
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "none"
    return f"compiled in {seconds_text(phase.seconds)}; collectives: {told}"


def row_table(rows: tuple[Row, ...]) -> Table:
    """Collectives as planned and as found; a found value is shown where it differs."""
    table = plain_table("collective", "status", *FIELDS[:2], "bytes per chip", "count", numeric=(4, 5))
    for row in rows:
        cells = (cell(row, field) for field in FIELDS)
        table.add_row(row.address, Text(row.status, style=STYLES[row.status]), *cells)
    return table


def cell(row: Row, field: str) -> str:
    """The value of a field, or both values where they differ."""
    values = [value_text(getattr(side, field), field) for side in (row.planned, row.found) if side is not None]
    return " -> ".join(values) if field in row.differs else values[0]


def value_text(value: Any, field: str) -> str:
    """A field of a collective as it is printed."""
    if field == "axes":
        return "other groups" if value is None else ",".join(value)
    return bytes_text(value) if field == "bytes" else str(value)


def copy_table(phase: PhaseAudit) -> Table:
    """Copies of weights and cache, and what they are for."""
    table = plain_table("copy of", "part", "to", "bytes", "count", "why", numeric=(3, 4))
    for copy in phase.copies:
        why = copy.purpose or Text("not planned", style="red")
        table.add_row(copy.array, copy.part, copy.memory, bytes_text(copy.bytes), str(copy.count), why)
    return table


def memory_table(lines: "tuple[MemoryLine, ...] | list[MemoryLine]") -> Table:
    """Memory of one chip, planned and compiled."""
    table = plain_table("memory per chip", "planned", "compiled", "verdict", numeric=(1, 2))
    for line in lines:
        style = "" if line.ok else "red"
        table.add_row(line.what, bytes_text(line.planned), bytes_text(line.found), Text(line.verdict, style=style))
    return table


def audit_to_json(audit: Audit) -> str:
    """The audit as JSON, with its verdict."""
    data = {
        "format_version": FORMAT_VERSION,
        "ok": audit.ok,
        "name": audit.name,
        "chip": audit.chip,
        "slice": audit.slice,
        "target": audit.target,
        "notes": audit.notes,
        "differences": audit.differences,
        "phases": [phase_data(phase) for phase in audit.phases],
        "total": asdict(audit.total) if audit.total else None,
    }
    return json.dumps(data, indent=2)


def phase_data(phase: PhaseAudit) -> dict[str, Any]:
    """One phase as plain data."""
    return {
        "phase": phase.phase,
        "compile_s": round(phase.seconds, 3),
        "failure": phase.failure,
        "collectives": [row_data(row) for row in phase.rows],
        "copies": [asdict(copy) for copy in phase.copies],
        "memory": [asdict(line) for line in phase.memory],
        "notes": phase.notes,
    }


def row_data(row: Row) -> dict[str, Any]:
    """One collective as plain data, planned beside found."""
    return {
        "address": row.address,
        "status": row.status,
        "differs": row.differs,
        "planned": row.planned.model_dump() if row.planned else None,
        "found": asdict(row.found) if row.found else None,
    }
