"""Public bug reports of other planners and engines, as tests of what a plan must do instead (the planner's side)."""

from itertools import pairwise, product
from math import ceil, prod
from typing import Any

import pytest

from cost_models.torus import hosts_touched, mesh_groups
from planner.errors import InfeasibleSpec
from planner.explain import Subject, explain
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.problem.build import Built, build
from planner.problem.options import attention_rules
from planner.spec import Spec, spec_from_data

QWEN3_30B = {"layers": 48, "d_model": 2048, "d_ff": 6144, "q_heads": 32, "kv_heads": 4, "head_dim": 128}
QWEN2_5_3B = {"layers": 36, "d_model": 2048, "d_ff": 11008, "q_heads": 16, "kv_heads": 2, "head_dim": 128}
LLAMA_70B = {"layers": 80, "d_model": 8192, "d_ff": 28672, "q_heads": 64, "kv_heads": 8, "head_dim": 128}
GEMMA_12B = {"layers": 48, "d_model": 3840, "d_ff": 15360, "q_heads": 16, "kv_heads": 8, "head_dim": 256}
"""Sizes of the models of the reports, as dense models of the llama architecture."""


def spec_of(sizes: dict[str, int], chip: str, slice_: str, **more: Any) -> Spec:
    """A spec of these sizes, with a short chat workload."""
    workload = {
        "prompt_tokens": {"mean": 512, "p95": 1024},
        "output_tokens": {"mean": 128, "p95": 256},
        "concurrency": more.get("batch", 16),
    }
    model = {
        "family": "llama",
        "max_positions": 131072,
        "vocab": more.get("vocab", 151936),
        "weights": {"dtype": more.get("weights", "bf16")},
        **sizes,
    }
    return spec_from_data(
        {
            "version": 1,
            "name": "report",
            "model": model,
            "hardware": {"chip": chip, "slices": [slice_]},
            "workload": {**workload, **({"max_context": more["context"]} if "context" in more else {})},
            "pins": more.get("pins", {}),
        }
    )


def assert_heads_whole(built: Built) -> None:
    """No attention layout of any mesh gives a chip a part of a KV head, nor half of the chips nothing but padding."""
    for table in built.problem.meshes:
        machine, names = table.source.machine, tuple(axis.name for axis in table.mesh)
        sizes = machine.sizes
        for option in table.blocks[0].options:
            generate, _ = attention_rules(names, option)
            ways = machine.ways(generate.kv_heads)
            assert ways < 2 * sizes.kv_heads
            held = sizes.heads(generate, machine.ways).kv_local
            assert held >= 1
            assert held * ways >= sizes.kv_heads


def ways_of(plan: Plan, axes: tuple[str, ...]) -> int:
    """How many ways some axes of a plan cut; a torus axis stands for its pieces."""
    ways = 1
    for axis in plan.mesh.axes:
        ways *= axis.size if {axis.name, axis.torus_axis} & set(axes) else 1
    return ways


@pytest.mark.parametrize(
    ("sizes", "chip", "slice_"),
    [
        pytest.param(QWEN3_30B, "v6e", "2x4", id="A1: tpu-inference#1714, 4 KV heads on 8 chips"),
        pytest.param(QWEN2_5_3B, "v6e", "2x4", id="A2: tpu-inference#2661, 2 KV heads on 8 chips"),
        pytest.param(QWEN3_30B, "v6e", "4x4", id="sglang-jax#197, more chips than KV heads over 4 hosts"),
        pytest.param({**QWEN2_5_3B, "kv_heads": 1}, "v5e", "2x4", id="A3: one KV head, which no axis may cut"),
        pytest.param({**QWEN2_5_3B, "q_heads": 12, "kv_heads": 6}, "cpu", "2x4", id="6 KV heads on 8 chips"),
    ],
)
def test_kv_heads_are_never_cut(sizes: dict[str, int], chip: str, slice_: str):
    """Bug log A1, A2, A3; also tpu-inference#2585, which cut the width of heads instead."""
    spec = spec_of(sizes, chip, slice_)
    assert_heads_whole(build(spec))
    plan = make_plan(spec)
    rules = plan.generate.rules
    assert ways_of(plan, rules.kv_heads) < 2 * sizes["kv_heads"]
    assert sizes["kv_heads"] > 1 or not rules.kv_heads
    exchanged = [each.address for each in plan.generate.collectives if each.kind == "all_to_all"]
    assert not [address for address in exchanged if "kv" in address]


@pytest.mark.parametrize(("heads", "sizes"), [(4, QWEN3_30B), (2, QWEN2_5_3B)])
def test_forcing_a_cut_of_kv_heads_names_heads_chips_and_the_rule(heads: int, sizes: dict[str, int]):
    """Bug log A1: the error comes before anything is loaded; jax#27808: not from the compiler."""
    pins = {"generate.kv_heads": ("x", "y"), "generate.q_heads": ("x", "y")}
    with pytest.raises(InfeasibleSpec) as told:
        make_plan(spec_of(sizes, "v6e", "2x4", pins=pins))
    message = str(told.value)
    assert f"{heads} KV heads" in message
    assert "8" in message
    assert "padding" in message


def test_copies_of_kv_heads_are_stated_and_counted():
    """Bug log A1: 4 KV heads under 8-way query heads are copied twice; the plan says so, and counts the copies."""
    cuts = {"generate.q_heads": ("x", "y"), "generate.kv_heads": ("y",), "generate.kv_cache": "heads"}
    plan = make_plan(spec_of(QWEN3_30B, "v6e", "2x4", pins={**cuts, "generate.batch": 8}, batch=8, context=8192))
    assert (ways_of(plan, ("y",)), ways_of(plan, ("x",))) == (4, 2)
    assert plan.generate.strategy.kv_cache in (
        "heads: kv_heads on y, copies on x",
        "heads: kv_heads on (y0,y1), copies on x",
    )
    token_bytes = QWEN3_30B["layers"] * 2 * 4 * 128 * 2
    assert plan.hbm.kv_cache * 8 == pytest.approx(2 * 8 * 8192 * token_bytes, rel=0.05)


