"""Solution -> Plan: rule tables with names, predictions by address, memory by item, the proof."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from cost_models.stacks import accuracy_text
from cost_models.torus import mesh_coordinates
from planner.plan import machine as read_back
from planner.plan import schema
from planner.plan.optimum import Optimum, fleet_chips
from planner.plan.padding import padding_of
from planner.plan.service import fleet_of, service_of
from planner.problem import costs, hbm, labels, planned
from planner.problem.build import Built, available_hbm_bytes, prefill_buckets, resolved
from planner.problem.chunks import Steps, steps_of
from planner.problem.costs import Parts, Work
from planner.problem.drafts import Drafts, rows_of, tokens_per_step
from planner.problem.machine import Machine
from planner.problem.options import STORED_AXES, merged_rules
from planner.problem.pipeline import Pipeline
from planner.problem.pools import PoolPricer
from planner.problem.primitives import Collective
from planner.problem.problem import NS
from planner.problem.rules import PrefillRules, Rules
from planner.problem.tables import Load
from planner.solve.fleet import FleetSolution
from planner.solve.model import Taken
from planner.solve.runner_up import PHASES, runner_up
from planner.solve.search import Solution
from planner.spec import Spec, leaves_dtypes_open, spec_to_data


def prefill_parts(tables: Rules, tokens: int, prompts: int, machine: Machine, chunk: int | None = None) -> Parts:
    """Rooflines by address of the prefill of `prompts` of `tokens` each, all chunks together."""
    return all_parts(costs.prefill_works(tables, tokens, machine, prompts, chunk), machine)


def all_parts(works: Iterable[Work], machine: Machine) -> Parts:
    """Rooflines by address of the blocks of a step."""
    return {address: part for work in works for address, part in costs.parts_of(work, machine).items()}


@dataclass(frozen=True)
class Chosen:
    """One solution, decoded: its tables and the machine, batch and lengths it was priced for.

    `reader` is what prefill takes place on, where it has slices of its own; then `rules.prefill` cuts nothing here.
    """

    rules: Rules
    machine: Machine
    batch: int
    prompts: int
    load: Load
    chunk: int | None = None
    drafts: Drafts | None = None
    slices: int = 1
    reader: "Chosen | None" = None
    pipeline: Pipeline | None = None

    @property
    def steps(self) -> Steps:
        """The steps that read the planned bucket."""
        return steps_of(self.load.prompt, self.chunk)

    @property
    def stages(self) -> int:
        """Pipeline stages of prefill."""
        return self.pipeline.stages if self.pipeline else 1

    @property
    def reads(self) -> "Chosen":
        """What prefill takes place on."""
        return self.reader or self

    def generate_parts(self) -> Parts:
        """Rooflines of a generate step by address."""
        works = costs.generate_works(self.rules.generate, self.batch, self.load.mean_context, self.machine, self.drafts)
        return all_parts(works, self.machine)

    def prefill_parts(self) -> Parts:
        """Rooflines of the prefill of the planned bucket by address."""
        reads = self.reads
        return reads.parts_of_prompt(reads.load.prompt)

    def parts_of_prompt(self, tokens: int) -> Parts:
        """Rooflines of the prefill of prompts of some length, in all stages, by address."""
        parts = prefill_parts(self.rules, tokens, self.prompts, self.machine, self.chunk)
        if self.pipeline is None:
            return parts
        permutes = self.pipeline.permute(self.rules.prefill, tokens, self.machine, self.prompts)
        return self.pipeline.parts(parts, permutes, self.machine)

    def generate_collectives(self) -> list[Collective]:
        """Collectives of a generate step, in the order of the step."""
        return planned.generate_step(self.rules.generate, self.batch * rows_of(self.drafts), self.machine.program)

    def prefill_collectives(self) -> list[Collective]:
        """Collectives of the prefill of the planned bucket, in the order of the step."""
        reads, tokens = self.reads, self.reads.load.prompt
        found = planned.prefill_step(reads.rules, tokens, reads.machine.program, reads.prompts, reads.chunk)
        if reads.pipeline is not None:
            found.append(reads.pipeline.permute(reads.rules.prefill, tokens, reads.machine, reads.prompts))
        return found

    def collective_s(self, planned_one: Collective) -> float:
        """Seconds of one execution of a planned collective."""
        if planned_one.kind == "permute" and self.pipeline is not None:
            return self.pipeline.permute_s(planned_one, self.machine)
        return self.machine.seconds(planned_one)

    def stall_s(self) -> float:
        """Seconds of the last chunk of the planned bucket, which attends to the most."""
        count, tokens = self.steps
        return self.read_s(count * tokens) - (self.read_s((count - 1) * tokens) if count > 1 else 0.0)

    def read_s(self, tokens: int) -> float:
        """Seconds of the prefill of prompts of `tokens`."""
        return costs.total_s(self.parts_of_prompt(tokens), self.machine)


def chosen_of(plan: schema.Plan) -> Chosen:
    """What a plan chose, to be priced again by the catalogue of today."""
    rules, load = read_back.rules_of(plan), read_back.load_of(plan)
    (chunk,), (drafts,), slices = load.chunks, load.drafts, plan.fleet.slices if plan.fleet else 1
    machine, prompts = read_back.machine_of(plan), plan.prefill.prompts
    here = Chosen(rules, machine, plan.generate.batch, prompts, load, chunk, drafts, slices)
    if plan.pool is None:
        return here
    reader = replace(
        here,
        rules=read_back.prefill_rules_of(plan),
        machine=read_back.prefill_machine_of(plan),
        slices=(plan.fleet.prefill_slices or 1) if plan.fleet else 1,
        pipeline=read_back.pipeline_of(plan),
    )
    return replace(here, prompts=1, reader=reader)


def rules_of(taken: Taken) -> Rules:
    """The rule tables that a solution's options make up."""
    candidate = taken.candidate
    names = tuple(axis.name for axis in candidate.table.mesh)
    pairs = zip(candidate.table.blocks, taken.choices, strict=True)
    return merged_rules(names, {block.name: block.options[choice.index] for block, choice in pairs})


