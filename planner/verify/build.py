"""Plan -> the compiled programs of its package: prefill of the planned bucket, insert and generate.

The package is rendered to a temporary folder, imported from there and forgotten again. Nothing runs: TPU programs are
compiled for the devices of a topology, without a chip; all others for virtual CPU devices.
"""

import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Literal

from cost_models.chips import chip
from planner.errors import CannotRun
from planner.plan.schema import Plan
from planner.render import write_package
from planner.verify.topology import topology_of

Target = Literal["tpu", "cpu"]
Phase = Literal["prefill", "insert", "generate"]
Progress = Callable[[str], AbstractContextManager[None]]

PHASES: tuple[Phase, ...] = ("prefill", "insert", "generate")
REFUSAL_LENGTH = 400
COMPILER_ONLY = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""Environment under which libtpu compiles without asking for a host's chips, or for the only use of them."""


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
    """A phase as compiled: its optimised text and its memory, or why it did not compile."""

    phase: Phase
    seconds: float
    text: str = ""
    memory: Memory | None = None
    failure: str | None = None


def native_target(plan: Plan) -> Target:
    """What the plan's own chip is compiled as; GPU plans are compiled for CPU devices."""
    return "tpu" if chip(plan.chip).kind == "tpu" else "cpu"


def compiled_programs(plan: Plan, target: Target, progress: Progress) -> list[Program]:
    """The three programs of a plan's package, compiled for `target`.

    Raises CannotRun when jax, libtpu or enough devices are missing.
    """
    devices = devices_for(plan, target)
    with imported_package(plan) as package:
        mesh = package.make_mesh(devices)
        lowered: dict[Phase, Callable[[], Any]] = {
            "prefill": lambda: package.lower_prefill(package.MODEL, mesh, plan.prefill.tokens),
            "insert": lambda: package.lower_insert(package.MODEL, mesh, plan.prefill.tokens),
            "generate": lambda: package.lower_generate(package.MODEL, mesh),
        }
        programs = []
        for phase in PHASES:
            with progress(f"compiling {phase} for {plan.chip if target == 'tpu' else 'CPU devices'}"):
                programs.append(compiled(phase, lowered[phase]))
        return programs


def compiled(phase: Phase, lower: Callable[[], Any]) -> Program:
    """A phase, compiled. Whatever tracing or the compiler refuses is a finding about the package, and is not raised."""
    started = time.perf_counter()
    try:
        program = lower().compile()
    except Exception as error:
        return Program(phase, time.perf_counter() - started, failure=refusal(error))
    seconds = time.perf_counter() - started
    stats = program.memory_analysis()
    memory = Memory(
        arguments=stats.argument_size_in_bytes,
        results=stats.output_size_in_bytes,
        kept=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        program=stats.generated_code_size_in_bytes,
    )
    return Program(phase, seconds, program.as_text(), memory)


def refusal(error: Exception) -> str:
    """The first sentences of an error, on one line; compiler errors begin with their own kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = "" if type(error).__name__ == "JaxRuntimeError" else f"{type(error).__name__}: "
    return f"{kind}{' '.join(lines[:2])}"[:REFUSAL_LENGTH]


@contextmanager
def imported_package(plan: Plan) -> Iterator[ModuleType]:
    """The package of a plan, rendered to a temporary folder; afterwards neither folder nor modules are left."""
    name = re.sub(r"\W", "_", f"audited_{plan.name}")
    before = set(sys.modules)
    with TemporaryDirectory(prefix="shardwright-") as folder:
        directory = Path(folder) / name
        write_package(plan, directory)
        spec = importlib.util.spec_from_file_location(
            name, directory / "__init__.py", submodule_search_locations=[str(directory)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[name] = package
        try:
            spec.loader.exec_module(package)
            yield package
        finally:
            for module in set(sys.modules) - before:
                if module == name or module.startswith(f"{name}."):
                    del sys.modules[module]


def devices_for(plan: Plan, target: Target) -> Sequence[Any]:
    """Devices to compile the plan for: those of its topology, or as many CPU devices as it has chips."""
    if importlib.util.find_spec("jax") is None:
        raise CannotRun("verify compiles with jax; install it with: pip install 'shardwright[tpu]'")
    if target == "tpu":
        return tpu_devices(plan)
    return cpu_devices(len(plan.mesh.chips))


def cpu_devices(count: int) -> Sequence[Any]:
    """The first `count` CPU devices of this process, which get made if jax has not started yet."""
    import jax

    if (jax.config.jax_num_cpu_devices or 0) < count:
        with suppress(RuntimeError):  # jax has started, and may have enough devices all the same
            jax.config.update("jax_num_cpu_devices", count)
    compile_on_cpu_only()
    devices: Sequence[Any] = jax.devices("cpu")
    if len(devices) < count:
        raise CannotRun(
            f"the plan has {count} chips, and jax has started in this process with {len(devices)} CPU devices"
        )
    return devices[:count]


def tpu_devices(plan: Plan) -> Sequence[Any]:
    """The devices of the plan's slice, known to the compiler only."""
    topology, options = topology_of(plan)
    if importlib.util.find_spec("libtpu") is None:
        raise CannotRun("compiling for TPU needs libtpu; install it with: pip install 'shardwright[tpu]'")
    for name, value in COMPILER_ONLY.items():
        os.environ.setdefault(name, value)
    compile_on_cpu_only()
    import jax
    from jax.experimental import topologies

    try:
        found: Sequence[Any] = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options).devices
    except jax.errors.JaxRuntimeError as error:
        raise CannotRun(f"libtpu does not open the topology {topology}: {refusal(error)}") from None
    return found


def compile_on_cpu_only() -> None:
    """Keep jax off the accelerators of this machine, unless somebody has already chosen its platforms."""
    import jax

    if not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")