@pytest.mark.parametrize("vocab", [250682, 50257])
def test_a_vocabulary_that_does_not_divide_is_padded_and_stays_what_it_is(vocab: int):
    """Bug log A5, vllm#440: 250682 over 8 devices."""
    pins = {"generate.vocab": ("x", "y")}
    plan = make_plan(spec_of(QWEN2_5_3B, "cpu", "2x4", vocab=vocab, pins=pins))
    assert plan.spec["model"]["vocab"] == vocab
    (padding,) = [each for each in plan.padding if each.size == vocab]
    assert padding.padded % 8 == 0
    assert vocab < padding.padded < vocab + 8
    assert padding.bytes_per_chip > 0


def test_the_70b_that_does_not_fit_is_told_with_numbers_and_fixes():
    """Bug log B2, vllm#9331: int8 weights on eight v5e, eight sequences of 131072; it fits with 4096."""
    assert make_plan(spec_of(LLAMA_70B, "v5e", "2x4", weights="int8", batch=1, context=4096)).hbm.free > 0
    with pytest.raises(InfeasibleSpec) as told:
        make_plan(spec_of(LLAMA_70B, "v5e", "2x4", weights="int8", batch=8, context=131072, pins={"generate.batch": 8}))
    message = str(told.value)
    assert "HBM" in message
    assert "what would fit" in message
    fixes = message.partition("what would fit")[2]
    assert "max_context" in fixes or "slice" in fixes


def test_the_cache_of_a_long_sequence_has_the_bytes_of_its_kv_heads():
    """Bug log B2: 80 * 2 * 8 * 128 * 2 * 131072 is 43 GB, not the 344 GB of all query heads (jetstream-pytorch#14)."""
    plan = make_plan(spec_of(LLAMA_70B, "v5e", "4x8", weights="int8", batch=1, context=131072))
    cut = ways_of(plan, plan.generate.rules.kv_heads + plan.generate.rules.kv_tokens)
    whole = 80 * 2 * 8 * 128 * 2 * 131072
    assert plan.hbm.kv_cache * cut == pytest.approx(whole, rel=0.02)


def test_the_cache_is_cut_over_all_chips_and_logits_live_for_one_step():
    """Bug log B3, gemma#648: the cache was whole on every chip, and the logits of all steps were kept."""
    plan = make_plan(spec_of(GEMMA_12B, "v6e", "2x2", vocab=262208, batch=8, context=4096, pins={"generate.batch": 8}))
    token_bytes = GEMMA_12B["layers"] * 2 * 8 * 256 * 2
    assert plan.hbm.kv_cache == pytest.approx(8 * 4096 * token_bytes / 4, rel=0.05)
    assert plan.hbm.logits <= 8 * 262208 * 4


def test_every_cached_token_is_counted_once_where_tokens_are_cut():
    """sglang#30501: with tokens cut in prefill every rank kept a whole cache, so fewer tokens fitted than planned."""
    pins = {"generate.kv_tokens": ("x",), "generate.q_heads": ("x", "y"), "generate.kv_heads": ("y",)}
    plan = make_plan(spec_of(QWEN3_30B, "v6e", "2x4", batch=4, context=8192, pins={**pins, "generate.batch": 4}))
    cut = ways_of(plan, ("x", "y"))
    assert cut == 8
    token_bytes = QWEN3_30B["layers"] * 2 * 4 * 128 * 2
    assert plan.hbm.kv_cache * cut == pytest.approx(4 * 8192 * token_bytes, rel=0.05)


@pytest.mark.parametrize(("chip", "slice_"), [("v6e", "4x4"), ("v5e", "4x8"), ("v5p", "4x4x4")])
def test_groups_of_chips_are_blocks_on_no_more_hosts_than_their_sides_need(chip: str, slice_: str):
    """Bug log C4, tpu-inference#3089: one group of 8 lay on 4 hosts, though 2 were enough."""
    subject = Subject.of(make_plan(spec_of(LLAMA_70B, chip, slice_, weights="int8")))
    mesh, whole = subject.machine.mesh, subject.machine.slice
    joined = {each.axes for each in subject.collectives()}
    assert joined
    for axes in joined:
        for group in mesh_groups(mesh, axes, whole):
            sides = [sorted(set(places)) for places in zip(*group, strict=True)]
            assert set(group) == set(product(*sides))
            steps = [{later - one for one, later in pairwise(side)} for side in sides]
            assert all(len(step) <= 1 for step in steps)
            if all(step <= {1} for step in steps):
                pairs = zip(sides, whole.host_shape, strict=True)
                assert hosts_touched(group, whole) == prod(ceil(len(side) / host) for side, host in pairs)


def test_who_takes_part_in_a_collective_is_told_by_coordinates_and_hosts():
    """Bug log C4: the chips and hosts of a group are in `explain`."""
    plan = make_plan(spec_of(LLAMA_70B, "v5e", "4x4", weights="int8"))
    address = next(each.address for each in plan.generate.collectives if set(each.axes) >= {"x"})
    told = explain(plan, address)[-1].sentences
    assert any(sentence.startswith("among: ") and "host" in sentence and "(0,0)" in sentence for sentence in told)
