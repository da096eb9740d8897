"""Faults that only a compiler makes of a program: written into a package's source, compiled by `verify`, and told."""

import os
import re

import pytest

from planner.plan.schema import Plan
from planner.verify import devices
from planner.verify.build import Step, Target
from planner.verify.devices import HEARD
from tests.verify.edited import Edit, verified
from tests.verify.small import PLAIN, small_plan

GENERATE = Step("generate")
RESHARDED = [
    Edit(
        "generate.py",
        "    return jax.jit(step, ",
        """
    def resharded(weights: Weights, cache: kv_cache.Cache, slots: Slots) -> Any:
        from dataclasses import replace

        w_kv = lax.with_sharding_constraint(weights.layers.w_kv, NamedSharding(mesh, P(None, None, "y", "x")))
        return step(replace(weights, layers=replace(weights.layers, w_kv=w_kv)), cache, slots)

    return jax.jit(resharded, """,
    )
]
"""A weight that is cut otherwise on its way in, from which there is no way back but to gather it."""
HEADS_LAST = [
    Edit("weights.py", '"w_q": array(WEIGHTS, layers, q_heads, ', '"w_q": array(WEIGHTS, layers, d_model, q_heads, '),
    Edit("weights.py", "q_heads, head_dim, d_model)", "q_heads, head_dim)"),
    Edit("weights.py", '"w_kv": array(WEIGHTS, layers, kv, ', '"w_kv": array(WEIGHTS, layers, d_model, kv, '),
    Edit("weights.py", "kv, head_dim, d_model)", "kv, head_dim)"),
    Edit("model.py", '"bd,nhd->bnh"', '"bd,dnh->bnh"'),
]
"""Few heads second-last in a weight, so that each slice of a layer is laid out anew before it is multiplied."""
LARGE_CACHE = [Edit("config.py", "    context=1280,", "    context=409600,")]
SAMPLED = "    count = min(CANDIDATES"
LARGE_TEMPORARY = [
    Edit(
        "sampling.py",
        SAMPLED,
        f"""    many = lax.optimization_barrier(logits * jnp.arange(80000, dtype=jnp.float32)[:, None, None])
    logits = logits + many[7]
{SAMPLED}""",
    )
]
MANY_LARGE = [
    Edit(
        "sampling.py",
        SAMPLED,
        f"""    large = []
    for number in range(6):
        large.append(jnp.tanh(jnp.arange(400000, dtype=jnp.float32)[:, None] * logits[0] + number))
        logits = logits + large[-1][(logits[:, 1] * 9).astype(jnp.int32)]
    for each in large:
        logits = logits + each[(logits[:, 1] * 9).astype(jnp.int32)]
{SAMPLED}""",
    )
]
"""Arrays that do not fit in HBM together, all read twice: early and late."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan([PLAIN])


@pytest.mark.parametrize("target", ["tpu", "cpu"])
def test_an_involuntary_full_rematerialisation_is_told(
    plan: Plan, target: Target, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    differences = verified(plan, RESHARDED, GENERATE, monkeypatch, target).differences
    told = [each for each in differences if each.startswith("generate: Involuntary full rematerialization. ")]
    assert any("weights.layers.w_kv" in each for each in told), differences
    assert any(re.search(r"unplanned all_gather over .* of weights\.layers\.w_kv", each) for each in differences)
    assert not re.search(r"^W\d{4} ", capfd.readouterr().err, re.MULTILINE)


def test_compilers_are_heard_whatever_the_user_has_set(plan: Plan, monkeypatch: pytest.MonkeyPatch):
    for name in HEARD:
        monkeypatch.setenv(name, "3")
    devices.devices_for(plan, "cpu")
    assert {name: os.environ[name] for name in HEARD} == HEARD


def test_weights_that_are_laid_out_anew_in_every_layer_are_noted(plan: Plan, monkeypatch: pytest.MonkeyPatch):
    (step,) = verified(plan, HEADS_LAST, GENERATE, monkeypatch).steps
    slow = [note for note in step.notes if "times the cycles of its siblings per byte" in note]
    assert len(slow) == 2
    assert all("(generate.attention.qkv)" in note for note in slow), slow


@pytest.mark.parametrize(
    ("edits", "grown"),
    [
        pytest.param(LARGE_CACHE, r"cache 20\.1 GB \(grew beyond the planned 63\.1 MB\)", id="cache"),
        pytest.param(LARGE_TEMPORARY, r"temporaries \d+\S* GB \(grew beyond the planned 21\.2 MB\)", id="temporaries"),
    ],
)
def test_out_of_hbm_is_told_with_the_item_that_grew(
    plan: Plan, edits: list[Edit], grown: str, monkeypatch: pytest.MonkeyPatch
):
    (told,) = verified(plan, edits, GENERATE, monkeypatch).differences
    sizes = re.search(r"does not compile: out of HBM by (\S+) GB, as it needs (\S+) GB of the 16\.9 GB there", told)
    assert sizes, told
    assert float(sizes[1]) == pytest.approx(float(sizes[2]) - 16.9, abs=0.1)
    assert re.search(grown, told), told
    assert len(re.findall("grew beyond", told)) == 1
    assert "weights 22.6 MB (within the planned 22.6 MB)" in told


def test_what_is_computed_again_to_save_memory_is_told(plan: Plan, monkeypatch: pytest.MonkeyPatch):
    differences = verified(plan, MANY_LARGE, GENERATE, monkeypatch).differences
    pattern = r"generate: computes \d+ instructions? a second time to save memory, such as %\S+\.remat"
    assert any(re.match(pattern, each) for each in differences), differences