def build_plan(spec: Spec, built: Built, solution: Optimum, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution, with the best plans not taken; `near` says what it changes against an earlier one."""
    plan = plan_alone(spec, built, solution, near)
    if isinstance(solution, FleetSolution):
        taken = {"prefill": solution.prefill, "generate": solution.generate}
        chosen = {"prefill": decoded_fleet(solution).reads, "generate": decoded_fleet(solution)}
    else:
        taken = dict.fromkeys(PHASES, solution.taken)
        chosen = dict.fromkeys(PHASES, decoded(solution))
    ups = {phase: runner_up_of(runner_up(taken[phase], phase), phase, taken[phase], chosen[phase]) for phase in PHASES}
    prefill = plan.prefill.model_copy(update={"runner_up": ups["prefill"]})
    generate = plan.generate.model_copy(update={"runner_up": ups["generate"]})
    return plan.model_copy(update={"prefill": prefill, "generate": generate})


def decoded(solution: Solution) -> Chosen:
    """The solution as what it chose."""
    candidate = solution.taken.candidate
    return chosen_from(solution.taken, candidate.batch, candidate.table.prompts, candidate.slices)


def chosen_from(taken: Taken, batch: int, prompts: int, slices: int) -> Chosen:
    """What was taken, with the machine and the lengths it was priced for."""
    made_by = taken.candidate.table.source
    pipeline, table = made_by.pipeline if isinstance(made_by, PoolPricer) else None, taken.candidate.table
    return Chosen(
        rules_of(taken),
        made_by.machine,
        batch,
        prompts,
        made_by.load,
        table.chunk,
        table.drafts,
        slices,
        pipeline=pipeline,
    )


def decoded_fleet(solution: FleetSolution) -> Chosen:
    """The fleet as what it chose: generate, with what reads its prompts."""
    prefill, generate, choice = solution.prefill, solution.generate, solution.choice
    batch, prompts = generate.candidate.batch, prefill.candidate.table.prompts
    reader = chosen_from(prefill, batch, prompts, choice.prefill_slices)
    here = chosen_from(generate, batch, 1, choice.slices)
    return replace(here, rules=here.rules._replace(prefill=PrefillRules()), reader=reader)


def plan_alone(spec: Spec, built: Built, solution: Optimum, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution without runner-ups, which take longer to solve than the rest does to write down."""
    chosen = decoded_fleet(solution) if isinstance(solution, FleetSolution) else decoded(solution)
    machine = chosen.machine
    prefill, generate = prefill_of(spec, chosen), generate_of(spec, chosen)
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
        fleet=fleet_of(spec, chosen, prefill.step_s, generate.step_s, handed_over(solution)),
        service=service_of(spec, chosen, prefill.step_s, generate.step_s, handed_over(solution)),
        proof=proof_of(built, solution, near),
        accuracy=accuracy_text(machine.chip.name, machine.stack, experts=spec.model.moe is not None),
    )


def dtypes_of(spec: Spec, machine: Machine) -> schema.Dtypes | None:
    """The dtypes that were taken, where the spec leaves a choice."""
    if not leaves_dtypes_open(spec):
        return None
    model = resolved(spec, machine).model
    return schema.Dtypes(weights=model.weights.chosen, kv_cache=model.kv_cache.chosen)


def mesh_of(machine: Machine) -> schema.Mesh:
    """The mesh with the torus coordinates of its chips."""
    axes = tuple(
        schema.MeshAxis(name=a.name, size=a.size, torus_axis=a.torus_axis, stride=a.stride, wraps=a.wraps)
        for a in machine.mesh
    )
    return schema.Mesh(axes=axes, chips=mesh_coordinates(machine.mesh, machine.slice))


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


