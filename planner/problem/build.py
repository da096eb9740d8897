"""Spec -> Problem: the meshes of the allowed slices, the batches, and a price for every option of every block."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from cost_models.chips import Chip, chip
from cost_models.lengths import fitted
from cost_models.memory import usable_hbm_bytes
from cost_models.meshes import Mesh, meshes, meshes_named
from cost_models.stacks import stack
from cost_models.torus import Slice, parse_slice
from planner.errors import Unsupported
from planner.problem.arrivals import Arrivals
from planner.problem.demand import FEW, Demand
from planner.problem.drafts import Drafts
from planner.problem.handover import links, prompt_cache_bytes
from planner.problem.machine import TPU_SCATTER_ROWS, Machine
from planner.problem.pins import allowed_by
from planner.problem.pipeline import pipelines
from planner.problem.pools import Apart, PoolPricer, generate_pools, prefill_pools
from planner.problem.problem import NS, UNIT_BYTES, Limits, Problem
from planner.problem.rules import Axes
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load, Pricer
from planner.spec import Spec, resolutions, unpackaged_features
from planner.spec.pins import pinned_mesh

SMALLEST_BUCKET = 16
MOST_BUSY = 0.9
SMALLEST_CHUNK = 256
"""Tokens of the shortest chunk that the solver tries."""


@dataclass(frozen=True)
class Built:
    """A problem, and the machines that it is priced from; each of its tables knows its own `source`."""

    problem: Problem
    machines: tuple[Machine, ...]
    apart: tuple[Apart, ...] = ()
    """Slices for each phase, where serving may be disaggregated: with each choice of dtypes."""
    together: bool = True
    """Whether slices may take turns."""


def build(spec: Spec, batches: tuple[int, ...] | None = None) -> Built:
    """The problem of a spec; `batches` are priced instead of those that the spec allows.

    Raises `Unsupported` where only rendered strategies are asked for, of a model that no package exists for yet.
    """
    choices = packaged(spec)
    machine_chip = chip(spec.hardware.chip)
    slices = [parse_slice(machine_chip, text) for text in pinned_slices(spec)]
    loads = {each: load_of(spec, each, batches) for each in slices}
    machines = tuple(
        Machine(machine_chip, stack(spec.hardware.stack), slice_, mesh, sizes_of(choice))
        for choice in choices
        for slice_ in slices
        for mesh in meshes_of(spec, slice_)
    )
    pricers = (Pricer(each, loads[each.slice], allowed_by(spec.pins, pieces_of(each.mesh))) for each in machines)
    tables = tuple(table for pricer in pricers for table in pricer.tables())
    output, tried = spec.workload.output_tokens.mean, batches or batches_of(spec)
    problem = Problem(tables, tried, output, spec.objective, limits_of(spec, machine_chip), arrivals=arrivals_of(spec))
    apart = (
        tuple(apart_of(choice, problem, slices, machine_chip) for choice in choices)
        if spec.serving.mode != "interleaved"
        else ()
    )
    return Built(problem, machines, apart, together=spec.serving.mode != "disaggregated")


def apart_of(spec: Spec, problem: Problem, slices: list[Slice], machine_chip: Chip) -> Apart:
    """What disaggregated serving may choose from.

    Pins of a phase hold for its slices. The fleet of a closed loop has as many chips as the largest slice, if nothing
    else is said.
    """
    sizes, limits, output = sizes_of(spec), problem.limits, problem.output_tokens
    pricers: dict[str, list[PoolPricer]] = {}
    for slice_ in slices:
        load = replace(load_of(spec, slice_, pool_batches(spec)), chunks=(None,))
        for mesh in meshes(slice_):
            for pipeline in pipelines(mesh, sizes):
                staged = pipeline.staged(mesh) if pipeline else mesh
                machine = Machine(machine_chip, stack(spec.hardware.stack), slice_, staged, sizes, apart=True)
                pricer = Pricer(machine, load, allowed_by(spec.pins, pieces_of(staged)))
                pricers.setdefault(str(slice_), []).append(PoolPricer(pricer, pipeline))
    largest = None if problem.arrivals else max(each.chips for each in slices)
    demand = Demand(
        output,
        spec.objective,
        limits,
        spec.workload.concurrency,
        spec.hardware.fleet_chips or largest,
        problem.arrivals,
    )
    between = {(str(one), str(other)): links(one, other, machine_chip) for one in slices for other in slices}
    return Apart(
        tuple(prefill_pools(pricers, limits, output)),
        tuple(generate_pools(unstaged(pricers), limits, output)),
        demand,
        between,
        prompt_cache_bytes(sizes, spec.workload.prompt_tokens.mean),
    )


def unstaged(pricers: dict[str, list[PoolPricer]]) -> dict[str, list[PoolPricer]]:
    """Those without a pipeline."""
    return {name: [each for each in own if each.pipeline is None] for name, own in pricers.items()}


def pool_batches(spec: Spec) -> tuple[int, ...]:
    """Batches of a generate slice; for latency even parts of the concurrency."""
    if spec.objective != "latency" or "generate.batch" in spec.pins:
        return batches_of(spec)
    most = spec.workload.concurrency
    return tuple(sorted(most // parts for parts in range(1, FEW + 1) if most % parts == 0))


def packaged(spec: Spec) -> tuple[Spec, ...]:
    """The spec with each choice of dtypes; where nothing but packages is wanted, those that there are packages for.

    Raises `Unsupported` by name where there are none.
    """
    choices = resolutions(spec)
    if spec.serving.strategies != "rendered":
        return choices
    features = [unpackaged_features(each.model) for each in choices]
    if all(features):
        raise Unsupported(
            f"no package is rendered yet for {', '.join(features[0])}; set serving.strategies to all to plan without "
            "one"
        )
    return tuple(each for each, missing in zip(choices, features, strict=True) if not missing)


def resolved(spec: Spec, machine: Machine) -> Spec:
    """The spec with the choice of dtypes that a machine is sized by."""
    return next(each for each in resolutions(spec) if sizes_of(each) == machine.sizes)


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
    """How many prompts a prefill may read together: powers of two up to the concurrency."""
    pinned, most = spec.pins.get("prefill.prompts"), spec.workload.concurrency
    if pinned is not None:
        return (int(str(pinned)),)
    return tuple(2**power for power in range(most.bit_length()))


def chunks_of(spec: Spec, buckets: tuple[int, ...], planned: int) -> tuple[int | None, ...]:
    """By what chunks prefill may read prompts, whole ones first; those that no bucket is longer than are whole ones.

    Where the solver chooses: powers of two that divide the `planned` bucket, and one that is no shorter. That one saves
    HBM for longer prompts; still longer ones would save less, and read the planned bucket no faster.
    """
    pinned, wanted = spec.pins.get("prefill.chunk"), spec.serving.chunked_prefill
    if pinned is not None or isinstance(wanted, int):
        tokens = None if pinned == "none" else int(str(wanted if pinned is None else pinned))
        return (None if tokens is None or tokens >= buckets[-1] else tokens,)
    if wanted is None:
        return (None,)
    powers = [SMALLEST_CHUNK]
    while powers[-1] < planned:
        powers.append(2 * powers[-1])
    return (None, *(each for each in powers if (each >= planned or planned % each == 0) and each < buckets[-1]))


def drafts_of(spec: Spec) -> tuple[Drafts | None, ...]:
    """Whether generate steps are plain or verify drafts: either, where the spec has a draft model."""
    told, pinned = spec.serving.speculation, spec.pins.get("generate.speculation")
    if told is None or pinned == "off" or (spec.serving.strategies == "rendered" and pinned is None):
        return (None,)
    drafts = Drafts(told.drafted_tokens, told.acceptance, told.draft_step_s)
    return (drafts,) if pinned == "on" else (None, drafts)


def load_of(spec: Spec, slice_: Slice, batches: tuple[int, ...] | None = None) -> Load:
    """Batches and lengths that options on a slice are priced for."""
    workload = spec.workload
    buckets = prefill_buckets(spec, slice_.chips)
    mean = workload.prompt_tokens.mean
    planned = next(bucket for bucket in buckets if bucket >= mean or bucket == buckets[-1])
    return Load(
        batches=batches or batches_of(spec),
        prompts=prompts_of(spec),
        prompt=planned,
        buckets=buckets,
        lengths=fitted(mean, workload.prompt_tokens.p95),
        mean_context=mean + workload.output_tokens.mean / 2,
        max_context=workload.max_context,
        page_tokens=spec.model.kv_cache.page_tokens,
        chunks=chunks_of(spec, buckets, planned),
        drafts=drafts_of(spec),
    )


def bucket_of(tokens: int, buckets: tuple[int, ...]) -> int:
    """The shortest bucket that holds so many tokens, or else the longest."""
    return next((bucket for bucket in buckets if bucket >= tokens), buckets[-1])


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
    times = {name.removesuffix("_s"): None if s is None else int(s * NS) for name, s in spec.limits}
    return Limits(hbm=usable_hbm_bytes(machine_chip, spec.hardware.reserve) // UNIT_BYTES, **times)


def arrivals_of(spec: Spec) -> Arrivals | None:
    """Requests that arrive at random, where the spec has a rate."""
    workload, outputs = spec.workload, spec.workload.output_tokens
    if workload.requests_per_s is None:
        return None
    return Arrivals(
        per_s=Fraction(repr(workload.requests_per_s)),
        most_busy=Fraction(repr(spec.serving.max_utilization or MOST_BUSY)),
        outputs=fitted(outputs.mean, outputs.p95),
        fleet_chips=spec.hardware.fleet_chips,
    )


def available_hbm_bytes(spec: Spec, machine: Machine) -> int:
    """HBM of one chip that a plan may fill: what the reserve leaves."""
    return usable_hbm_bytes(machine.chip, spec.hardware.reserve)
