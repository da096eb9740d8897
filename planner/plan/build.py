"""Solution -> Plan: rule tables with names, predictions by address, memory by item, the proof."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from cost_models.stacks import accuracy_text
from cost_models.torus import mesh_coordinates
from planner.plan import machine as read_back
from planner.plan import schema
from planner.plan.padding import padding_of
from planner.problem import costs, hbm, labels, planned
from planner.problem.build import Built, available_hbm_bytes, prefill_buckets
from planner.problem.costs import Parts, Work
from planner.problem.machine import Machine
from planner.problem.options import STORED_AXES, merged_rules
from planner.problem.primitives import Collective
from planner.problem.rules import Rules
from planner.problem.tables import Load
from planner.solve.model import Taken
from planner.solve.runner_up import runner_ups
from planner.solve.search import Solution
from planner.spec import Spec, spec_to_data


def prefill_parts(tables: Rules, tokens: int, prompts: int, machine: Machine) -> Parts:
    """Rooflines by address of the prefill of `prompts` of `tokens` each."""
    return all_parts(costs.prefill_works(tables, tokens, machine, prompts), machine)


def all_parts(works: Iterable[Work], machine: Machine) -> Parts:
    """Rooflines by address of the blocks of a step."""
    return {address: part for work in works for address, part in costs.parts_of(work, machine).items()}


SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Chosen:
    """One solution, decoded: its tables and the machine, batch and lengths it was priced for."""

    rules: Rules
    machine: Machine
    batch: int
    prompts: int
    load: Load

    def generate_parts(self) -> Parts:
        """Rooflines of a generate step by address."""
        works = costs.generate_works(self.rules.generate, self.batch, self.load.mean_context, self.machine)
        return all_parts(works, self.machine)

    def prefill_parts(self) -> Parts:
        """Rooflines of the prefill of the planned bucket by address."""
        return prefill_parts(self.rules, self.load.prompt, self.prompts, self.machine)

    def generate_collectives(self) -> list[Collective]:
        """Collectives of a generate step, in the order of the step."""
        return planned.generate_step(self.rules.generate, self.batch, self.machine.program)

    def prefill_collectives(self) -> list[Collective]:
        """Collectives of the prefill of the planned bucket, in the order of the step."""
        return planned.prefill_step(self.rules, self.load.prompt, self.machine.program, self.prompts)


def chosen_of(plan: schema.Plan) -> Chosen:
    """What a plan chose, to be priced again by the catalogue of today."""
    rules, load = read_back.rules_of(plan), read_back.load_of(plan)
    return Chosen(rules, read_back.machine_of(plan), plan.generate.batch, plan.prefill.prompts, load)


def rules_of(taken: Taken) -> Rules:
    """The rule tables that a solution's options make up."""
    candidate = taken.candidate
    names = tuple(axis.name for axis in candidate.table.mesh)
    pairs = zip(candidate.table.blocks, taken.choices, strict=True)
    return merged_rules(names, {block.name: block.options[choice.index] for block, choice in pairs})


