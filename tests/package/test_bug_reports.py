"""Public bug reports of other engines, as tests of what a rendered package must do instead."""

import logging
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from planner.plan.make import make_plan
from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from planner.spec import spec_from_data
from planner.verify.hlo import parse
from planner.verify.transfers import Transfer, transfers
from tests.package import reference
from tests.package.cases import FLAT, ODD, XY, Case
from tests.package.harness import REQUESTS, Package, load, load_plan, replay
from tests.render.plans import TINY

BATCH = 8


def planned(folder: Path, title: str, **sizes: int) -> Package:
    """The package that the solver makes for a tiny llama of these sizes on 8 CPU devices."""
    model = {**TINY, **sizes, **{part: {"dtype": "float32"} for part in ("weights", "activations")}}
    tokens = {"mean": 16, "p95": 32}
    data = {
        "version": 1,
        "name": title,
        "model": model | {"kv_cache": {"dtype": "float32", "page_tokens": 16}},
        "hardware": {"chip": "cpu", "slices": ["2x4"]},
        "workload": {"prompt_tokens": tokens, "output_tokens": tokens, "concurrency": BATCH},
        "serving": {"strategies": "rendered"},
    }
    return load_plan(make_plan(spec_from_data(data)), title, folder)


def weights_of(package: Package, config: Any) -> Any:
    """Random weights on the chips of a package."""
    checkpoint, loading = package.module("checkpoint"), package.module("loading")
    return loading.load_weights(checkpoint.RandomCheckpoint(config), config, package.mesh)


def warm_engine(package: Package) -> Any:
    """An engine of a package's own sizes with every program compiled."""
    config = package.module("config").MODEL
    engine = package.module("engine").Engine(weights_of(package, config), config, package.mesh)
    engine.warm_up()
    return engine


def generate_transfers(package: Package) -> list[Transfer]:
    """The collectives of a package's generate step."""
    lowered = package.module("generate").lower_generate(package.module("config").MODEL, package.mesh)
    return transfers(parse(lowered.compile().as_text()), dict(package.mesh.shape))


def assert_plain(package: Package, model: dict[str, Any]) -> None:
    """Both phases of a package have the logits of the plain model."""
    config = package.module("config").MODEL
    played = replay(package, config, weights_of(package, config))
    read = package.module("checkpoint").RandomCheckpoint(config).read
    for request, logprobs in zip(REQUESTS, played.logprobs, strict=True):
        expected = reference.logprobs(model, read, request.tokens)[len(request.prompt) - 1 :]
        for made, wanted in zip(logprobs, expected, strict=True):
            held = ~np.isnan(made)
            np.testing.assert_allclose(made[held], wanted[held], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    ("q_heads", "kv_heads"),
    [
        pytest.param(8, 4, id="A1: tpu-inference#1714, 4 KV heads on 8 chips"),
        pytest.param(16, 2, id="A2: tpu-inference#2661, 2 KV heads on 8 chips"),
    ],
)
def test_no_chip_has_a_part_of_a_kv_head(q_heads: int, kv_heads: int, tmp_path: Path) -> None:
    package = planned(tmp_path, f"heads_{q_heads}_{kv_heads}", q_heads=q_heads, kv_heads=kv_heads)
    config = package.module("config").MODEL
    stored = package.module("weights").abstract_weights(config, package.mesh).layers.w_kv
    shard = stored.sharding.shard_shape(stored.shape)
    assert shard[1] % 2 == 0  # a key and its value
    assert shard[2] == TINY["head_dim"]
    assert not [each for each in generate_transfers(package) if each.address == "generate.attention.kv"]
    assert_plain(package, {**TINY, "q_heads": q_heads, "kv_heads": kv_heads})


@pytest.mark.parametrize("vocab", [250, 257, 509])
def test_padded_vocabulary_is_never_chosen(vocab: int, tmp_path: Path) -> None:
    """A5, vllm#440: a vocabulary that does not divide is padded, and the padding never drawn, however hot."""
    rules = {"vocab": ("x",), "d_ff": ("x",)}
    package = load(Case("vocabulary", FLAT, G(**rules), P(**rules), model={**ODD, "vocab": vocab}), tmp_path)
    config = package.module("config").MODEL
    assert (config.vocab, config.vocab_stored % 8) == (vocab, 0)
    engine = package.module("engine").Engine(weights_of(package, config), config, package.mesh)
    hot = package.module("sampling").Sampling
    drawn = [token.id for seed in range(6) for token in engine.stream([1, 2], 40, hot(temperature=100.0, seed=seed))]
    assert len(set(drawn)) > 30
    assert max(drawn) < vocab


