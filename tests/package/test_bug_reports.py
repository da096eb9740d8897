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


def test_no_request_writes_the_page_of_another(tmp_path: Path) -> None:
    """D1, tpu-inference#2366: ids past the end were clamped, so that two requests wrote the last page."""
    rules = G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",))
    package = load(Case("pages", XY, rules, P(q_heads=("y",), kv_heads=("y",)), context=112), tmp_path)
    config, kv_cache = package.module("config").MODEL, package.module("kv_cache")
    engine = package.module("engine").Engine(weights_of(package, config), config, package.mesh, debug=True)
    prompts = [[7 * number + place % 5 for place in range(40)] for number in range(4)]
    alone = [[token.id for token in engine.stream(prompt, 60)] for prompt in prompts]
    tables = kv_cache.own_tables(config)
    slots = [0, 3, 4, 7]  # the first and the last pages of both groups of chips
    read = [engine.prefill(each) for each in prompts]
    made = [[prompt.first] for prompt in read]
    for slot, prompt in zip(slots, read, strict=True):
        engine.insert(prompt, slot, max_tokens=60, pages=tables[slot][::-1])
    for _ in range(59):
        step = engine.generate()
        for slot, tokens in zip(slots, made, strict=True):
            tokens.append(step[slot].id)
    assert made == alone


@pytest.mark.parametrize("page", [-1, 24, 10**6])
def test_a_token_whose_page_does_not_exist_is_written_to_the_scratch_page(page: int, tmp_path: Path) -> None:
    """D1, tpu-inference#2366: and an engine that is given such an id refuses it."""
    package = load(Case("few_pages", {}, G(), P(), context=48), tmp_path)
    config, kv_cache = package.module("config").MODEL, package.module("kv_cache")
    table = [0, 1, page]
    pages, _ = kv_cache.token_places(config, np.array([table]), np.array([40]), np.array([True]))
    assert pages.tolist() == [config.batch * config.pages_per_slot] == [24]
    engine = warm_engine(package)
    with pytest.raises(ValueError, match=rf"slot 0 has pages 0 to 23 on its chips; {page} is none of them"):
        engine.insert(engine.prefill([1, 2, 3]), 0, pages=table)


CUT_CACHES = {
    "by sequences": G(batch=("x", "y"), q_heads=("x", "y")),
    "by tokens": G(q_heads=("x", "y"), kv_tokens=("x", "y")),
    "by heads and tokens": G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",)),
}


@pytest.mark.parametrize("cut", CUT_CACHES)
def test_scales_lie_beside_their_values(cut: str, tmp_path: Path) -> None:
    """D4, maxtext#1398: a cache cut by tokens had its scales cut otherwise, and each step resharded them."""
    model = {**TINY, "q_heads": 8, "kv_heads": 2}
    case = Case("scales", XY, CUT_CACHES[cut], P(), model=model, kv_cache="int8", page_tokens=4)
    package, wide = (load(replace(case, kv_cache=dtype), tmp_path) for dtype in ("int8", "float32"))
    cache = package.module("kv_cache").empty_cache(package.module("config").MODEL, package.mesh)
    held = [array.sharding.devices_indices_map(array.shape) for array in (cache.pages, cache.scales)]
    heads = [array.shape[axis] for array, axis in ((cache.pages, 2), (cache.scales, 1))]
    for device in package.mesh.devices.flat:
        values, scales = (places[device] for places in held)
        assert values[0].indices(cache.pages.shape[0]) == scales[0].indices(cache.scales.shape[0])
        assert values[2].indices(heads[0]) == scales[1].indices(heads[1])
    found = generate_transfers(package)
    assert not [each for each in found if each.array]
    told = [
        sorted((each.address, each.kind, each.bytes, each.count) for each in some)
        for some in (found, generate_transfers(wide))
    ]
    assert told[0] == told[1]


def test_a_scale_depends_on_its_own_token_only(tmp_path: Path) -> None:
    """D4, vllm#50749: a scale followed the other tokens of its block; mlxcel#717: scales never fell below one."""
    package = load(Case("own_scales", {}, G(), P(), kv_cache="int8"), tmp_path)
    kv_cache, config = package.module("kv_cache"), package.module("config").MODEL
    kv = np.random.default_rng(0).standard_normal((16, 2 * config.kv_heads, config.head_dim)).astype(np.float32)
    kv[3] = 0  # a token of zeros beside one of large values
    kv[4] *= 1000
    values, scales = (np.asarray(each) for each in kv_cache.quantised(kv))
    for token in range(16):
        alone = kv_cache.quantised(kv[token : token + 1])
        np.testing.assert_array_equal(values[token], alone[0][0])
        np.testing.assert_array_equal(scales[token], alone[1][0])
    largest = np.abs(kv).max(axis=-1, keepdims=True)
    assert (np.abs(values * scales[..., None] - kv) <= 0.01 * largest).all()
    cache = kv_cache.empty_cache(config, package.mesh)
    pages, offsets = np.zeros(16, int), np.arange(16)
    whole = kv_cache.write_tokens(cache, pages, offsets, kv)
    parts = cache
    for token in np.random.default_rng(1).permutation(16):
        parts = kv_cache.write_tokens(parts, pages[:1], offsets[token : token + 1], kv[token : token + 1])
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_donated_state_comes_back_where_it_was(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """jax#25346, sglang-jax#230: a donated buffer that no result could take over, and more donated than the cache."""
    rules = G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("x", "y"), vocab=("y",))
    package = load(Case("donated", XY, rules, P(q_heads=("y",), kv_heads=("y",), vocab=("y",))), tmp_path)
    engine = warm_engine(package)
    cache, slots, weights = engine._cache, engine._slots, engine._weights
    engine.insert(engine.prefill([1, 2, 3]), 0)
    engine.generate()
    for before, after in zip(
        jax.tree.leaves((cache, slots)), jax.tree.leaves((engine._cache, engine._slots)), strict=True
    ):
        assert before.sharding == after.sharding
    assert all(array.is_deleted() for array in jax.tree.leaves(cache))
    assert not any(array.is_deleted() for array in jax.tree.leaves(weights))
    assert not [each for each in recwarn if "donated" in str(each.message)]


def test_long_prompts_have_no_square_of_scores(tmp_path: Path) -> None:
    """jax#24539: attention over 16384 tokens was compiled with all its scores at once."""
    tokens = 16384
    rules = {"q_heads": ("x",), "kv_heads": ("x",)}
    model = {**TINY, "q_heads": 8, "kv_heads": 8}
    package = load(Case("long", FLAT, G(**rules), P(**rules), model=model, context=tokens, buckets=(tokens,)), tmp_path)
    prefill = package.module("prefill").lower_prefill(package.module("config").MODEL, package.mesh, tokens).compile()
    assert prefill.memory_analysis().temp_size_in_bytes < tokens * tokens * 4 / 8


@pytest.mark.parametrize("chunk", [1, 7])
def test_chunks_that_divide_nothing_give_the_same_logits(chunk: int, tmp_path: Path) -> None:
    """JetStream#231: positions of the later chunks were off by one."""
    assert_plain(load(Case("chunks", {}, G(), P(), chunk=chunk, buckets=(32,), context=48), tmp_path), TINY)