def build_plan(spec: Spec, built: Built, solution: Solution, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution, with the best plans not taken; `near` says what it changes against an earlier one."""
    chosen, plan = decoded(built, solution), plan_alone(spec, built, solution, near)
    ups = runner_ups(solution)
    prefill = plan.prefill.model_copy(update={"runner_up": runner_up_of(ups["prefill"], "prefill", solution, chosen)})
    generate = plan.generate.model_copy(
        update={"runner_up": runner_up_of(ups["generate"], "generate", solution, chosen)}
    )
    return plan.model_copy(update={"prefill": prefill, "generate": generate})


def decoded(built: Built, solution: Solution) -> Chosen:
    """The solution as what it chose."""
    candidate = solution.taken.candidate
    table = candidate.table
    made_by = table.source
    return Chosen(rules_of(solution.taken), made_by.machine, candidate.batch, table.prompts, made_by.load)


def plan_alone(spec: Spec, built: Built, solution: Solution, near: schema.Near | None = None) -> schema.Plan:
    """The plan of a solution without runner-ups, which take longer to solve than the rest does to write down."""
    chosen = decoded(built, solution)
    machine = chosen.machine
    prefill, generate = prefill_of(spec, chosen), generate_of(spec, chosen)
    return schema.Plan(
        format_version=schema.FORMAT_VERSION,
        name=spec.name,
        spec=spec_to_data(spec),
        chip=machine.chip.name,
        slice=str(machine.slice),
        mesh=mesh_of(machine),
        prefill=prefill,
        generate=generate,
        padding=tuple(padding_of(chosen)),
        hbm=hbm_of(spec, chosen),
        service=service_of(spec, chosen, prefill.step_s, generate.step_s),
        proof=proof_of(built, solution, near),
        accuracy=accuracy_text(machine.chip.name, machine.stack, experts=spec.model.moe is not None),
    )


def mesh_of(machine: Machine) -> schema.Mesh:
    """The mesh with the torus coordinates of its chips."""
    axes = tuple(
        schema.MeshAxis(name=a.name, size=a.size, torus_axis=a.torus_axis, stride=a.stride, wraps=a.wraps)
        for a in machine.mesh
    )
    return schema.Mesh(axes=axes, chips=mesh_coordinates(machine.mesh, machine.slice))


def prefill_of(spec: Spec, chosen: Chosen) -> schema.Prefill:
    """The prefill phase of the plan."""
    parts, rules = chosen.prefill_parts(), chosen.rules
    return schema.Prefill(
        rules=schema.PrefillRules(**rules.prefill._asdict()),
        copies=copies_of(rules),
        strategy=schema.Strategy(**labels.prefill_strategy(rules, chosen.machine.sizes.blocks)),
        prompts=chosen.prompts,
        tokens=chosen.load.prompt,
        buckets=prefill_buckets(spec, chosen.machine.slice.chips),
        step_s=costs.total_s(parts, chosen.machine),
        binds=costs.binds(parts, chosen.machine),
        parts=tuple(rooflines(parts, chosen.machine)),
        collectives=tuple(priced(chosen.prefill_collectives(), chosen.machine)),
    )


def copies_of(rules: Rules) -> schema.Copies | None:
    """How second copies of weights are stored, as the plan file says it."""
    found: schema.Copies = {}
    for block in schema.COPIED:
        if block in rules.copies:
            stored = rules.copies[block]
            found[block] = schema.CopyRules(**{name: getattr(stored, name) for name in STORED_AXES[block]})
    return found or None


def generate_of(spec: Spec, chosen: Chosen) -> schema.Generate:
    """The generate phase of the plan."""
    parts = chosen.generate_parts()
    return schema.Generate(
        rules=schema.GenerateRules(**chosen.rules.generate._asdict()),
        strategy=schema.Strategy(**labels.generate_strategy(chosen.rules.generate, chosen.machine.sizes.blocks)),
        batch=chosen.batch,
        context=spec.workload.max_context,
        page_tokens=spec.model.kv_cache.page_tokens,
        step_s=costs.total_s(parts, chosen.machine),
        binds=costs.binds(parts, chosen.machine),
        parts=tuple(rooflines(parts, chosen.machine)),
        collectives=tuple(priced(chosen.generate_collectives(), chosen.machine)),
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
)


def priced(found: Iterable[Collective], machine: Machine) -> list[schema.Collective]:
    """Collectives with their seconds over the whole step."""
    return [
        schema.Collective(
            address=each.address,
            kind=each.kind,
            axes=each.axes,
            bytes=each.bytes,
            count=each.repeats,
            seconds=each.repeats * machine.seconds(each),
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
    activations = hbm.prefill_bytes(rules, load.longest, sizes, ways, chosen.prompts)
    logits = hbm.logits_bytes(stored, chosen.batch, sizes, ways)
    total, capacity = weights + copies + cache + activations + logits, chosen.machine.chip.hbm_bytes
    available = available_hbm_bytes(spec, chosen.machine)
    return schema.Hbm(
        weights=weights,
        copies=copies or None,
        kv_cache=cache,
        activations=activations,
        logits=logits,
        total=total,
        reserve=capacity - available,
        capacity=capacity,
        available=available,
        free=available - total,
    )


def service_of(spec: Spec, chosen: Chosen, prefill_s: float, generate_s: float) -> schema.Service:
    """Means that users see, by the formulas of `Problem.goal_weights`."""
    output, batch, prompts = spec.workload.output_tokens.mean, chosen.batch, chosen.prompts
    waiting = (prompts - 1) / 2
    request_s = prefill_s / prompts + output * generate_s / (batch - waiting)
    chip_seconds, price = 1e6 * chosen.machine.slice.chips * request_s / output, spec.hardware.price_per_chip_hour
    return schema.Service(
        ttft_s=waiting * request_s + generate_s + prefill_s,
        tpot_s=(batch - waiting) * request_s / output,
        tokens_per_s=output / request_s,
        chip_seconds_per_million_tokens=chip_seconds,
        money_per_million_tokens=None if price is None else price * chip_seconds / SECONDS_PER_HOUR,
    )


def proof_of(built: Built, solution: Solution, near: schema.Near | None) -> schema.Proof:
    """What the solver proved."""
    return schema.Proof(
        status="OPTIMAL" if solution.value == solution.bound else "NEAR",
        objective=built.problem.goal,
        value=ceil(solution.value),
        bound=ceil(solution.bound),
        candidates=solution.candidates,
        solved=solution.solved,
        near=near,
    )


def runner_up_of(taken: Taken | None, phase: str, solution: Solution, chosen: Chosen) -> schema.RunnerUp | None:
    """The runner-up of a phase, with its step and its price against the plan."""
    if taken is None:
        return None
    other, blocks = replace(chosen, rules=rules_of(taken)), chosen.machine.sizes.blocks
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
        objective_ratio=round(float(taken.value / solution.value), 6),
    )
