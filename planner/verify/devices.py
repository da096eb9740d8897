"""Devices to compile a plan for: those of a topology, of which only the compiler knows, or virtual CPU devices."""

import importlib.util
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from cost_models.chips import chip
from planner.errors import CannotRun
from planner.plan.schema import Plan
from planner.verify.exhausted import refusal
from planner.verify.topology import topology_of

Target = Literal["tpu", "cpu"]

COMPILER_ONLY = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""Environment under which libtpu compiles without asking for a host's chips, or for the only use of them."""
HEARD = {"TF_CPP_MIN_LOG_LEVEL": "1", "TPU_MIN_LOG_LEVEL": "1", "TPU_STDERR_LOG_LEVEL": "1"}
"""Environment under which compilers write warnings to stderr: libtpu keeps them to itself, and users silence XLA."""


def native_target(plan: Plan) -> Target:
    """What the plan's own chip is compiled as; GPU plans are compiled for CPU devices."""
    return "tpu" if chip(plan.chip).kind == "tpu" else "cpu"


def devices_for(plan: Plan, target: Target) -> Sequence[Any]:
    """Devices to compile the plan for: those of its topology, or as many CPU devices as it has chips.

    From the first call on compilers are heard, whatever the user has set: some faults they tell as warnings only.
    """
    os.environ.update(HEARD)
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
