"""The way back from a plan to what it was priced from: the machine, the rule tables, the spec."""

from typing import Any

from cost_models.chips import chip
from cost_models.torus import MeshAxis, parse_slice
from planner.plan.schema import Plan
from planner.problem.build import stack_for
from planner.problem.costs import Machine
from planner.problem.rules import GenerateRules, PrefillRules, Rules
from planner.problem.sizes import sizes_of
from planner.spec import Spec, spec_from_data


def spec_of(plan: Plan) -> Spec:
    """The resolved spec of a plan."""
    return spec_from_data(plan.spec)


def machine_of(plan: Plan) -> Machine:
    """The chips and links of a plan, with the catalogue's constants."""
    machine_chip = chip(plan.chip)
    mesh = tuple(MeshAxis(**_fields(axis)) for axis in plan.mesh.axes)
    return Machine(
        machine_chip, stack_for(machine_chip), parse_slice(machine_chip, plan.slice), mesh, sizes_of(spec_of(plan))
    )


def rules_of(plan: Plan) -> Rules:
    """Both rule tables of a plan, as the cost functions read them."""
    return Rules(GenerateRules(**_fields(plan.generate.rules)), PrefillRules(**_fields(plan.prefill.rules)))


def _fields(record: Any) -> dict[str, Any]:
    return dict(record)
