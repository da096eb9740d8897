"""An audit as tables for people, and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.plan.show import plain_table
from planner.plan.units import bytes_text, seconds_text
from planner.verify.audit import Audit, StepAudit
from planner.verify.compare import FIELDS, Row
from planner.verify.hbm import Traffic
from planner.verify.memory import MemoryLine
from planner.verify.run import Ran
from planner.verify.words import counted

FORMAT_VERSION = "1.0"
STYLES = {"matched": "", "different": "yellow", "missing": "red", "unplanned": "red"}


def show_audit(audit: Audit, console: Console) -> None:
    """Print an audit: the verdict first, then each step."""
    console.print(*verdict(audit), sep="\n")
    for note in audit.notes:
        console.print(f"  note: {note}")
    for step in audit.steps:
        show_step(step, console)
    if audit.total:
        console.print("", memory_table(audit.total), sep="\n")
    if audit.ran:
        console.print("", ran_text(audit.ran), sep="\n")


def verdict(audit: Audit) -> Iterator[Text | str]:
    """PASS, or the number of differences and each of them on a line."""
    compiler = "the TPU compiler" if audit.target == "tpu" else "the CPU compiler"
    where = f"{audit.name} on {audit.chip} {audit.slice}, by {compiler}"
    if audit.ok:
        programs = counted(len(audit.steps), "program")
        yield Text.assemble(("PASS", "bold green"), f" {where}: {programs} as planned")
        return
    count = counted(len(audit.differences), "difference")
    yield Text.assemble((f"{count} from the plan", "bold red"), f": {where}")
    yield from (f"  {difference}" for difference in audit.differences)


def show_step(step: StepAudit, console: Console) -> None:
    """Print one step."""
    console.print("", Text.assemble((step.step.name, "bold"), f": {summary(step)}"), sep="\n")
    if step.failure:
        return
    if step.rows:
        console.print(row_table(step.rows))
    if step.copies:
        console.print(copy_table(step))
    if step.traffic:
        console.print(traffic_table(step.traffic))
    console.print(memory_table(step.memory))
    for note in step.notes:
        console.print(f"  note: {note}")


def summary(step: StepAudit) -> str:
    """How long the step took to compile, how its collectives fared, and what it moves."""
    if step.failure:
        return f"does not compile: {step.failure}"
    counts = {status: sum(row.status == status for row in step.rows) for status in STYLES}
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "none"
    moved = f"; HBM bytes {step.traffic.over_least:.3f} times the least" if step.traffic else ""
    return f"compiled in {seconds_text(step.seconds)}; collectives: {told}{moved}"


def row_table(rows: Sequence[Row]) -> Table:
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


def copy_table(step: StepAudit) -> Table:
    """Copies of weights and cache, and what they are for."""
    table = plain_table("copy of", "part", "to", "bytes", "count", "why", numeric=(3, 4))
    for copy in step.copies:
        why = copy.purpose or Text("not planned", style="red")
        table.add_row(copy.array, copy.part, copy.memory, bytes_text(copy.bytes), str(copy.count), why)
    return table


def traffic_table(traffic: Traffic) -> Table:
    """HBM bytes of a step by part, predicted and compiled."""
    table = plain_table("HBM bytes of a step", "predicted", "compiled", "verdict", numeric=(1, 2))
    for row in traffic.rows:
        verdict = Text(row.verdict, style={"within": "", "more": "yellow", "over": "red"}[row.verdict])
        table.add_row(row.address, bytes_text(row.planned), bytes_text(row.found), verdict)
    table.add_row("weights and KV once", "", bytes_text(traffic.least), "")
    return table


def memory_table(lines: Sequence[MemoryLine]) -> Table:
    """Memory of one chip, planned and compiled."""
    table = plain_table("memory per chip", "planned", "compiled", "verdict", numeric=(1, 2))
    for line in lines:
        style = "" if line.ok else "red"
        table.add_row(line.what, bytes_text(line.planned), bytes_text(line.found), Text(line.verdict, style=style))
    return table


def ran_text(ran: Ran) -> str:
    """What was executed, and how near it came."""
    return (
        f"run ({ran.size}) on {counted(ran.devices, 'CPU device')} and on one: log probabilities after {ran.prompts} "
        f"prompts within {ran.logprobs_within:.1g}, {ran.steps} steps"
    )


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
        "steps": [step_data(step) for step in audit.steps],
        "total": [asdict(line) for line in audit.total],
        "run": asdict(audit.ran) if audit.ran else None,
    }
    return json.dumps(data, indent=2)


def step_data(step: StepAudit) -> dict[str, Any]:
    """One step as plain data."""
    return {
        "phase": step.step.phase,
        "bucket": step.step.bucket,
        "compile_s": round(step.seconds, 3),
        "failure": step.failure,
        "collectives": [row_data(row) for row in step.rows],
        "copies": [asdict(copy) for copy in step.copies],
        "memory": [asdict(line) for line in step.memory],
        "hbm": traffic_data(step.traffic) if step.traffic else None,
        "faults": step.faults,
        "notes": step.notes,
    }


def traffic_data(traffic: Traffic) -> dict[str, Any]:
    """HBM bytes as plain data."""
    return {"parts": [asdict(row) for row in traffic.rows], "least": traffic.least, "over_least": traffic.over_least}


def row_data(row: Row) -> dict[str, Any]:
    """One collective as plain data, planned beside found."""
    return {
        "address": row.address,
        "status": row.status,
        "differs": row.differs,
        "planned": row.planned.model_dump() if row.planned else None,
        "found": asdict(row.found) if row.found else None,
    }
