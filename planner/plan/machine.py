"""The way back from a plan to what it was priced from: the machine, the rule tables, the spec."""

from typing import Any

from cost_models.chips import chip
from cost_models.stacks import stack
from cost_models.torus import MeshAxis, parse_slice
from planner.plan.schema import Plan
from planner.problem.machine import Machine
from planner.problem.rules import GenerateRules, PrefillRules, Rules
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load
from planner.spec import Spec, spec_from_data


def spec_of(plan: Plan) -> Spec:
    """The resolved spec of a plan."""
    return spec_from_data(plan.spec)


def machine_of(plan: Plan) -> Machine:
    """The chips and links of a plan, with the catalogue's constants."""
    machine_chip, spec = chip(plan.chip), spec_of(plan)
    mesh = tuple(MeshAxis(**_fields(axis)) for axis in plan.mesh.axes)
    return Machine(
        machine_chip, stack(spec.hardware.stack), parse_slice(machine_chip, plan.slice), mesh, sizes_of(spec)
    )


def load_of(plan: Plan) -> Load:
    """The lengths that a plan was priced for, with its own batch alone."""
    workload, buckets = spec_of(plan).workload, plan.prefill.buckets
    return Load(
        batches=(plan.generate.batch,),
        prompts=(plan.prefill.prompts,),
        prompt=plan.prefill.tokens,
        longest=buckets[-1],
        smallest=buckets[0],
        mean_context=workload.prompt_tokens.mean + workload.output_tokens.mean / 2,
        max_context=plan.generate.context,
        page_tokens=plan.generate.page_tokens,
    )


def rules_of(plan: Plan) -> Rules:
    """The rule tables of a plan, as the cost functions read them."""
    copies = {str(block): GenerateRules(**_fields(rules)) for block, rules in (plan.prefill.copies or {}).items()}
    return Rules(GenerateRules(**_fields(plan.generate.rules)), PrefillRules(**_fields(plan.prefill.rules)), copies)


def _fields(record: Any) -> dict[str, Any]:
    return dict(record)
