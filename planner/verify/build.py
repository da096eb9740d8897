"""Plan -> the compiled programs of its package: prefill, hand-over and insert of each bucket, and generate.

Nothing runs: TPU programs are compiled for the devices of a topology, without a chip; all others for virtual CPU
devices.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any, Literal

from planner.plan.schema import Plan
from planner.verify.devices import Target, cpu_devices, devices_for, native_target
from planner.verify.exhausted import refusal
from planner.verify.log import compiler_log
from planner.verify.package import imported_package

__all__ = [
    "Memory",
    "Phase",
    "Program",
    "Progress",
    "Step",
    "Target",
    "compiled",
    "compiled_programs",
    "cpu_devices",
    "devices_for",
    "imported_package",
    "native_target",
    "refusal",
]

Phase = Literal["prefill", "hand_over", "insert", "generate"]
Progress = Callable[[str], AbstractContextManager[None]]
Formats = Mapping[str, Any]
"""Name of an array -> how it lies on the chips: jax's layout and sharding."""

GIVEN: dict[Phase, tuple[str, ...]] = {
    "prefill": ("weights",),
    "hand_over": ("kv",),
    "insert": ("cache", "kv"),
    "generate": ("weights", "cache", "slots"),
}
"""What the first arguments of each phase are, and below its results: arrays that go from one program to the next."""
MADE: dict[Phase, tuple[str, ...]] = {
    "prefill": ("chosen", "kv"),
    "hand_over": ("handed",),
    "insert": ("cache",),
    "generate": ("cache", "slots", "chosen"),
}


@dataclass(frozen=True)
class Step:
    """One program of a package: its phase, and the bucket that it is for."""

    phase: Phase
    bucket: int | None = None

    @property
    def name(self) -> str:
        """As people read it: `prefill 1024`."""
        phase = self.phase.replace("_", "-")
        return phase if self.bucket is None else f"{phase} {self.bucket}"


@dataclass(frozen=True)
class Memory:
    """What the compiler reserves on one chip, in bytes. `kept` is the part of the results that takes over arguments."""

    arguments: int
    results: int
    kept: int
    temporaries: int
    program: int

    @property
    def added(self) -> int:
        """Bytes that a run needs besides its arguments."""
        return self.temporaries + self.results - self.kept


@dataclass(frozen=True)
class Program:
    """A step as compiled: its optimised text, its memory, what the compiler said, and how arrays go in and out.

    Or why it did not compile: `given` are then the bytes of its arguments on one chip, by item.
    """

    step: Step
    seconds: float
    text: str = ""
    memory: Memory | None = None
    failure: str | None = None
    log: tuple[str, ...] = ()
    inputs: Formats = field(default_factory=dict)
    outputs: Formats = field(default_factory=dict)
    given: Mapping[str, int] = field(default_factory=dict)


def steps_of(plan: Plan, buckets: Sequence[int] | None = None) -> list[Step]:
    """The steps of a plan's package, those of some of its buckets or of all: the planned one first."""
    wanted = plan.prefill.buckets if buckets is None else buckets
    ordered = sorted(wanted, key=lambda bucket: (bucket != plan.prefill.tokens, bucket))
    hands_over = plan.pool is not None and plan.prefill.prompts > 1
    phases: tuple[Phase, ...] = ("prefill", "hand_over", "insert") if hands_over else ("prefill", "insert")
    return [*(Step(phase, bucket) for bucket in ordered for phase in phases), Step("generate")]


def compiled_programs(
    plan: Plan, target: Target, progress: Progress, buckets: Sequence[int] | None = None
) -> list[Program]:
    """The programs of a plan's package, compiled for `target`; equal ones once.

    Raises CannotRun when jax, libtpu or enough devices are missing.
    """
    devices = {phase: devices_for(plan.at(phase), target) for phase in ("prefill", "generate")}
    where = plan.chip if target == "tpu" else "CPU devices"
    with imported_package(plan) as package:
        generate = package.make_mesh(devices["generate"])
        prefill = package.make_prefill_mesh(devices["prefill"]) if plan.pool else generate
        given, programs = given_bytes(package, generate), []
        if plan.pool:
            given["prefill weights"] = plan.pool.hbm.weights
        for step in steps_of(plan, buckets):
            with progress(f"compiling {step.name} for {where}"):
                mesh = prefill if step.phase in ("prefill", "hand_over") else generate
                program = compiled(step, lowering(package, mesh, step))
            programs.append(replace(program, given=given_to(step, given)))
        return programs


def given_to(step: Step, given: Mapping[str, int]) -> dict[str, int]:
    """Bytes of what one step is given, by item; prefill may have weights of its own."""
    items = {name: given[name] for name in GIVEN[step.phase] if name in given}
    if step.phase == "prefill" and "prefill weights" in given:
        items["weights"] = given["prefill weights"]
    return items


def lowering(package: ModuleType, mesh: Any, step: Step) -> Callable[[], Any]:
    """What lowers a step of a package."""
    lower = getattr(package, f"lower_{step.phase}")
    given = (package.MODEL, mesh) if step.bucket is None else (package.MODEL, mesh, step.bucket)
    return lambda: lower(*given)


def given_bytes(package: ModuleType, mesh: Any) -> dict[str, int]:
    """Bytes on one chip of what steps are given, by item."""
    import jax

    weights = import_module(f"{package.__name__}.weights").abstract_weights(package.MODEL, mesh)
    cache = import_module(f"{package.__name__}.kv_cache").abstract_cache(package.MODEL, mesh)
    return {
        name: sum(prod(_sharding(each).shard_shape(each.shape)) * each.dtype.itemsize for each in jax.tree.leaves(held))
        for name, held in (("weights", weights), ("cache", cache))
    }


def _sharding(abstract: Any) -> Any:
    """The sharding of an abstract array, whose place may be given as a whole format."""
    return getattr(abstract.sharding, "sharding", abstract.sharding)


def compiled(step: Step, lower: Callable[[], Any]) -> Program:
    """A step, compiled. What tracing or the compiler refuses is a finding about the package, and is not raised."""
    started = time.perf_counter()
    with compiler_log() as log:
        try:
            program = lower().compile()
        except Exception as error:
            return Program(step, time.perf_counter() - started, failure=refusal(error))
    seconds = time.perf_counter() - started
    given, made = program.input_formats[0], program.output_formats
    return Program(
        step,
        seconds,
        program.as_text(),
        memory_of(program.memory_analysis()),
        log=tuple(log),
        inputs=dict(_named(GIVEN[step.phase], given)),
        outputs=dict(_named(MADE[step.phase], made if isinstance(made, tuple) else (made,))),
    )


def _named(names: Sequence[str], trees: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every array of some trees, by name: `weights.layers.w_in`; without those that a program has no use for."""
    import jax

    for name, tree in zip(names, trees, strict=False):
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        for path, leaf in ((path, leaf) for path, leaf in leaves if leaf.sharding is not None):
            yield f"{name}{jax.tree_util.keystr(path)}", leaf


def memory_of(stats: Any) -> Memory:
    """The compiler's own account of its memory."""
    return Memory(
        arguments=stats.argument_size_in_bytes,
        results=stats.output_size_in_bytes,
        kept=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        program=stats.generated_code_size_in_bytes,
    )
