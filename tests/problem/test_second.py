"""Second copies of weights: nothing that is left out could have been better, and they are taken where they pay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.problem.build import build
from planner.problem.problem import Problem
from planner.solve.runner_up import PHASES, cut, runner_up
from planner.solve.search import search
from planner.solve.verify import exact_optimum, faults
from planner.spec import load_spec
from tests.problem.pairs import every_pair
from tests.problem.specs import specs
from tests.solve.test_real import small_problems

L8B = Path(__file__).parents[2] / "docs" / "examples" / "llama_3_1_8b_v5e_2x4.yaml"
SMOLLM2 = Path(__file__).parents[2] / "docs" / "examples" / "smollm2_135m_cpu8.yaml"
EIGHT = {"v4": ("2x2x2",), "v5e": ("2x4",), "h100": ("8",)}


@settings(max_examples=30, deadline=None)
@given(small_problems())
def test_the_optimum_is_that_of_every_pair(problem: Problem):
    found = search(problem)
    assert (found.value if found else None) == exact_optimum(every_pair(problem))
    assert found is None or faults(found.taken) == []


@pytest.mark.exhaustive
@settings(max_examples=2, deadline=None)
@given(specs(EIGHT, concurrency=4, most_slices=1))
def test_the_optimum_is_that_of_every_pair_on_three_axes(spec):
    problem = build(spec).problem
    last = replace(
        problem, meshes=tuple(table for table in problem.meshes if table.mesh == problem.meshes[-1].mesh)[:1]
    )
    found = search(last)
    assert (found.value if found else None) == exact_optimum(every_pair(last))


@settings(max_examples=30, deadline=None)
@given(small_problems())
def test_the_runner_up_is_that_of_every_pair(problem: Problem):
    found = search(problem)
    if found is None:
        return
    candidate = found.taken.candidate
    whole = every_pair(replace(problem, meshes=(candidate.table,)))
    table, at = whole.meshes[0], candidate.batch_index
    for phase, best in ((phase, runner_up(found.taken, phase)) for phase in PHASES):
        cuts = {
            choice.block: cut_of(candidate.table, choice.block, choice.index, phase) for choice in found.taken.choices
        }
        least = least_leaving(replace(candidate, problem=whole, table=table, mesh_index=0), cuts, phase)
        weights = candidate.weights()
        assert (None if best is None else best.quantity(weights)) == least, (phase, at)


def cut_of(table, number: int, index: int, phase: str):
    """How an option cuts its block in a phase."""
    option = table.blocks[number].options[index]
    side = option.roles if phase == "generate" else (option.read, option.modes)
    return cut(table, table.blocks[number].name, side)


def least_leaving(candidate, cuts, phase: str) -> int | None:
    """The least goal of every combination in which attention or the MLP is cut another way, and that keeps limits."""
    best = None
    rows = [np.flatnonzero(block.column(candidate.batch_index).legal) for block in candidate.table.blocks]
    same = [
        np.array([cut_of(candidate.table, number, int(row), phase) == cuts[number] for row in rows[number]])
        for number in range(2)
    ]
    blocks = candidate.table.blocks
    for residual in set(blocks[0].residual.tolist()):
        at = [np.flatnonzero(block.residual[own] == residual) for block, own in zip(blocks, rows, strict=True)]
        if not all(map(len, at)):
            continue

        def summed(weights, at=at):
            parts = [
                candidate.quantities(block, weights)[own[here]]
                for block, own, here in zip(blocks, rows, at, strict=True)
            ]
            return parts[0][:, None, None] + parts[1][:, None] + parts[2]

        kept = ~(same[0][at[0]][:, None, None] & same[1][at[1]][:, None]) & np.ones(len(at[2]), dtype=bool)
        for weights, bound in candidate.limit_rows():
            kept &= summed(weights) <= bound
        if kept.any():
            least = int(summed(candidate.weights())[kept].min())
            best = least if best is None else min(best, least)
    return best


def plan_of(path: Path, *overrides: str) -> Plan:
    return make_plan(load_spec(path, ["serving.strategies=all", *overrides]))


def test_a_copy_is_taken_where_it_pays_and_fits():
    free, once = plan_of(L8B), plan_of(L8B, "pins.prefill.copies=none")
    assert free.prefill.copies
    assert once.prefill.copies is None
    assert free.proof.value < once.proof.value
    assert free.hbm.copies
    held = free.hbm.weights + free.hbm.copies + free.hbm.kv_cache + free.hbm.activations + free.hbm.logits
    assert free.hbm.total == held


def test_no_copy_is_taken_where_hbm_has_no_room_for_it():
    weights = plan_of(L8B, "pins.prefill.copies=none").hbm
    least = 1 - (weights.total - weights.activations / 2) / weights.capacity
    tight = plan_of(L8B, f"hardware.reserve={least:.3f}")
    assert tight.prefill.copies is None


@pytest.mark.parametrize("block", ["attention", "mlp"])
def test_a_copy_can_be_pinned(block: str):
    plan = plan_of(SMOLLM2, f"pins.prefill.copies={block}")
    assert list(plan.prefill.copies or ()) == [block]
    assert "from a copy" in dict(plan.prefill.strategy)[block]


@settings(max_examples=10, deadline=None)
@given(small_problems())
def test_a_pinned_copy_is_the_best_of_every_pair_with_one(problem: Problem):
    allowed = {
        id(table.source): {
            name: replace(each, labels={**each.labels, "prefill.copies": ("mlp",)})
            for name, each in table.source.allowed.items()
        }
        for table in problem.meshes
    }
    pricers = {
        id(table.source): replace(
            table.source, allowed=allowed[id(table.source)], _pairs={}, _columns={}, _prices={}, _copies={}
        )
        for table in problem.meshes
    }
    pinned = replace(
        problem,
        meshes=tuple(
            pricers[id(table.source)].table(table.prompts, table.chunk, table.drafts) for table in problem.meshes
        ),
    )
    found, whole = search(pinned), every_pair(problem)
    assert (found.value if found else None) == exact_optimum(with_copies_of_mlp_alone(whole))


def with_copies_of_mlp_alone(problem: Problem) -> Problem:
    """The combinations in which the MLP has a copy, and attention none."""

    def only(table):
        attention, mlp, vocab = table.blocks
        return replace(table, price=lambda: (rows_of(attention, False), rows_of(mlp, True), vocab))

    return replace(problem, meshes=tuple(map(only, problem.meshes)))


def rows_of(block, copied: bool):
    """The options of a block with a copy, or those without."""
    rows = [row for row, option in enumerate(block.options) if (option.stored is not None) == copied]

    def price(at: int):
        column = block.column(at)
        return type(column)(column.generate_ns[rows], column.hbm[rows], column.legal[rows])

    options = [block.options[row] for row in rows]
    return type(block)(block.name, options, block.residual[rows], block.prefill_ns[rows], price)


def test_a_prefill_layout_is_pinned_over_a_copy_as_over_stored_weights():
    plan = plan_of(L8B, "pins.prefill.mlp=sequence_parallel", "pins.prefill.copies=mlp")
    assert plan.prefill.strategy.mlp is not None
    assert plan.prefill.strategy.mlp.startswith("sequence_parallel")
    assert plan.prefill.strategy.mlp.endswith("from a copy")
