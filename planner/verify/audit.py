"""Plan -> Audit: each step of the package as compiled, against what the plan says of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from cost_models.chips import chip
from planner.errors import CannotRun
from planner.plan.records import Hbm
from planner.plan.schema import Plan
from planner.verify.build import Memory, Program, Progress, Step, Target, compiled_programs, native_target
from planner.verify.compare import Row, compare
from planner.verify.copies import Copy, copies
from planner.verify.exhausted import why_not_compiled
from planner.verify.expected import Expected
from planner.verify.hbm import Traffic, traffic_of
from planner.verify.hlo import Module, parse, uncounted_loops
from planner.verify.log import full_copies
from planner.verify.memory import MemoryLine, memory_lines, pool_lines, total_lines, with_one_layer_copied
from planner.verify.run import Ran, Size, run_plan
from planner.verify.signs import recomputed, slow_instructions
from planner.verify.state import changed_hands
from planner.verify.transfers import Transfer, transfers
from planner.verify.words import copy_text, counted, hbm_text, memory_text, row_text

FOREIGN = (
    "a plan for {chip}, compiled for CPU devices: its collectives and arguments are judged, not copies, temporaries "
    "and HBM bytes"
)


@dataclass(frozen=True)
class StepAudit:
    """One step: collectives, copies, memory and HBM bytes, or why it did not compile; `seconds` is how long that took.

    `faults` are told in full sentences, and so are `notes`, which are no differences.
    """

    step: Step
    seconds: float
    rows: tuple[Row, ...] = ()
    copies: tuple[Copy, ...] = ()
    memory: tuple[MemoryLine, ...] = ()
    traffic: Traffic | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None
    temporaries: int = 0

    @property
    def differences(self) -> tuple[str, ...]:
        """Every difference from the plan, a sentence each."""
        return tuple(self._differences())

    def _differences(self) -> Iterator[str]:
        name = self.step.name
        if self.failure:
            yield f"{name} does not compile: {self.failure}"
        yield from (row_text(row) for row in self.rows if row.status != "matched")
        yield from (copy_text(name, copy) for copy in self.copies if copy.purpose is None)
        yield from (memory_text(name, line) for line in self.memory if not line.ok)
        if self.traffic:
            yield from (hbm_text(name, row) for row in self.traffic.rows if row.verdict == "over")
        yield from (f"{name}: {fault}" for fault in self.faults)


@dataclass(frozen=True)
class Audit:
    """A plan beside the programs that its package compiles to, and what they computed where they were run."""

    name: str
    chip: str
    slice: str
    target: Target
    steps: tuple[StepAudit, ...]
    total: tuple[MemoryLine, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    ran: Ran | None = None

    @property
    def differences(self) -> tuple[str, ...]:
        """Every difference from the plan, a sentence each."""
        told = [difference for step in self.steps for difference in step.differences]
        told += [memory_text("service", line) for line in self.total if not line.ok]
        return (*told, *self.faults, *(self.ran.differences if self.ran else ()))

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
    buckets: Sequence[int] | None = None,
    run: Size | None = None,
) -> Audit:
    """Compile the package of `plan` for `target` (its own kind of chip by default) and compare.

    Prefill is compiled for some `buckets`, or for all of the plan. With `run` the package is executed too, on CPU
    devices, tiny or full. `progress` is entered with a few words before each step that takes a while. Raises CannotRun
    when the compiler is not there.
    """
    native = native_target(plan)
    chosen = target or native
    if chosen == "tpu" and native != "tpu":
        raise CannotRun(f"the plan is for {plan.chip}, which is no TPU; compile it with --target cpu")
    if run and chosen != "cpu":
        raise CannotRun("a package is run on CPU devices: add --target cpu")
    if unknown := set(buckets or ()) - set(plan.prefill.buckets):
        raise CannotRun(f"the plan has no bucket of {min(unknown)} tokens; it has {plan.prefill.buckets}")
    audit = audit_of(plan, chosen, compiled_programs(plan, chosen, progress, buckets))
    return replace(audit, ran=run_plan(plan, progress, run)) if run else audit


def audit_of(plan: Plan, target: Target, programs: Sequence[Program]) -> Audit:
    """The audit of programs that were compiled for `target`."""
    native, expected = chip(plan.chip).kind == target, Expected(plan)
    memories: dict[Step, Memory] = {each.step: each.memory for each in programs if each.memory}
    return Audit(
        name=plan.name,
        chip=plan.chip,
        slice=plan.slice,
        target=target,
        steps=tuple(audit_program(expected, program, native) for program in programs),
        total=totals(expected, memories, native) if len(memories) == len(programs) else (),
        faults=tuple(changed_hands(programs, apart=plan.pool is not None)),
        notes=() if native else (FOREIGN.format(chip=plan.chip),),
    )


def totals(expected: Expected, memories: Mapping[Step, Memory], native: bool) -> tuple[MemoryLine, ...]:
    """What the chips of a plan hold at most, those of each slice by themselves."""
    plan = expected.plan
    if plan.pool is None:
        return total_lines(memories, budget(expected, plan.hbm), native)
    here = {step: memory for step, memory in memories.items() if step.phase not in ("prefill", "hand_over")}
    reading = pool_lines(memories, budget(expected, plan.pool.hbm), native)
    return (*total_lines(here, budget(expected, plan.hbm), native), *reading)


def budget(expected: Expected, hbm: Hbm) -> Hbm:
    """The HBM of a chip that its programs are held to."""
    if chip(expected.plan.chip).kind != "cpu":
        return hbm
    return with_one_layer_copied(hbm, expected.chosen.machine.sizes.layers)


def audit_program(expected: Expected, program: Program, native: bool) -> StepAudit:
    """The audit of one compiled step."""
    plan = expected.plan
    if program.failure is not None or program.memory is None:
        why = why_not_compiled(program.failure or "", program.given, plan.at(program.step.phase).hbm)
        return StepAudit(program.step, program.seconds, failure=why)
    module = parse(program.text)
    runs = expected.runs(program.step)
    found = transfers(module, {axis.name: axis.size for axis in plan.at(program.step.phase).mesh.axes})
    found = [replace(each, count=each.count * runs) for each in found]
    on_tpu = chip(plan.chip).kind == "tpu"
    traffic = traffic_of(module, program, expected) if native and on_tpu else None
    held_to = budget(expected, plan.at(program.step.phase).hbm)
    return StepAudit(
        step=program.step,
        seconds=program.seconds,
        rows=compare(expected.collectives(program.step), found),
        copies=tuple(copies(module, on_tpu)) if native else (),
        memory=memory_lines(program.step.phase, program.memory, held_to, native),
        traffic=traffic,
        faults=tuple(faults(module, program)),
        notes=tuple(notes(module, found, program.step, runs, expected if traffic else None)),
        temporaries=program.memory.temporaries,
    )


def faults(module: Module, program: Program) -> Iterator[str]:
    """What is wrong with a program, whatever its plan says."""
    yield from full_copies(program.log)
    if again := recomputed(module):
        yield f"computes {counted(len(again), 'instruction')} a second time to save memory, such as %{again[0]}"


def notes(module: Module, found: Sequence[Transfer], step: Step, runs: int, expected: Expected | None) -> Iterator[str]:
    """What a reader should know of how a program was counted, and which of its instructions look slow."""
    if runs > 1:
        often = (
            "a prompt, once for each chunk or stage" if step.phase == "prefill" else "a prefill, once for each prompt"
        )
        yield f"the program runs {runs} times for {often}, and is counted so"
    for spelling in sorted({each.spelling for each in found if each.spelling}):
        count = sum(each.spelling == spelling for each in found)
        yield f"{counted(count, 'collective')} spelled as {spelling}: the same transfer, counted as planned"
    for loop in uncounted_loops(module):
        yield f"the loop %{loop} runs as often as its data say; what is in it is counted once"
    if expected:
        yield from slow_instructions(module, expected.pages(step))
