"""From a spec to priced options: meshes, batches, buckets, what is legal and what is refused by name."""

from pathlib import Path

import pytest

from cost_models.chips import chip
from cost_models.meshes import meshes
from cost_models.torus import parse_slice
from planner.errors import Unsupported
from planner.plan.make import make_plan
from planner.problem import labels
from planner.problem.build import batches_of, build, prefill_buckets
from planner.problem.options import has_copy, tables_of
from planner.render import render_package
from planner.spec import bundled_models, is_packaged, load_spec
from planner.spec.pins import GENERATE_LAYOUTS, KV_CACHE_LAYOUTS, PREFILL_LAYOUTS

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
L70B = EXAMPLES / "llama_3_1_70b_v5e_4x4.yaml"
SMOLLM2 = EXAMPLES / "smollm2_135m_cpu8.yaml"


@pytest.mark.parametrize(
    ("chip_name", "slice_text", "expected"),
    [
        ("v5e", "4x4", ["x4 y4", "x4 y0:2 y1:2"]),
        ("cpu", "2x4", ["x2 y4", "x2 y0:2 y1:2"]),
        ("v5e", "1x1", ["x1"]),
        ("v5p", "4x4x4", ["x4 y4 z4"]),
        ("h100", "8", ["x8", "x0:4 x1:2", "x0:2 x1:4"]),
    ],
)
def test_meshes_keep_axes_whole_or_cut_them_in_two(chip_name, slice_text, expected):
    found = meshes(parse_slice(chip(chip_name), slice_text))
    written = [" ".join(a.name + (":" if a.name[1:] else "") + str(a.size) for a in mesh) for mesh in found]
    assert written == expected


def test_every_option_is_legal_in_its_tables():
    built = build(load_spec(SMOLLM2, ["serving.strategies=all"]))
    for table in built.problem.meshes[::4]:
        machine = table.source.machine
        names = tuple(axis.name for axis in table.mesh)
        for option in table.blocks[0].options:
            generate, read, prefill = tables_of("attention", names, option)
            assert (read is not generate) == (option.stored is not None) == has_copy("attention", option)
            assert set(prefill.q_heads) <= set(read.q_heads)
            assert prefill.kv_heads == tuple(a for a in read.kv_heads if a in prefill.q_heads)
            assert set(prefill.kv_heads) <= set(generate.kv_heads)
            assert read.d_model[: len(prefill.d_model)] == prefill.d_model
            assert not set(prefill.d_model) & set(prefill.tokens)
            assert set(generate.batch) <= set(generate.d_model + generate.q_heads)
            for stored in (generate, read):
                assert not set(stored.d_model) & set(stored.q_heads)
                assert machine.sizes.d_model % machine.ways(stored.d_model) == 0
            gathered = set(read.q_heads + read.d_model) - set(prefill.q_heads + prefill.d_model)
            assert gathered <= set(prefill.tokens)


def test_labels_are_those_that_can_be_pinned():
    built = build(load_spec(SMOLLM2, ["serving.strategies=all"]))
    names = tuple(axis.name for axis in built.problem.meshes[-1].mesh)
    attention, mlp, _ = built.problem.meshes[-1].blocks
    generate, prefill, caches = set(), set(), set()
    for option in attention.options:
        stored, read, rules = tables_of("attention", names, option)
        generate.add(labels.attention_label(stored))
        prefill.add(labels.prefill_attention_label(read, rules))
        caches.add(labels.kv_cache_label(stored))
    for option in mlp.options:
        stored, read, rules = tables_of("mlp", names, option)
        generate.add(labels.mlp_label(stored))
        prefill.add(labels.prefill_mlp_label(read, rules))
    assert generate == set(GENERATE_LAYOUTS)
    assert prefill == set(PREFILL_LAYOUTS)
    assert caches == set(KV_CACHE_LAYOUTS)


def test_batches_are_powers_of_two_and_three_halves_of_them_up_to_the_concurrency():
    spec = load_spec(L70B, ["workload.concurrency=20"])
    assert batches_of(spec) == (1, 2, 3, 4, 6, 8, 12, 16, 20)
    assert batches_of(load_spec(L70B, ["workload.concurrency=20", "objective=latency"])) == (20,)
    assert batches_of(load_spec(L70B, ["pins.generate.batch=10"])) == (10,)


def test_buckets_are_powers_of_two_and_end_with_the_context():
    assert prefill_buckets(load_spec(SMOLLM2), 8) == (16, 32, 64, 128, 256, 512, 768)
    assert prefill_buckets(load_spec(L70B, ["workload.max_context=3000"]), 16) == (128, 256, 512, 1024, 2048, 3072)


@pytest.mark.parametrize("name", bundled_models())
def test_a_model_is_planned_and_rendered_or_refused_by_name(name):
    spec = load_spec(L70B, [f"model.config={name}", "hardware.slice=8x8"])
    if is_packaged(spec.model):
        assert "model.py" in render_package(make_plan(spec))
    else:
        with pytest.raises(Unsupported, match="no package is rendered yet for "):
            build(load_spec(L70B, [f"model.config={name}", "serving.strategies=rendered"]))


def test_pins_leave_only_what_they_allow():
    pins = ["pins.generate.kv_cache=batch", "pins.prefill.mlp=weight_gathered", "pins.generate.d_ff=[x, y]"]
    built = build(load_spec(SMOLLM2, pins))
    for table in built.problem.meshes:
        names = tuple(axis.name for axis in table.mesh)
        assert table.blocks[1].options
        for option in table.blocks[0].options:
            assert labels.kv_cache_label(tables_of("attention", names, option).generate) == "batch"
        for option in table.blocks[1].options:
            assert set(tables_of("mlp", names, option).generate.d_ff) == set(names)
