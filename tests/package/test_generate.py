"""The generate step of plans from the solver, over its whole strategy space; pages in any order; checks on pages."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from planner.plan.schema import GenerateRules, Plan, PrefillRules
from planner.render import render_package
from tests.package import reference
from tests.package.cases import GENERATE_CASES
from tests.package.harness import REQUESTS, Package, load, load_plan, replay
from tests.plans_of import example_plan
from tests.render.plans import SMOLLM2, TINY, Case

SOLVED = {
    "tokens": ("pins.generate.kv_cache=tokens",),
    "heads_x_tokens": ("pins.generate.kv_cache=heads_x_tokens", "model.kv_cache.dtype=int8"),
    "batch_x_tokens": ("pins.generate.kv_cache=batch_x_tokens",),
    "heads_x_batch_x_tokens": ("pins.generate.kv_cache=heads_x_batch_x_tokens",),
    "rows_on_x": ("pins.generate.rows=x", "model.kv_cache.dtype=int8"),
    "rows_on_y": ("pins.generate.rows=y",),
    "rows_on_both": ("pins.generate.rows=[x, y]",),
    "rows_and_tokens": ("pins.generate.rows=x", "pins.generate.kv_tokens=y"),
    "all_to_all_int8": ("pins.generate.kv_cache=batch", "pins.generate.q_heads=[x, y]", "model.kv_cache.dtype=int8"),
}


def solved(name: str) -> Plan:
    """The proven plan under the pins of that name, out of all strategies."""
    return example_plan(
        "smollm2_135m_cpu8",
        "serving.strategies=all",
        "pins.prefill.copies=none",
        *SOLVED[name],
    )


def loaded(package: Package, config: Any) -> tuple[Any, Any]:
    """(random weights of `config`, their checkpoint)."""
    checkpoint = package.module("checkpoint").RandomCheckpoint(config)
    return package.module("loading").load_weights(checkpoint, config, package.mesh), checkpoint


@pytest.mark.parametrize("name", SOLVED)
def test_what_the_solver_takes_gives_the_numbers_of_one_device(name: str, tmp_path: Path) -> None:
    plan = solved(name)
    package = load_plan(plan, name, tmp_path)
    config = package.module("config").TINY
    sizes = ("layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab")
    model = {**SMOLLM2, **{size: getattr(config, size) for size in sizes}}
    weights, checkpoint = loaded(package, config)
    played = replay(package, config, weights)
    for request, found in zip(REQUESTS, played.logprobs, strict=True):
        length = len(request.prompt)
        cached_from = length if plan.generate.kv_layout and plan.generate.kv_layout.scaled else None
        wanted = reference.logprobs(model, checkpoint.read, request.tokens, cached_from)[length - 1 :]
        held = ~np.isnan(found)
        np.testing.assert_allclose(found[held], wanted[held], atol=5e-4, rtol=5e-4)


@pytest.mark.parametrize("name", SOLVED)
def test_a_chip_keeps_what_the_plan_counts(name: str, tmp_path: Path) -> None:
    plan = solved(name)
    package = load_plan(plan, f"kept_{name}", tmp_path)
    cache = package.module("kv_cache").abstract_cache(package.module("config").MODEL, package.mesh)
    shards = [(each.sharding.shard_shape(each.shape), each.dtype) for each in jax.tree.leaves(cache)]
    assert sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in shards) == plan.hbm.kv_cache
    layout = plan.generate.kv_layout
    assert layout is not None
    assert shards[0][0] == (SMOLLM2["layers"] * layout.pages_per_layer, layout.page_tokens, *layout.stored)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    case = next(case for case in GENERATE_CASES if case.name == "tokens_by_all_to_all")
    return load(replace(case, context=48, buckets=(32,)), tmp_path_factory.mktemp("pages"))


def test_pages_may_be_any_of_a_slots_chips(package: Package) -> None:
    config = package.module("config").MODEL
    weights, _ = loaded(package, config)
    own = package.module("kv_cache").own_tables(config)
    half = config.batch // 2
    rng = np.random.default_rng(0)
    mixed = np.concatenate([rng.permutation(part.reshape(-1)) for part in (own[:half], own[half:])]).reshape(own.shape)
    assert not np.array_equal(mixed, own)
    for plain, moved in zip(
        replay(package, config, weights).logprobs, replay(package, config, weights, pages=mixed).logprobs, strict=True
    ):
        np.testing.assert_array_equal(plain, moved)


@pytest.fixture
def engine(package: Package) -> Any:
    config = package.module("config").MODEL
    weights, _ = loaded(package, config)
    return package.module("engine").Engine(weights, config, package.mesh, debug=True)


def test_pages_that_a_slot_cannot_have_are_refused(engine: Any) -> None:
    prompt = engine.prefill([5, 6, 7])
    assert engine.config.pages_per_slot == 6  # half of 12 pages, on each of two chips
    with pytest.raises(ValueError, match="slot 1 needs 6 page ids; given are 5"):
        engine.insert(prompt, 1, pages=range(5))
    with pytest.raises(ValueError, match="slot 1 has pages 0 to 23 on its chips; 24 is none of them"):
        engine.insert(prompt, 1, pages=range(19, 25))
    with pytest.raises(ValueError, match="slot 5 has pages 24 to 47 on its chips; -1 is none of them"):
        engine.insert(prompt, 5, pages=[24, 25, 26, 27, 28, -1])
    with pytest.raises(ValueError, match="a page of slot 1 is given twice, or another slot has it"):
        engine.insert(prompt, 1, pages=[6, 7, 8, 9, 10, 10])
    engine.insert(prompt, 1, pages=range(6))
    with pytest.raises(ValueError, match="a page of slot 0 is given twice, or another slot has it"):
        engine.insert(prompt, 0)
    engine.release(1)
    engine.insert(prompt, 0)
    assert engine.generate().keys() == {0}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tables", 99, "slot 0 has other pages on the chips"),
        ("positions", 40, "slot 0 is at 41 on the chips, not at 4"),
        ("live", False, "slot 0 is free on the chips only"),
    ],
)
def test_debugging_compares_the_chips_with_the_engine(engine: Any, field: str, value: Any, message: str) -> None:
    engine.insert(engine.prefill([5, 6, 7]), 0)
    array = np.asarray(getattr(engine._slots, field)).copy()
    array[0] = value
    engine._slots = replace(engine._slots, **{field: engine._put(array)[0]})
    with pytest.raises(RuntimeError, match=message):
        engine.generate()


def test_a_plan_without_the_record_is_rendered_alike() -> None:
    plan = solved("heads_x_tokens")
    older = plan.model_copy(update={"generate": plan.generate.model_copy(update={"kv_layout": None})})
    now, then = render_package(plan), render_package(older)
    assert {name: text.splitlines()[1:] for name, text in now.items() if name.endswith(".py")} == {
        name: text.splitlines()[1:] for name, text in then.items() if name.endswith(".py")
    }


def test_any_of_several_prompts_is_inserted(package: Package) -> None:
    config = replace(package.module("config").MODEL, prompts=2)
    kv_cache, whole = package.module("kv_cache"), NamedSharding(package.mesh, P())
    insert = kv_cache.lower_insert(config, package.mesh, 32).compile()
    prefilled = kv_cache.abstract_prefilled(config, package.mesh, 32)
    rng = np.random.default_rng(1)
    kv = rng.standard_normal(prefilled.shape, np.float32)
    for nth, slot, length in ((0, 2, 32), (1, 5, 9)):
        table = kv_cache.own_tables(config)[slot]
        numbers = jax.device_put((np.int32(nth), table, np.int32(0), np.int32(length)), whole)
        empty = kv_cache.empty_cache(config, package.mesh)
        pages = np.asarray(insert(empty, jax.device_put(kv, prefilled.sharding), *numbers).pages)
        found = cached_tokens(config, package, pages, table, length)
        np.testing.assert_array_equal(found, kv[:, nth * 32 : nth * 32 + length])


def cached_tokens(config: Any, package: Package, pages: np.ndarray, table: np.ndarray, length: int) -> np.ndarray:
    """[layers, tokens, 2 * kv_heads, head_dim]: what is cached of a sequence, read page by page from its chips.

    Pages are those of all chips: by owner of slots, by part of the tokens, then by layer.
    """
    generate = package.module("sharding").GENERATE
    owners, parts = (
        int(np.prod([package.mesh.shape[axis] for axis in axes], dtype=int))
        for axes in (generate.batch, generate.kv_tokens)
    )
    own = config.batch // owners * config.pages_per_slot
    by_place = pages.reshape(owners, parts, config.layers, own + 1, *pages.shape[1:])
    owner, local = table[0] // own, table % own
    found = [by_place[owner, nth % parts, :, local[nth // parts]] for nth in range(-(-length // config.page_tokens))]
    return np.concatenate(found, axis=1)[:, :length]


@pytest.mark.parametrize("kv_cache", ["int8", "bf16"])
@pytest.mark.parametrize(("q_heads", "kv_heads", "head_dim"), [(9, 3, 64), (8, 2, 128), (8, 8, 128), (8, 1, 80)])
def test_kernels_read_and_write_the_cache_of_plain_jax(
    kv_cache: str, q_heads: int, kv_heads: int, head_dim: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Case(
        f"one_{kv_cache}_{q_heads}_{kv_heads}",
        {"x": 1},
        GenerateRules(q_heads=("x",), kv_tokens=("x",)),
        PrefillRules(q_heads=("x",)),
        model={**TINY, "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim},
        weights="bf16",
        activations="bf16",
        kv_cache=kv_cache,
        chip="v5e",
        slice="1x1",
        page_tokens=32,
    )
    package = load(one, tmp_path)
    config, kv = package.module("config").MODEL, package.module("kv_cache")
    attention, kernels = package.module("attention"), package.module("kernels")
    for name in {"paged_decode", "write_rows"} & set(vars(kernels)):
        monkeypatch.setattr(kernels, name, partial(getattr(kernels, name), interpret=True))
    rng = np.random.default_rng(2)
    cache = random_cache(kv.empty_cache(config, package.mesh), rng)
    tables = jnp.array(rng.permutation(config.batch * config.pages_per_slot).reshape(config.batch, -1), jnp.int32)
    new = jnp.array(rng.standard_normal((config.batch, 2 * kv_heads, head_dim)), jnp.bfloat16)
    places = tables[:, 1], jnp.array([0, 1, 31, 16, 7, 8, 15, 30], jnp.int32)
    written = kv.write_tokens(cache, *places, new)
    if kv_cache == "int8":
        values, scales = kv.quantised(new)
        by_kernel = kv._write_by_kernel(cache, *places, values.reshape(config.batch, -1), scales)
        jax.tree.map(np.testing.assert_array_equal, written, by_kernel)
    q = jnp.array(rng.standard_normal((config.batch, q_heads, head_dim)), jnp.bfloat16)
    lengths = jnp.array([1, 70, 32, 33, 0, 64, 65, 2], jnp.int32)
    operands = config, q, written, tables, lengths
    for found, wanted in zip(attention.kernel_attention(*operands), attention.plain_attention(*operands), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("slots", [6, 8, 5])
def test_a_slot_attends_as_it_does_alone(slots: int, tmp_path: Path) -> None:
    one = Case(f"alone_{slots}", {"x": 1}, GenerateRules(), PrefillRules(), model=TINY, batch=slots, slice="1x1")
    package = load(one, tmp_path)
    config, attention = package.module("config").MODEL, package.module("attention")
    rng = np.random.default_rng(5)
    cache = random_cache(package.module("kv_cache").empty_cache(config, package.mesh), rng)
    tables = jnp.array(rng.permutation(slots * config.pages_per_slot).reshape(slots, -1), jnp.int32)
    lengths = jnp.array(rng.permutation([0, 1, config.context, 65, 64, 7, 33, 90])[:slots], jnp.int32)
    q = jnp.array(rng.standard_normal((slots, config.q_heads, config.head_dim)), jnp.float32)
    found = attention.plain_attention(config, q, cache, tables, lengths)
    for slot in range(slots):
        alone = (each[slot : slot + 1] for each in (q, tables, lengths))
        of_one = attention.plain_attention(config, next(alone), cache, *alone)
        for together, wanted in zip(found, of_one, strict=True):
            np.testing.assert_allclose(together[slot], wanted[0], atol=1e-5, rtol=1e-5)


def random_cache(empty: Any, rng: np.random.Generator) -> Any:
    """A cache of random values, and scales that make them about one."""

    def filled(array: jax.Array) -> jax.Array:
        if array.dtype == jnp.int8:
            return jnp.array(rng.integers(-127, 128, array.shape), jnp.int8)
        scale = 1 / 127 if array.dtype == jnp.float32 else 1
        return jnp.array(rng.standard_normal(array.shape) * scale, array.dtype)

    return jax.tree.map(filled, empty)
