"""The way back from a plan to what it was priced from: the machine, the rule tables, the spec."""

from dataclasses import replace
from typing import Any

from cost_models.chips import chip
from cost_models.lengths import fitted
from cost_models.stacks import stack
from cost_models.torus import MeshAxis, parse_slice
from planner.plan.schema import Dtypes, Plan
from planner.problem.chunks import steps_of
from planner.problem.drafts import Drafts, tokens_per_step
from planner.problem.machine import Machine
from planner.problem.pipeline import Pipeline
from planner.problem.problem import Place
from planner.problem.rules import GenerateRules, PrefillRules, Rules
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load
from planner.spec import Spec, spec_from_data, with_dtypes


def spec_of(plan: Plan) -> Spec:
    """The resolved spec of a plan."""
    return spec_from_data(plan.spec)


def resolved_spec(plan: Plan) -> Spec:
    """The resolved spec of a plan with the dtypes that were taken: what it was priced from."""
    spec = spec_of(plan)
    return spec if plan.dtypes is None else with_dtypes(spec, plan.dtypes.weights, plan.dtypes.kv_cache)


def stored_dtypes(plan: Plan) -> Dtypes:
    """The dtypes of weights and KV cache of a plan."""
    model = resolved_spec(plan).model
    return Dtypes(weights=model.weights.chosen, kv_cache=model.kv_cache.chosen)


def machine_of(plan: Plan) -> Machine:
    """The chips and links of a plan, with the catalogue's constants."""
    machine_chip, spec = chip(plan.chip), resolved_spec(plan)
    mesh = tuple(MeshAxis(**_fields(axis)) for axis in plan.mesh.axes)
    slice_, apart = parse_slice(machine_chip, plan.slice), plan.pool is not None
    return Machine(machine_chip, stack(spec.hardware.stack), slice_, mesh, sizes_of(spec), apart)


def prefill_machine_of(plan: Plan) -> Machine:
    """The chips and links that prefill has: those of its own slices, or of the plan's."""
    whole, pipeline = machine_of(plan.at("prefill")), pipeline_of(plan)
    return whole if pipeline is None else replace(whole, mesh=pipeline.staged(whole.mesh))


def pipeline_of(plan: Plan) -> Pipeline | None:
    """The pipeline stages of prefill, if there are any."""
    stages = plan.prefill.stages
    if stages is None:
        return None
    axis = next(axis for axis in plan.at("prefill").mesh.axes if axis.name == stages.axis)
    return Pipeline(MeshAxis(**_fields(axis)))


def prefill_rules_of(plan: Plan) -> Rules:
    """How the weights that prefill reads are stored, and its own table."""
    stored = plan.prefill.stored or plan.generate.rules
    return Rules(GenerateRules(**_fields(stored)), PrefillRules(**_fields(plan.prefill.rules)))


def load_of(plan: Plan) -> Load:
    """The lengths that a plan was priced for, with its own batch alone."""
    workload, buckets = spec_of(plan).workload, plan.prefill.buckets
    return Load(
        batches=(plan.generate.batch,),
        prompts=(plan.prefill.prompts,),
        prompt=plan.prefill.tokens,
        buckets=buckets,
        lengths=fitted(workload.prompt_tokens.mean, workload.prompt_tokens.p95),
        mean_context=workload.prompt_tokens.mean + workload.output_tokens.mean / 2,
        max_context=plan.generate.context,
        page_tokens=plan.generate.page_tokens,
        chunks=(plan.prefill.chunk,),
        drafts=(drafts_of(plan),),
    )


def drafts_of(plan: Plan) -> Drafts | None:
    """What a generate step of a plan verifies."""
    told = plan.generate.speculation
    if told is None:
        return None
    return Drafts(told.drafted_tokens, told.acceptance, told.draft_s / told.drafted_tokens)


def place_of(plan: Plan) -> Place:
    """What the times of a plan are weighed by."""
    steps, prefill = steps_of(plan.prefill.tokens, plan.prefill.chunk), plan.prefill
    tokens = tokens_per_step(drafts_of(plan))
    return Place.of(len(plan.mesh.chips), prefill.prompts, plan.generate.batch, steps.number, tokens)


def rules_of(plan: Plan) -> Rules:
    """The rule tables of the slices of a plan, as the cost functions read them; no prefill where it is elsewhere."""
    copies = {str(block): GenerateRules(**_fields(rules)) for block, rules in (plan.prefill.copies or {}).items()}
    prefill = PrefillRules(**_fields(plan.prefill.rules)) if plan.pool is None else PrefillRules()
    return Rules(GenerateRules(**_fields(plan.generate.rules)), prefill, copies)


def _fields(record: Any) -> dict[str, Any]:
    return dict(record)
