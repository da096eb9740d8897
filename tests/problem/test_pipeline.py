"""Prefill in pipeline stages: what a stage takes and keeps, against the same layers without a pipeline."""

from dataclasses import replace

import pytest

from cost_models.chips import chip
from cost_models.meshes import meshes
from cost_models.torus import parse_slice
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.schema import Plan
from planner.problem import hbm
from planner.problem.build import build
from planner.problem.costs import total_s
from planner.problem.pipeline import Pipeline, pipelines
from planner.problem.sizes import sizes_of
from planner.report import report_html
from planner.solve.fleet import search_fleet
from planner.spec import load_spec
from tests.plans_of import SPECS, example_plan

LLAMA_70B = "llama_3_1_70b_v5e_4x4"
PIPELINED = (
    "serving={mode: disaggregated}",
    "hardware={chip: v5e, slices: [2x4, 4x4]}",
    "workload.requests_per_s=10",
    "limits.ttft=300 ms",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = example_plan(LLAMA_70B, *PIPELINED)
    assert found.prefill.stages is not None
    return found


def test_stages_are_axes_that_cut_the_layers_evenly():
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", ["serving={mode: auto}", "hardware.slice=4x8"])
    sizes, slice_ = sizes_of(spec), parse_slice(chip("v5e"), "4x8")
    for mesh in meshes(slice_):
        stages = [each.stages for each in pipelines(mesh, sizes) if each is not None]
        assert sorted(stages) == sorted(axis.size for axis in mesh if axis.size > 1 and 80 % axis.size == 0)


def test_a_stage_has_one_chip_of_the_axis_and_all_of_the_others():
    slice_ = parse_slice(chip("v5e"), "4x4")
    mesh = meshes(slice_)[0]
    pipeline = Pipeline(mesh[0])
    assert [axis.size for axis in pipeline.staged(mesh)] == [1, 4]
    assert pipeline.whole(pipeline.staged(mesh)) == mesh


def test_all_stages_take_what_the_layers_take_and_a_vocabulary_each(plan: Plan):
    reads = chosen_of(plan).reads
    assert reads.pipeline is not None
    machine, stages = reads.machine, reads.pipeline.stages
    alone = {part: total_s({part: cost}, machine) for part, cost in one_stage(plan).items()}
    layers = sum(alone[part] for part in alone if part.split(".")[1] in ("attention", "mlp"))
    vocab = sum(alone.values()) - layers
    permutes = next(each for each in plan.prefill.collectives if each.kind == "permute")
    assert permutes.count == stages
    fixed = (stages - 1) * machine.sizes.layers * machine.stack.layer_s
    assert plan.prefill.step_s == pytest.approx(layers + stages * vocab - fixed + permutes.seconds, rel=1e-5)


def one_stage(plan: Plan):
    """Rooflines of all layers on the chips of one stage, with one vocabulary."""
    reads = chosen_of(plan).reads
    return replace(reads, pipeline=None).parts_of_prompt(plan.prefill.tokens)


def test_rows_travel_to_the_next_stage_in_parts(plan: Plan):
    reads = chosen_of(plan).reads
    permutes = next(each for each in plan.prefill.collectives if each.kind == "permute")
    ways = reads.machine.ways(reads.rules.prefill.tokens) * reads.machine.ways(reads.rules.prefill.d_model)
    assert permutes.bytes == plan.prefill.prompts * plan.prefill.tokens * 8192 * 2 // ways


def test_a_stage_keeps_its_part_of_the_layers_and_the_whole_vocabulary(plan: Plan):
    reads = chosen_of(plan).reads
    assert reads.pipeline is not None
    assert plan.pool is not None
    stored, sizes, ways = reads.rules.generate, reads.machine.sizes, reads.machine.ways
    layers = hbm.attention_weights_bytes(stored, sizes, ways) + hbm.mlp_weights_bytes(stored, sizes, ways)
    vocab = hbm.vocab_weights_bytes(stored, sizes, ways)
    assert plan.pool.hbm.weights == pytest.approx(layers / reads.pipeline.stages + vocab, abs=2)


def test_a_pipeline_is_read_back_from_its_plan(plan: Plan):
    assert chosen_of(plan_from_yaml(plan_to_yaml(plan), "plan")).reads.pipeline == chosen_of(plan).reads.pipeline


def test_the_page_says_which_layers_a_chip_has(plan: Plan):
    assert plan.prefill.stages is not None
    assert f"layers 0–{80 // plan.prefill.stages.count - 1}" in report_html(plan)


def test_layers_that_are_not_alike_are_not_cut():
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", ["serving={mode: auto}", "model={config: deepseek-v3}"])
    sizes = sizes_of(spec)
    mesh = meshes(parse_slice(chip("v5e"), "4x4"))[0]
    assert list(pipelines(mesh, sizes)) == [None]


def test_a_pipeline_needs_fewer_chips_where_tensor_parallelism_talks_much(plan: Plan):
    assert plan.fleet is not None
    spec = load_spec(SPECS / f"{LLAMA_70B}.yaml", PIPELINED)
    (apart,) = build(spec).apart
    plain = search_fleet(replace(apart, prefill=tuple(pool for pool in apart.prefill if pool.stages == 1)))
    assert plain is not None
    assert plan.fleet.chips < plain.choice.chips


def test_every_stage_makes_the_collectives_of_a_vocabulary(plan: Plan):
    reads = chosen_of(plan).reads
    assert reads.pipeline is not None
    found = {(each.address, each.kind, each.axes, each.bytes): each.repeats for each in reads.prefill_collectives()}
    alone = replace(reads, pipeline=None).prefill_collectives()
    assert any(".embedding." in each.address for each in alone)
    for each in alone:
        times = 1 if each.address.split(".")[1] in ("attention", "mlp") else reads.pipeline.stages
        assert found[each.address, each.kind, each.axes, each.bytes] == times * each.repeats
