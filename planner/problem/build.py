"""Spec -> Problem: the meshes of the allowed slices, the batches, and a price for every option of every block."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from cost_models.chips import Chip, chip
from cost_models.memory import usable_hbm_bytes
from cost_models.stacks import BOOK, CPU, Stack
from cost_models.torus import Slice, parse_slice
from planner.errors import Unsupported
from planner.problem.costs import TPU_SCATTER_ROWS, Machine
from planner.problem.meshes import Mesh, meshes
from planner.problem.pins import allowed_by
from planner.problem.problem import NS, UNIT_BYTES, Limits, Problem
from planner.problem.rules import Axes
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load, mesh_table
from planner.spec import Spec, unpackaged_features

SMALLEST_BUCKET = 16


@dataclass(frozen=True)
class Built:
    """A problem and what it was priced from, in the order of the problem's meshes."""

    problem: Problem
    machines: tuple[Machine, ...]
    load: Load


def build(spec: Spec, earlier_batch: int | None = None) -> Built:
    """The problem of a spec; raises `Unsupported` for models and dtypes that no package exists for yet.

    `earlier_batch` may be chosen beside the spec's own batches, if the spec leaves the batch free.
    """
    refuse_unpackaged(spec)
    sizes = sizes_of(spec)
    machine_chip = chip(spec.hardware.chip)
    slices = [parse_slice(machine_chip, text) for text in pinned_slices(spec)]
    load = load_of(spec, slices, earlier_batch)
    machines = tuple(
        Machine(machine_chip, stack_for(machine_chip), slice_, mesh, sizes)
        for slice_ in slices
        for mesh in meshes(slice_)
    )
    tables = tuple(mesh_table(machine, load, allowed_by(spec.pins, pieces_of(machine.mesh))) for machine in machines)
    problem = Problem(
        tables, load.batches, spec.workload.output_tokens.mean, spec.objective, limits_of(spec, machine_chip)
    )
    return Built(problem, machines, load)


def refuse_unpackaged(spec: Spec) -> None:
    """Refuse by name what later packages will serve."""
    features = unpackaged_features(spec.model)
    if features:
        raise Unsupported(
            f"no package is rendered yet for {', '.join(features)}; plans cover dense models of the llama architecture"
        )
    if spec.model.kv_cache.dtype != spec.model.activations.dtype:
        raise Unsupported(
            f"no package is rendered yet for a {spec.model.kv_cache.dtype} KV cache under "
            f"{spec.model.activations.dtype} activations; set model.kv_cache.dtype to {spec.model.activations.dtype}"
        )


def stack_for(machine_chip: Chip) -> Stack:
    """The software constants that predictions use: the book's for accelerators, measured ones for the host CPU."""
    return CPU if machine_chip.kind == "cpu" else BOOK


def pinned_slices(spec: Spec) -> tuple[str, ...]:
    """The slices that may be used, or the pinned one."""
    pinned = spec.pins.get("slice")
    return (str(pinned),) if pinned is not None else spec.hardware.slices


def pieces_of(mesh: Mesh) -> Mapping[str, Axes]:
    """The mesh axes that each torus axis is cut into."""
    found: dict[str, Axes] = {}
    for axis in mesh:
        found[axis.torus_axis] = (*found.get(axis.torus_axis, ()), axis.name)
    return found


def batches_of(spec: Spec, earlier: int | None = None) -> tuple[int, ...]:
    """Batches that may be chosen: 2^i and 3*2^i up to the concurrency, the concurrency itself, and an earlier plan's.

    Latency is asked for under the whole concurrency, so there only that.
    """
    pinned, most = spec.pins.get("generate.batch"), spec.workload.concurrency
    if pinned is not None:
        return (int(str(pinned)),)
    if spec.objective == "latency":
        return (most,)
    steps = {factor * 2**power for factor in (1, 3) for power in range(most.bit_length())}
    return tuple(sorted({batch for batch in steps | {earlier or most} if batch <= most} | {most}))


def load_of(spec: Spec, slices: list[Slice], earlier_batch: int | None = None) -> Load:
    """Batches and lengths that options are priced for."""
    workload = spec.workload
    buckets = prefill_buckets(spec, max(slice_.chips for slice_ in slices))
    mean = workload.prompt_tokens.mean
    return Load(
        batches=batches_of(spec, earlier_batch),
        prompt=next(bucket for bucket in buckets if bucket >= mean or bucket == buckets[-1]),
        longest=buckets[-1],
        smallest=buckets[0],
        mean_context=mean + workload.output_tokens.mean / 2,
        max_context=workload.max_context,
        page_tokens=spec.model.kv_cache.page_tokens,
    )


def prefill_buckets(spec: Spec, chips: int) -> tuple[int, ...]:
    """Prompt lengths that prefill is compiled for: powers of two, and at last the whole context, rounded up.

    The shortest is such that every chip can hold a reducible block of rows of it.
    """
    rows = TPU_SCATTER_ROWS if chip(spec.hardware.chip).kind == "tpu" else 1
    shortest = SMALLEST_BUCKET
    while shortest < chips * rows:
        shortest *= 2
    longest = max(shortest, ceil(spec.workload.max_context / shortest) * shortest)
    powers = []
    while shortest < longest:
        powers.append(shortest)
        shortest *= 2
    return (*powers, longest)


def limits_of(spec: Spec, machine_chip: Chip) -> Limits:
    """HBM left after the reserve, and the service-level objectives, as integers."""
    ttft_s, tpot_s = spec.limits.ttft_s, spec.limits.tpot_s
    return Limits(
        hbm=usable_hbm_bytes(machine_chip, spec.hardware.reserve) // UNIT_BYTES,
        ttft=None if ttft_s is None else int(ttft_s * NS),
        tpot=None if tpot_s is None else int(tpot_s * NS),
    )


def available_hbm_bytes(spec: Spec, machine: Machine) -> int:
    """HBM of one chip that a plan may fill: what the reserve leaves."""
    return usable_hbm_bytes(machine.chip, spec.hardware.reserve)
