"""What a solution or a plan chose, decoded: rule tables with the machine, batch and lengths they are priced for."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.plan import machine as read_back
from planner.plan import schema
from planner.plan.optimum import Optimum
from planner.problem import costs, planned
from planner.problem.chunks import Steps, steps_of
from planner.problem.costs import Parts, Work
from planner.problem.drafts import Drafts, rows_of
from planner.problem.machine import Machine
from planner.problem.options import merged_rules
from planner.problem.pipeline import Pipeline
from planner.problem.pools import PoolPricer
from planner.problem.primitives import Collective
from planner.problem.rules import PrefillRules, Rules
from planner.problem.tables import Load
from planner.solve.fleet import FleetSolution
from planner.solve.model import Taken


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
        permutes = self.pipeline.permute(self.rules.prefill, tokens, self.machine.program, self.prompts)
        return self.pipeline.parts(parts, permutes, self.machine)

    def generate_collectives(self) -> list[Collective]:
        """Collectives of a generate step, in the order of the step."""
        return planned.generate_step(self.rules.generate, self.batch * rows_of(self.drafts), self.machine.program)

    def prefill_collectives(self, bucket: int | None = None) -> list[Collective]:
        """Collectives of the prefill of a bucket, the planned one if nothing is said, in the order of the step."""
        reads = self.reads
        tokens = bucket or reads.load.prompt
        found = planned.prefill_step(reads.rules, tokens, reads.machine.program, reads.prompts, reads.chunk)
        if reads.pipeline is not None:
            program, pipeline = reads.machine.program, reads.pipeline
            found = pipeline.collectives(found, pipeline.permute(reads.rules.prefill, tokens, program, reads.prompts))
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


def prefill_parts(tables: Rules, tokens: int, prompts: int, machine: Machine, chunk: int | None = None) -> Parts:
    """Rooflines by address of the prefill of `prompts` of `tokens` each, all chunks together."""
    return all_parts(costs.prefill_works(tables, tokens, machine, prompts, chunk), machine)


def all_parts(works: Iterable[Work], machine: Machine) -> Parts:
    """Rooflines by address of the blocks of a step."""
    return {address: part for work in works for address, part in costs.parts_of(work, machine).items()}


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


def decoded(solution: Optimum) -> Chosen:
    """The solution as what it chose; of a fleet what generates, with what reads its prompts."""
    if isinstance(solution, FleetSolution):
        return decoded_fleet(solution)
    candidate = solution.taken.candidate
    return chosen_from(solution.taken, candidate.batch, candidate.table.prompts, candidate.slices)


def decoded_fleet(solution: FleetSolution) -> Chosen:
    """The fleet as what it chose: generate, with what reads its prompts."""
    prefill, generate, choice = solution.prefill, solution.generate, solution.choice
    batch, prompts = generate.candidate.batch, prefill.candidate.table.prompts
    reader = chosen_from(prefill, batch, prompts, choice.prefill_slices)
    here = chosen_from(generate, batch, 1, choice.slices)
    return replace(here, rules=here.rules._replace(prefill=PrefillRules()), reader=reader)


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


def rules_of(taken: Taken) -> Rules:
    """The rule tables that a solution's options make up."""
    candidate = taken.candidate
    names = tuple(axis.name for axis in candidate.table.mesh)
    pairs = zip(candidate.table.blocks, taken.choices, strict=True)
    return merged_rules(names, {block.name: block.options[choice.index] for block, choice in pairs})