def pool_of(spec: Spec, reader: Chosen | None) -> schema.Pool | None:
    """Where prefill takes place, if it has slices of its own."""
    if reader is None:
        return None
    rules, machine, pipeline = reader.rules, reader.machine, reader.pipeline
    sizes, ways = machine.sizes, machine.ways
    blocks = {name: hbm.block_weights_bytes(name, rules.generate, sizes, ways) for name in sizes.blocks}
    weights = sum(pipeline.kept(name, size) if pipeline else size for name, size in blocks.items())
    whole = replace(machine, mesh=pipeline.whole(machine.mesh)) if pipeline else machine
    held = hbm.prefill_bytes(rules, reader.load.longest, sizes, ways, reader.prompts)
    budget = budget_of(spec, machine, weights=weights, activations=held)
    return schema.Pool(slice=str(machine.slice), mesh=mesh_of(whole), padding=tuple(padding_of(reader)), hbm=budget)


def generate_of(spec: Spec, chosen: Chosen) -> schema.Generate:
    """The generate phase of the plan."""
    parts = chosen.generate_parts()
    return schema.Generate(
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


def hbm_of(spec: Spec, chosen: Chosen) -> schema.Hbm:
    """The HBM budget of one chip."""
    sizes, ways, load = chosen.machine.sizes, chosen.machine.ways, chosen.load
    rules, stored = chosen.rules, chosen.rules.generate
    copies = hbm.copies_bytes(rules, sizes, ways)
    weights = hbm.weights_bytes(stored, sizes, ways)
    cache = hbm.kv_cache_bytes(stored, chosen.batch, load.max_context, load.page_tokens, sizes, ways)
    activations = 0
    if chosen.reader is None:
        activations = hbm.prefill_bytes(rules, load.longest, sizes, ways, chosen.prompts, chosen.chunk)
    logits = hbm.logits_bytes(stored, chosen.batch * rows_of(chosen.drafts), sizes, ways)
    held = {"kv_cache": cache, "activations": activations, "logits": logits}
    return budget_of(spec, chosen.machine, weights=weights, copies=copies, **held)


def budget_of(spec: Spec, machine: Machine, **items: int) -> schema.Hbm:
    """The HBM of one chip by item, with what is left of it."""
    total, capacity = sum(items.values()), machine.chip.hbm_bytes
    available = available_hbm_bytes(spec, machine)
    return schema.Hbm(
        **{name: items.get(name, 0) for name in ("weights", "kv_cache", "activations", "logits")},
        copies=items.get("copies") or None,
        total=total,
        reserve=capacity - available,
        capacity=capacity,
        available=available,
        free=available - total,
    )


def proof_of(built: Built, solution: Optimum, near: schema.Near | None) -> schema.Proof:
    """What the solver proved; of a fleet for a request rate the chips that a request takes, used or not."""
    value, bound = solution.value, solution.bound
    arrivals = built.problem.arrivals
    if arrivals is not None:
        paid = Fraction(fleet_chips(solution) * NS) / arrivals.per_s
        value, bound = paid, paid if bound == value else paid * Fraction(bound) / Fraction(value)
    return schema.Proof(
        status="OPTIMAL" if value == bound else "NEAR",
        objective=built.problem.goal,
        value=ceil(value),
        bound=ceil(bound),
        candidates=solution.candidates,
        solved=solution.solved,
        near=near,
    )


def handed_over(solution: Optimum) -> schema.Transfer | None:
    """How prompts get from the slices that read them to those that generate."""
    if not isinstance(solution, FleetSolution):
        return None
    sent, link = solution.sent_bytes, solution.link
    return schema.Transfer(link=link.name, bytes=sent, seconds=sent * link.ns_per_byte / NS)


def runner_up_of(other_taken: Taken | None, phase: str, taken: Taken, chosen: Chosen) -> schema.RunnerUp | None:
    """The runner-up of a phase, with its step and its price against the plan."""
    if other_taken is None:
        return None
    other, blocks = replace(chosen, rules=rules_of(other_taken)), chosen.machine.sizes.blocks
    rules = other.rules
    table: schema.GenerateRules | schema.PrefillRules
    if phase == "prefill":
        table = schema.PrefillRules(**rules.prefill._asdict())
        strategy, parts = labels.prefill_strategy(rules, blocks), other.prefill_parts()
    else:
        table = schema.GenerateRules(**rules.generate._asdict())
        strategy, parts = labels.generate_strategy(rules.generate, blocks), other.generate_parts()
    return schema.RunnerUp(
        rules=table,
        strategy=schema.Strategy(**strategy),
        step_s=costs.total_s(parts, chosen.machine),
        objective_ratio=round(own_value(other_taken) / own_value(taken), 6),
    )


def own_value(taken: Taken) -> float:
    """The goal of a solution without what comes before it."""
    return float(taken.value - taken.candidate.base)