@pytest.mark.parametrize("mesh", [{"x": 1}, {"x": 2, "y": 2}], ids=["one chip", "four chips"])
def test_other_devices_stay_idle(mesh: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A6, tpu-inference#139: the mesh is made of as many devices as the plan has chips."""
    chips = prod(mesh.values())
    package = load(Case("few_chips", mesh, G(d_ff=("x",)), P(d_ff=("x",)), model={**TINY, "kv_heads": 2}), tmp_path)
    made = package.module("sharding").make_mesh(jax.devices()[:8])
    assert made.size == chips
    assert f"using {chips} of 8 devices; the others stay idle" in capsys.readouterr().err
    assert next(warm_engine(Package(package.name, made)).stream([5, 6], 1)).id < TINY["vocab"]


def test_every_chip_holds_its_share_of_the_cache(tmp_path: Path) -> None:
    """B3, gemma#648: the cache was on every chip whole."""
    rules = G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",))
    package = load(Case("shares", XY, rules, P(q_heads=("y",), kv_heads=("y",))), tmp_path)
    engine = warm_engine(package)
    engine.insert(engine.prefill([1, 2, 3]), 0)
    engine.generate()
    for array in jax.tree.leaves(engine._cache):
        assert {shard.data.nbytes * 8 for shard in array.addressable_shards} == {array.nbytes}


def test_the_end_of_the_cache_finishes_with_length(tmp_path: Path) -> None:
    """B3, gemma#648: sampling stopped hard where the cache ended."""
    engine = warm_engine(load(Case("short", {}, G(), P(), context=24, buckets=(16,)), tmp_path))
    made = list(engine.stream([3] * 10))
    assert [token.finish for token in made] == [None] * 13 + ["length"]


@pytest.mark.parametrize("mesh", [{"x": 1}, FLAT], ids=["one device", "eight devices"])
def test_nothing_compiles_after_warm_up(mesh: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C1, sglang-jax#233 and #234, tpu-inference#1967: state comes back as it went in, so no request compiles."""
    rules = {"q_heads": ("x",), "kv_heads": ("x",), "d_ff": ("x",), "vocab": ("x",)}
    case = Case("warm", mesh, G(**rules), P(**rules), context=64, buckets=(16, 32))
    engine = warm_engine(load(case, tmp_path))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for number in range(50):
            length = 1 + number * 7 % 32
            assert list(engine.stream([number % 5] * length, 1 + number % 3))
    assert [each.getMessage() for each in caplog.records if "ompil" in each.getMessage()] == []


@pytest.mark.parametrize("mesh", [{"x": 2, "y": 2}, XY], ids=["2x2", "2x4"])
def test_no_reshard_replicates_a_tensor(
    mesh: dict[str, int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """C2, jax#21562: two-dimensional weights beside a cache cut by sequences are resharded by planned steps alone."""
    rules = G(batch=("x", "y"), d_model=("x",), q_heads=("y",), d_ff=("y",), vocab=("x",))
    case = Case("resharded", mesh, rules, P(d_model=("x",), d_ff=("y",), vocab=("x",)))
    package = load(case, tmp_path)
    kinds = {each.address: each.kind for each in generate_transfers(package)}
    assert kinds["generate.attention.q_to_batch"] == kinds["generate.attention.o_to_heads"] == "all_to_all"
    assert "rematerialization" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "mesh",
    [{"x": 1, "y": 4}, {"x": 4, "y": 1}, {"x": 1, "y": 1, "z": 8}],
    ids=lambda mesh: "x".join(map(str, mesh.values())),
)
def test_axes_of_one_chip_are_like_others(mesh: dict[str, int], tmp_path: Path) -> None:
    """C3, jax#39309 and #28542, sglang-jax#1370: axes of size one, and a look-up in a table that is cut."""
    first, last = next(iter(mesh)), list(mesh)[-1]
    heads = (last,) if mesh[last] <= TINY["kv_heads"] else ()
    generate = G(batch=(first,), d_model=(first,), q_heads=heads, kv_heads=heads, d_ff=(last,), vocab=tuple(mesh))
    prefill = P(tokens=(first,), q_heads=heads, kv_heads=heads, d_ff=(last,), vocab=tuple(mesh))
    assert_plain(load(Case("ones", mesh, generate, prefill, buckets=(32,), context=48), tmp_path), TINY)


def test_logits_stay_on_their_chips(tmp_path: Path) -> None:
    """C5, tpu-inference#3511, #3490, #3597: a quarter of the vocabulary's logits is more than any chip receives."""
    vocab = 32768
    case = Case("large_vocabulary", FLAT, G(vocab=("x",)), P(vocab=("x",)), model={**TINY, "vocab": vocab}, batch=64)
    sampled = [each for each in generate_transfers(load(case, tmp_path)) if "sampling" in (each.address or "")]
    assert [each.kind for each in sampled] == ["all_gather"]
    assert sampled[0].bytes < 64 * vocab * 4 / 4


def test_programs_compile_without_arrays(tmp_path: Path) -> None:
    """tpu-inference#3074: compiling ahead made dummy arrays of the cache's size."""
    package = load(replace(Case("abstract", FLAT, G(d_ff=("x",)), P(d_ff=("x",))), context=4096), tmp_path)
    config = package.module("config").MODEL
    before = {id(array) for array in jax.live_arrays()}
    package.module("generate").lower_generate(config, package.mesh).compile()
    package.module("prefill").lower_prefill(config, package.mesh, 32).compile()
    package.module("kv_cache").lower_insert(config, package.mesh, 32).compile()
    assert sum(array.nbytes for array in jax.live_arrays() if id(array) not in before) < 1e5
