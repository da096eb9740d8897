"""Faults that are planted in the programs of a package, compiled for TPU, are found and told."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from planner.plan.schema import Plan
from planner.verify.audit import Audit, audit_of
from planner.verify.build import Program, Step, compiled, devices_for, imported_package, lowering
from planner.verify.exhausted import needed_bytes, why_not_compiled
from planner.verify.log import compiler_log, full_copies
from tests.verify.small import PLAIN, small_plan

Plant = Callable[[Any, pytest.MonkeyPatch], None]
GENERATE = Step("generate")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan([PLAIN])


@pytest.fixture(scope="module")
def sound(plan: Plan) -> Program:
    with parts_of(plan) as (package, mesh):
        return compiled(GENERATE, lowering(package, mesh, GENERATE))


@contextmanager
def parts_of(plan: Plan) -> Iterator[tuple[Any, Any]]:
    with imported_package(plan) as package:
        yield package, package.make_mesh(devices_for(plan, "tpu"))


def planted(plan: Plan, monkeypatch: pytest.MonkeyPatch, plant: Plant, step: Step = GENERATE) -> Audit:
    """The audit of one program of a package into which a fault was planted."""
    with parts_of(plan) as (package, mesh):
        plant(lambda name: import_module(f"{package.__name__}.{name}"), monkeypatch)
        return audit_of(plan, "tpu", [compiled(step, lowering(package, mesh, step))])


def test_the_program_without_a_fault_is_sound(plan: Plan, sound: Program):
    assert audit_of(plan, "tpu", [sound]).differences == ()


def one_more_sum(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gated = module("model").gated
    monkeypatch.setattr(module("model"), "gated", lambda hidden: gated(hidden) + lax.pmean(gated(hidden), "x"))


def no_sum(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("collectives"), "all_reduce", lambda x, axes: x)


def sum_over_one_axis(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("collectives"), "all_reduce", lambda x, axes: lax.psum(x, axes[:1]))


def sum_in_float32(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = lambda x, axes: lax.psum(x.astype(jnp.float32), axes).astype(x.dtype)  # noqa: E731
    monkeypatch.setattr(module("collectives"), "all_reduce", wide)


def sum_twice(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = lambda x, axes: lax.psum(jnp.tanh(lax.psum(x, axes)), axes)  # noqa: E731
    monkeypatch.setattr(module("collectives"), "all_reduce", twice)


def gathered_weight(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = module("weights").Weights.layer

    def gathering(weights: Any, index: jax.Array) -> Any:
        found = layer(weights, index)
        return replace(found, w_down=lax.all_gather(found.w_down, "x", axis=0, tiled=True).reshape(2, -1, 1024).sum(0))

    monkeypatch.setattr(module("weights").Weights, "layer", gathering)


def copied_cache(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module("kv_cache").write_tokens

    def keeping(cache: Any, *where: jax.Array) -> Any:
        new, old = lax.optimization_barrier((write(cache, *where), cache))
        return type(cache)(new.pages.at[0, 0, 0, 0].add(old.pages[0, 0, 0, 0]))

    monkeypatch.setattr(module("kv_cache"), "write_tokens", keeping)


def copied_pages(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole_pages(cache: Any, pages: jax.Array, offsets: jax.Array, kv: jax.Array) -> Any:
        rows = jnp.broadcast_to(kv[:, None], (kv.shape[0], *cache.pages.shape[1:]))
        return type(cache)(cache.pages.at[pages].set(rows))

    monkeypatch.setattr(module("kv_cache"), "write_tokens", whole_pages)


def sliced_first(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project = module("model").project

    def slicing(formula: str, x: jax.Array, weight: jax.Array) -> jax.Array:
        out: jax.Array = project(formula, x, lax.optimization_barrier(weight))
        return out

    monkeypatch.setattr(module("model"), "project", slicing)


def read_twice(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project = module("model").project

    def twice(formula: str, x: jax.Array, weight: jax.Array) -> jax.Array:
        once = project(formula, x, weight)
        return once + project(formula, jnp.tanh(x + once.sum().astype(x.dtype)), weight)

    monkeypatch.setattr(module("model"), "project", twice)


def not_donated(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def jit(step: Any, donate_argnums: Any, out_shardings: Any) -> Any:
        return jax.jit(step, out_shardings=out_shardings)

    monkeypatch.setattr(module("generate"), "jax", facade(jit))


def other_layout(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def jit(step: Any, donate_argnums: Any, out_shardings: Any) -> Any:
        cache, slots, chosen = out_shardings
        spread = jax.sharding.NamedSharding(chosen.mesh, jax.sharding.PartitionSpec(("x", "y")))
        held = cache, replace(slots, tokens=spread), chosen
        return jax.jit(step, donate_argnums=donate_argnums, out_shardings=held)

    monkeypatch.setattr(module("generate"), "jax", facade(jit))


def facade(jit: Any) -> Any:
    """jax with another jit."""
    return SimpleNamespace(**{**vars(jax), "jit": jit, "tree": jax.tree, "tree_util": jax.tree_util})


def large_temporary(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = module("sampling").candidates

    def sorting(logits: jax.Array, wanted: jax.Array) -> Any:
        many = lax.sort(jnp.stack([logits * (index + 1) for index in range(300)]), dimension=0)
        return candidates(many[7] + many[200], wanted)

    monkeypatch.setattr(module("sampling"), "candidates", sorting)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (one_more_sum, r"generate\.mlp\.hidden: unplanned all_reduce over x, .* x 3"),
        (no_sum, r"generate\.mlp\.out: planned all_reduce over x,y, 65\.5 kB x 3 is missing"),
        (sum_over_one_axis, r"generate\.mlp\.out: axes: planned all_reduce over x,y, .* found all_reduce over x,"),
        (sum_in_float32, r"generate\.mlp\.out: bytes: planned .* 65\.5 kB x 3, found all_reduce over x,y, 131 kB x 3"),
        (sum_twice, r"generate\.mlp\.out: count: planned .* x 3, found .* x 6"),
        (gathered_weight, r"unplanned all_gather over x, .* x 3 of weights\.layers\.w_down"),
        (copied_cache, r"generate: copies cache\S* to HBM, .* x 3"),
        (copied_pages, r"generate: copies cache\S* to HBM, .* x 3"),
        (read_twice, r"generate: HBM bytes of generate\.mlp\.hidden: predicted .*, found"),
        (not_donated, r"generate: cache kept in place: planned 63\.1 MB, found 0 B \(lost\)"),
        (other_layout, r"slots\.tokens: generate leaves it as P.*'x', 'y'.*, generate takes it as P"),
        (large_temporary, r"generate: temporaries and results: planned 21\.2 MB, found .* \(over\)"),
    ],
)
def test_a_planted_fault_is_told(plan: Plan, plant: Plant, expected: str, monkeypatch: pytest.MonkeyPatch):
    differences = planted(plan, monkeypatch, plant).differences
    assert any(re.search(expected, each) for each in differences), differences


def test_a_copy_of_a_large_weight_is_told(monkeypatch: pytest.MonkeyPatch):
    differences = planted(small_plan(["model.d_ff=1048576"]), monkeypatch, sliced_first).differences
    assert any(re.search(r"copies 1/3 of weights\.layers\.w_down to HBM, 268 MB x 3", each) for each in differences)
    assert any(re.search(r"HBM bytes of generate\.mlp\.out: predicted", each) for each in differences)


def test_an_instruction_that_is_slow_for_its_bytes_is_noted(plan: Plan, sound: Program):
    (line,) = [line for line in sound.text.splitlines() if re.match(r"\s+%\S+ = bf16\[32,2,512\]\S+ fusion\(", line)]
    slower = re.sub(r'("estimated_cycles":")(\d+)', lambda found: f"{found[1]}{9 * int(found[2])}", line)
    audit = audit_of(plan, "tpu", [replace(sound, text=sound.text.replace(line, slower))])
    assert audit.ok
    assert any("(generate.mlp.hidden) is estimated at" in note for note in audit.steps[0].notes)
    assert not any("is estimated at" in note for note in audit_of(plan, "tpu", [sound]).steps[0].notes)


def test_programs_that_disagree_about_the_cache_are_told(plan: Plan, sound: Program):
    cache = next(name for name in sound.inputs if name.startswith("cache"))
    insert = replace(sound, step=Step("insert", 512), outputs={cache: sound.outputs["slots.tokens"]}, inputs={})
    told = audit_of(plan, "tpu", [insert, sound]).faults
    assert [each.split(" as ")[0] for each in told] == [f"{cache}: insert 512 leaves it"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the total memory required for HLO temporaries (20.02G) exceeds available HBM (15.75G).", (20.02, 15.75)),
        ("Ran out of memory in memory space hbm. Used 18.20G of 15.75G hbm. Exceeded by 2.45G", (18.2, 15.75)),
    ],
)
def test_the_compiler_says_how_much_it_needs(text: str, expected: tuple[float, float]):
    assert needed_bytes(text) == tuple(int(each * 2**30) for each in expected)
    assert needed_bytes("INTERNAL: bad layout") is None


def test_of_a_program_out_of_hbm_it_is_told_which_item_grew(plan: Plan):
    failure = "the total memory required for HLO temporaries (20.00G) exceeds available HBM (15.75G)."
    given = {"weights": plan.hbm.weights, "cache": 15 * 2**30}
    told = why_not_compiled(failure, given, plan.hbm)
    assert told.startswith("out of HBM by 4.56 GB, as it needs 21.5 GB of the 16.9 GB there: weights 22.6 MB (within")
    assert "cache 16.1 GB (grew beyond the planned 63.1 MB)" in told
    assert "temporaries 5.35 GB (grew beyond the planned" in told
    assert why_not_compiled("INTERNAL: bad layout", given, plan.hbm) == "INTERNAL: bad layout"


def test_full_copies_that_the_compiler_warns_of_are_told(plan: Plan, sound: Program, capfd: pytest.CaptureFixture[str]):
    line = (
        "W0000 spmd_partitioner.cc:652] [SPMD] Involuntary full rematerialization. The compiler cannot go from A to B"
    )
    with compiler_log() as log:
        os.write(2, f"{line}\nW1130 12:00:00.5 71 loop.cc:101] 0-iteration loop\nsomething else\n".encode())
    assert full_copies(tuple(log)) == (line[line.index("Involuntary") :],)
    assert capfd.readouterr().err == "something else\n"
    told = audit_of(plan, "tpu", [replace(sound, log=tuple(log))]).differences
    assert told == (f"generate: {line[line.index('Involuntary') :]}",)
