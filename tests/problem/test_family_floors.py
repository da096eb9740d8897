"""Floors of every family are below the prices of every option, on random small models, meshes and loads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cost_models.blocks import AttentionKind
from cost_models.chips import chip
from cost_models.lengths import fitted
from cost_models.meshes import meshes
from cost_models.mla import Latent
from cost_models.moe import Mixture
from cost_models.stacks import step_stacks
from cost_models.torus import parse_slice
from planner.problem.drafts import Drafts
from planner.problem.machine import Machine
from planner.problem.pins import allowed_by
from planner.problem.problem import Limits, MeshTable, Problem, Weights
from planner.problem.sizes import Sizes
from planner.problem.tables import Load, Pricer
from planner.solve.candidate import NEVER, Candidate, total
from planner.solve.search import search
from planner.solve.verify import exact_optimum, faults

SLICES = [("v5e", "2x4"), ("v5e", "4x8"), ("v5p", "2x2x2"), ("v4", "2x2x4"), ("h100", "4"), ("h100", "8")]
QUANTITIES = (Weights(1, 0), Weights(0, 1), Weights(0, 0, 1), Weights(3, 500))


@st.composite
def models(draw: st.DrawFn, family: str) -> Sizes:
    """A small model of a family."""
    width = draw(st.sampled_from([256, 384, 1024, 2048]))
    kv_heads = 1 if family == "latent" else draw(st.sampled_from([1, 2, 8]))
    more: dict[str, Any] = {}
    if family in ("mixture", "latent"):
        experts = draw(st.sampled_from([4, 6, 16, 64]))
        shared = draw(st.sampled_from([0, 512]))
        per_token = draw(st.integers(1, min(8, experts)))
        more["mixture"] = Mixture(experts, per_token, draw(st.sampled_from([128, 384, 1024])), shared, 1)
    if family == "latent":
        more["latent"] = Latent(
            draw(st.sampled_from([64, 512])), 64, 128, draw(st.sampled_from([64, 128])), draw(st.sampled_from([0, 768]))
        )
    if family == "windows":
        more["limited"] = AttentionKind(draw(st.integers(1, 3)), draw(st.sampled_from([64, 300, 5000])))
    return Sizes(
        3, width, draw(st.sampled_from([512, 1000, 4096])), kv_heads * draw(st.sampled_from([4, 12])), kv_heads,
        draw(st.sampled_from([64, 128])), 4096, draw(st.booleans()), draw(st.sampled_from([1, 2])), 0, 2, 2, "bf16",
        lanes=draw(st.sampled_from([1, 128])), gated=draw(st.booleans()), **more,
    )  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, family: str, slices: list[tuple[str, str]] = SLICES) -> tuple[MeshTable, Load]:
    """The options of a small model of a family on one mesh."""
    name, shape = draw(st.sampled_from(slices))
    slice_ = parse_slice(chip(name), shape)
    mesh = draw(st.sampled_from(meshes(slice_)))
    prompt = draw(st.sampled_from([256, 2048]))
    load = Load(
        batches=(draw(st.sampled_from([1, 4, 32, 192])),),
        prompts=(draw(st.sampled_from([1, 4])),),
        prompt=prompt, buckets=(256, 2 * prompt), lengths=fitted(prompt, prompt),
        mean_context=1.5 * prompt, max_context=2 * prompt,
        page_tokens=128, chunks=(draw(st.sampled_from([None, None, 64, 256, 384])),),
        drafts=(draw(st.sampled_from([None, None, Drafts(1, 0.5, 1e-4), Drafts(7, 0.9, 1e-6)])),),
    )  # fmt: skip
    stack = draw(st.sampled_from(step_stacks()))
    machine = Machine(chip(name), stack, slice_, mesh, draw(models(family)))
    pricer = Pricer(machine, load, allowed_by({}, {}))
    return pricer.tables()[0], load


@pytest.mark.parametrize("family", ["dense", "windows", "mixture", "latent"])
@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_option_is_below_the_floor(family: str, data: st.DataObject) -> None:
    table, load = data.draw(tables(family))
    problem = Problem((table,), load.batches, 100, "cost", Limits())
    candidate = Candidate(problem, table, 0, 0)
    floor = table.floor(None)
    for weights in QUANTITIES:
        least = int(total(candidate.minima(weights)).min())
        assume(least < int(NEVER))
        assert floor.least(weights, 0) <= least, (weights, floor.least(weights, 0), least)
    assert np.all([len(block.options) > 0 for block in table.blocks])


@pytest.mark.parametrize("family", ["windows", "mixture", "latent"])
@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_search_finds_the_least_of_every_combination(family: str, data: st.DataObject) -> None:
    """Four blocks are searched as three are, with HBM so short that the cheapest options do not all fit."""
    table, load = data.draw(tables(family, SLICES[:1]))
    problem = Problem((table,), load.batches, 100, "cost", Limits())
    free = search(problem)
    assume(free is not None)
    assert free is not None
    used = sum(choice.hbm for choice in free.taken.choices)
    short = Problem((table,), load.batches, 100, "cost", Limits(hbm=int(used * data.draw(st.floats(0.5, 1.1)))))
    for each in (problem, short):
        found = search(each)
        assert (found.value if found else None) == exact_optimum(each)
        assert found is None or faults(found.taken) == []
