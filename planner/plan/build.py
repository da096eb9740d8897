"""Solution -> Plan: rule tables with names, predictions by address, memory by item, the proof."""

from collections.abc import Iterable
from dataclasses import replace

from cost_models.stacks import accuracy_text
from cost_models.torus import mesh_coordinates
from planner.plan import records, schema
from planner.plan.budget import hbm_of, pool_hbm_of
from planner.plan.chosen import Chosen, decoded
from planner.plan.kv_layout import kv_layout
from planner.plan.optimum import Optimum
from planner.plan.padding import padding_of
from planner.plan.proof import proof_of, runner_ups_of
from planner.plan.service import Times, fleet_of, service_of
from planner.problem import costs, labels
from planner.problem.build import Built, prefill_buckets, resolved
from planner.problem.costs import Parts
from planner.problem.drafts import Drafts, tokens_per_step
from planner.problem.machine import Machine
from planner.problem.options import STORED_AXES
from planner.problem.pipeline import Pipeline
from planner.problem.primitives import Collective
from planner.problem.problem import NS
from planner.problem.rules import Rules
from planner.solve.fleet import FleetSolution
from planner.spec import Spec, leaves_dtypes_open, spec_to_data


def build_plan(spec: Spec, built: Built, solution: Optimum, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution, with the best plans not taken; `near` says what it changes against an earlier one."""
    plan = plan_alone(spec, built, solution, near)
    ups = runner_ups_of(solution, decoded(solution))
    prefill = plan.prefill.model_copy(update={"runner_up": ups["prefill"]})
    generate = plan.generate.model_copy(update={"runner_up": ups["generate"]})
    return plan.model_copy(update={"prefill": prefill, "generate": generate})


def plan_alone(spec: Spec, built: Built, solution: Optimum, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution without runner-ups, which take longer to solve than the rest does to write down."""
    chosen = decoded(solution)
    machine = chosen.machine
    prefill, generate = prefill_of(spec, chosen), generate_of(spec, chosen)
    times = Times(prefill.step_s, generate.step_s, handed_over(solution))
    fleet = fleet_of(spec, chosen, times)
    return schema.Plan(
        format_version=schema.FORMAT_VERSION,
        name=spec.name,
        spec=spec_to_data(spec),
        dtypes=dtypes_of(spec, machine),
        chip=machine.chip.name,
        slice=str(machine.slice),
        mesh=mesh_of(machine),
        prefill=prefill,
        generate=generate,
        padding=tuple(padding_of(chosen)),
        hbm=hbm_of(spec, chosen),
        pool=pool_of(spec, chosen.reader),
        fleet=fleet,
        service=service_of(spec, chosen, fleet, times),
        proof=proof_of(built, solution, near),
        accuracy=accuracy_text(machine.chip.name, machine.stack, experts=spec.model.moe is not None),
    )


def dtypes_of(spec: Spec, machine: Machine) -> schema.Dtypes | None:
    """The dtypes that were taken, where the spec leaves a choice."""
    if not leaves_dtypes_open(spec):
        return None
    model = resolved(spec, machine).model
    return schema.Dtypes(weights=model.weights.chosen, kv_cache=model.kv_cache.chosen)


def mesh_of(machine: Machine) -> records.Mesh:
    """The mesh with the torus coordinates of its chips."""
    axes = tuple(
        records.MeshAxis(name=a.name, size=a.size, torus_axis=a.torus_axis, stride=a.stride, wraps=a.wraps)
        for a in machine.mesh
    )
    return records.Mesh(axes=axes, chips=mesh_coordinates(machine.mesh, machine.slice))


def prefill_of(spec: Spec, chosen: Chosen) -> schema.Prefill:
    """The prefill phase of the plan."""
    parts, reads = chosen.prefill_parts(), chosen.reads
    rules = reads.rules
    return schema.Prefill(
        rules=schema.PrefillRules(**rules.prefill._asdict()),
        stored=None if chosen.reader is None else schema.GenerateRules(**rules.generate._asdict()),
        copies=copies_of(rules),
        stages=stages_of(reads.pipeline),
        strategy=schema.Strategy(**labels.prefill_strategy(rules, chosen.machine.sizes.blocks)),
        prompts=reads.prompts,
        chunk=reads.chunk,
        tokens=reads.load.prompt,
        buckets=prefill_buckets(spec, reads.machine.slice.chips),
        step_s=costs.total_s(parts, reads.machine),
        binds=costs.binds(parts, reads.machine),
        parts=tuple(rooflines(parts, reads.machine)),
        collectives=tuple(priced(chosen.prefill_collectives(), reads)),
    )


def copies_of(rules: Rules) -> schema.Copies | None:
    """How second copies of weights are stored, as the plan file says it."""
    found: schema.Copies = {}
    for block in schema.COPIED:
        if block in rules.copies:
            stored = rules.copies[block]
            found[block] = schema.CopyRules(**{name: getattr(stored, name) for name in STORED_AXES[block]})
    return found or None


def stages_of(pipeline: Pipeline | None) -> schema.Stages | None:
    """The pipeline stages of prefill, if there are any."""
    return None if pipeline is None else schema.Stages(axis=pipeline.axis.name, count=pipeline.stages)


def pool_of(spec: Spec, reader: Chosen | None) -> records.Pool | None:
    """Where prefill takes place, if it has slices of its own."""
    if reader is None:
        return None
    machine, pipeline = reader.machine, reader.pipeline
    whole = replace(machine, mesh=pipeline.whole(machine.mesh)) if pipeline else machine
    return records.Pool(
        slice=str(machine.slice),
        mesh=mesh_of(whole),
        padding=tuple(padding_of(reader)),
        hbm=pool_hbm_of(spec, reader),
    )


def generate_of(spec: Spec, chosen: Chosen) -> schema.Generate:
    """The generate phase of the plan."""
    parts = chosen.generate_parts()
    generate = schema.Generate(
        rules=schema.GenerateRules(**chosen.rules.generate._asdict()),
        strategy=schema.Strategy(**labels.generate_strategy(chosen.rules.generate, chosen.machine.sizes.blocks)),
        batch=chosen.batch,
        context=spec.workload.max_context,
        page_tokens=spec.model.kv_cache.page_tokens,
        speculation=speculation_of(chosen.drafts),
        step_s=costs.total_s(parts, chosen.machine),
        binds=costs.binds(parts, chosen.machine),
        parts=tuple(rooflines(parts, chosen.machine)),
        collectives=tuple(priced(chosen.generate_collectives(), chosen)),
    )
    model, machine = resolved(spec, chosen.machine).model, chosen.machine
    layout = kv_layout(generate, model, model.kv_cache.chosen, machine.chip.name, machine.ways)
    return generate.model_copy(update={"kv_layout": layout})


def speculation_of(drafts: Drafts | None) -> schema.Speculation | None:
    """The drafts of the plan's generate steps."""
    if drafts is None:
        return None
    return schema.Speculation(
        drafted_tokens=drafts.tokens,
        acceptance=drafts.acceptance,
        tokens_per_step=float(tokens_per_step(drafts)),
        draft_s=drafts.seconds,
    )


def rooflines(parts: Parts, machine: Machine) -> list[schema.Roofline]:
    """Parts that take time, as the plan file lists them, in the order of the step."""
    taking = [(address, cost) for address, cost in parts.items() if machine.total_s(cost) > 0]
    ordered = sorted(taking, key=lambda item: STEP_ORDER.index(item[0].split(".", 1)[1]))
    return [
        schema.Roofline(
            address=address,
            compute_s=cost.compute_s,
            hbm_s=cost.hbm_s,
            ici_s=cost.ici_s,
            fixed_s=cost.fixed_s,
            total_s=machine.total_s(cost),
            binds=cost.binds,
        )
        for address, cost in ordered
    ]


STEP_ORDER = (
    "draft",
    "embedding",
    "attention.qkv",
    "attention.kv_cache",
    "attention.out",
    "attention.elementwise",
    "mlp.hidden",
    "mlp.out",
    "mlp.elementwise",
    "experts.hidden",
    "experts.out",
    "experts.elementwise",
    "logits",
    "sampling",
    "step",
    "pipeline",
    "insert",
)


def priced(found: Iterable[Collective], chosen: Chosen) -> list[schema.Collective]:
    """Collectives with their seconds over the whole step."""
    return [
        schema.Collective(
            address=each.address,
            kind=each.kind,
            axes=each.axes,
            bytes=each.bytes,
            count=each.repeats,
            seconds=each.repeats * chosen.collective_s(each),
        )
        for each in found
    ]


def handed_over(solution: Optimum) -> records.Transfer | None:
    """How prompts get from the slices that read them to those that generate."""
    if not isinstance(solution, FleetSolution):
        return None
    sent, link = solution.sent_bytes, solution.link
    return records.Transfer(link=link.name, bytes=sent, seconds=sent * link.ns_per_byte / NS)
