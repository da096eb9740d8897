"""Spec -> Problem: the meshes of the allowed slices, the batches, and a price for every option of every block."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from cost_models.chips import Chip, chip
from cost_models.memory import usable_hbm_bytes
from cost_models.meshes import Mesh, meshes, meshes_named
from cost_models.stacks import stack
from cost_models.torus import Slice, parse_slice
from planner.errors import Unsupported
from planner.problem.machine import TPU_SCATTER_ROWS, Machine
from planner.problem.pins import allowed_by
from planner.problem.problem import NS, UNIT_BYTES, Limits, Problem
from planner.problem.rules import Axes
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load, Pricer
from planner.spec import Spec, unpackaged_features
from planner.spec.pins import pinned_mesh

SMALLEST_BUCKET = 16


@dataclass(frozen=True)
class Built:
    """A problem, and the machines that it is priced from; each of its tables knows its own `source`."""

    problem: Problem
    machines: tuple[Machine, ...]


def build(spec: Spec, batches: tuple[int, ...] | None = None) -> Built:
    """The problem of a spec; `batches` are priced instead of those that the spec allows.

    Raises `Unsupported` where only rendered strategies are asked for, of a model that no package exists for yet.
    """
    refuse_unpackaged(spec)
    sizes = sizes_of(spec)
    machine_chip = chip(spec.hardware.chip)
    slices = [parse_slice(machine_chip, text) for text in pinned_slices(spec)]
    loads = {each: load_of(spec, each, batches) for each in slices}
    machines = tuple(
        Machine(machine_chip, stack(spec.hardware.stack), slice_, mesh, sizes)
        for slice_ in slices
        for mesh in meshes_of(spec, slice_)
    )
    rendered = spec.serving.strategies == "rendered"
    pricers = (
        Pricer(each, loads[each.slice], allowed_by(spec.pins, pieces_of(each.mesh)), rendered) for each in machines
    )
    tables = tuple(table for pricer in pricers for table in pricer.tables())
    output, tried = spec.workload.output_tokens.mean, batches or batches_of(spec)
    problem = Problem(tables, tried, output, spec.objective, limits_of(spec, machine_chip))
    return Built(problem, machines)


def refuse_unpackaged(spec: Spec) -> None:
    """Refuse by name a model without packages where nothing but packages is wanted."""
    features = unpackaged_features(spec.model)
    if features and spec.serving.strategies == "rendered":
        raise Unsupported(
            f"no package is rendered yet for {', '.join(features)}; set serving.strategies to all to plan without one"
        )


def pinned_slices(spec: Spec) -> tuple[str, ...]:
    """The slices that may be used, or the pinned one."""
    pinned = spec.pins.get("slice")
    return (str(pinned),) if pinned is not None else spec.hardware.slices


def meshes_of(spec: Spec, slice_: Slice) -> list[Mesh]:
    """The meshes of a slice that are tried: one of each kind, or the pinned one, however its axes are called."""
    pinned = pinned_mesh(spec.pins)
    return meshes(slice_) if pinned is None else meshes_named(slice_, pinned)


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
    steps = {*batch_steps(most), earlier or most}
    return tuple(sorted(batch for batch in steps if batch <= most))


def batch_steps(most: int) -> tuple[int, ...]:
    """2^i and 3*2^i up to `most`, and `most` itself."""
    steps = {factor * 2**power for factor in (1, 3) for power in range(most.bit_length())}
    return tuple(sorted({batch for batch in steps if batch <= most} | {most}))


def prompts_of(spec: Spec) -> tuple[int, ...]:
    """How many prompts a prefill may read together: powers of two up to the concurrency; rendered packages read one."""
    pinned, most = spec.pins.get("prefill.prompts"), spec.workload.concurrency
    if pinned is not None:
        return (int(str(pinned)),)
    if spec.serving.strategies == "rendered":
        return (1,)
    return tuple(2**power for power in range(most.bit_length()))


def load_of(spec: Spec, slice_: Slice, batches: tuple[int, ...] | None = None) -> Load:
    """Batches and lengths that options on a slice are priced for."""
    workload = spec.workload
    buckets = prefill_buckets(spec, slice_.chips)
    mean = workload.prompt_tokens.mean
    return Load(
        batches=batches or batches_of(spec),
        prompts=prompts_of(spec),
        prompt=next(bucket for bucket in buckets if bucket >= mean or bucket == buckets[-1]),
        longest=buckets[-1],
        smallest=buckets[0],
        mean_context=mean + workload.output_tokens.mean / 2,
        max_context=workload.max_context,
        page_tokens=spec.model.kv_cache.page_tokens,
    )


def prefill_buckets(spec: Spec, chips: int) -> tuple[int, ...]:
    """Prompt lengths that prefill is compiled for: powers of two, and at last the whole context, rounded up.

    The shortest is such that every chip can hold a reducible block of rows of it, but no longer than the mean prompt:
    on very large slices tokens are then cut over some of the axes only.
    """
    rows = TPU_SCATTER_ROWS if chip(spec.hardware.chip).kind == "tpu" else 1
    shortest = SMALLEST_BUCKET
    while shortest < chips * rows and 2 * shortest <= spec.workload.prompt_tokens.mean:
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
