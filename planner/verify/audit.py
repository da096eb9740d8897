"""Plan -> Audit: each phase of the package as compiled, against what the plan says of it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from cost_models.chips import chip
from planner.errors import CannotRun
from planner.plan.schema import Collective, Plan
from planner.plan.units import bytes_text
from planner.problem.chunks import steps_of
from planner.verify.build import Memory, Phase, Program, Progress, Target, compiled_programs, native_target
from planner.verify.compare import Row, compare
from planner.verify.copies import Copy, copies
from planner.verify.hlo import Module, parse, uncounted_loops
from planner.verify.memory import MemoryLine, memory_lines, total_line
from planner.verify.transfers import Transfer, transfers

FOREIGN = (
    "a plan for {chip}, compiled for CPU devices: its collectives and arguments are judged, not copies and temporaries"
)


@dataclass(frozen=True)
class PhaseAudit:
    """One phase: collectives, copies and memory, or why it did not compile. `seconds` is the time of compiling."""

    phase: Phase
    seconds: float
    rows: tuple[Row, ...] = ()
    copies: tuple[Copy, ...] = ()
    memory: tuple[MemoryLine, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def differences(self) -> tuple[str, ...]:
        """Every difference from the plan, a sentence each."""
        return tuple(self._differences())

    def _differences(self) -> Iterator[str]:
        if self.failure:
            yield f"{self.phase} does not compile: {self.failure}"
        yield from (row_text(row) for row in self.rows if row.status != "matched")
        yield from (copy_text(self.phase, copy) for copy in self.copies if copy.purpose is None)
        yield from (memory_text(self.phase, line) for line in self.memory if not line.ok)


@dataclass(frozen=True)
class Audit:
    """A plan beside the programs that its package compiles to."""

    name: str
    chip: str
    slice: str
    target: Target
    phases: tuple[PhaseAudit, ...]
    total: MemoryLine | None
    notes: tuple[str, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """Every difference from the plan, a sentence each."""
        told = [difference for phase in self.phases for difference in phase.differences]
        if self.total and not self.total.ok:
            told.append(memory_text("service", self.total))
        return tuple(told)

    @property
    def ok(self) -> bool:
        """Whether the programs are what the plan says."""
        return not self.differences


def silently(doing: str) -> AbstractContextManager[None]:
    """Progress that nobody is told of."""
    return nullcontext()


def verify_plan(
    plan: Plan,
    target: Target | None = None,
    progress: Progress = silently,
) -> Audit:
    """Compile the package of `plan` for `target` (its own kind of chip by default) and compare.

    `progress` is entered with a few words before each step that takes a while. Raises CannotRun when the compiler is
    not there.
    """
    native = native_target(plan)
    chosen = target or native
    if chosen == "tpu" and native != "tpu":
        raise CannotRun(f"the plan is for {plan.chip}, which is no TPU; compile it with --target cpu")
    programs = compiled_programs(plan, chosen, progress)
    return audit_of(plan, chosen, programs)


def audit_of(plan: Plan, target: Target, programs: Sequence[Program]) -> Audit:
    """The audit of programs that were compiled for `target`."""
    native = chip(plan.chip).kind == target
    memories: dict[Phase, Memory] = {each.phase: each.memory for each in programs if each.memory}
    return Audit(
        name=plan.name,
        chip=plan.chip,
        slice=plan.slice,
        target=target,
        phases=tuple(audit_program(plan, program, native) for program in programs),
        total=total_line(memories, plan.hbm, native) if len(memories) == len(programs) else None,
        notes=() if native else (FOREIGN.format(chip=plan.chip),),
    )


def audit_program(plan: Plan, program: Program, native: bool) -> PhaseAudit:
    """The audit of one compiled phase."""
    if program.failure is not None or program.memory is None:
        return PhaseAudit(program.phase, program.seconds, failure=program.failure)
    module = parse(program.text)
    runs = runs_of(plan, program.phase)
    found = transfers(module, {axis.name: axis.size for axis in plan.at(program.phase).mesh.axes})
    found = [replace(each, count=each.count * runs) for each in found]
    on_tpu = chip(plan.chip).kind == "tpu"
    return PhaseAudit(
        phase=program.phase,
        seconds=program.seconds,
        rows=compare(planned_collectives(plan, program.phase), found),
        copies=tuple(copies(module, on_tpu)) if native else (),
        memory=memory_lines(program.phase, program.memory, plan.hbm, native),
        notes=tuple(notes(module, found, runs)),
    )


def planned_collectives(plan: Plan, phase: Phase) -> tuple[Collective, ...]:
    """What the plan lists for a phase; handing a prompt's keys and values to the cache needs no collective."""
    return {"prefill": plan.prefill.collectives, "insert": (), "generate": plan.generate.collectives}[phase]


def runs_of(plan: Plan, phase: Phase) -> int:
    """How often the program of a phase runs in one of its steps: once for each chunk of the planned bucket."""
    return steps_of(plan.prefill.tokens, plan.prefill.chunk).number if phase == "prefill" else 1


def notes(module: Module, found: Sequence[Transfer], runs: int) -> Iterator[str]:
    """What a reader should know of how a program was counted."""
    if runs > 1:
        yield f"the program runs {runs} times, once for each chunk, and is counted so"
    for spelling in sorted({each.spelling for each in found if each.spelling}):
        count = sum(each.spelling == spelling for each in found)
        yield f"{counted(count, 'collective')} spelled as {spelling}: the same transfer, counted as planned"
    for loop in uncounted_loops(module):
        yield f"the loop %{loop} runs as often as its data say; what is in it is counted once"


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 collective`, `3 collectives`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def row_text(row: Row) -> str:
    """A collective that is not as planned, in a sentence."""
    if row.found is None:
        assert row.planned is not None
        return f"{row.address}: planned {planned_text(row.planned)} is missing"
    if row.planned is None:
        return f"{row.address}: unplanned {found_text(row.found)}"
    return (
        f"{row.address}: {', '.join(row.differs)}: planned {planned_text(row.planned)}, found {found_text(row.found)}"
    )


def planned_text(each: Collective) -> str:
    """A planned collective in a few words."""
    return f"{each.kind} over {','.join(each.axes)}, {bytes_text(each.bytes)} x {each.count}"


def found_text(each: Transfer) -> str:
    """A compiled transfer in a few words."""
    axes = "other groups than mesh axes" if each.axes is None else ",".join(each.axes)
    return f"{each.kind} over {axes}, {bytes_text(each.bytes)} x {each.count}"


def copy_text(phase: Phase, copy: Copy) -> str:
    """A copy that nobody planned, in a sentence."""
    what = copy.array if copy.part == "whole" else f"{copy.part} of {copy.array}"
    return f"{phase}: copies {what} to {copy.memory}, {bytes_text(copy.bytes)} x {copy.count} (%{copy.instruction})"


def memory_text(phase: str, line: MemoryLine) -> str:
    """A quantity of memory that is not as planned, in a sentence."""
    return f"{phase}: {line.what}: planned {bytes_text(line.planned)}, found {bytes_text(line.found)} ({line.verdict})"
