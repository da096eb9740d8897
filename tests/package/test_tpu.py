"""What the TPU compiler makes of a package for llama-3.1-70b on v5e 4x4; no TPU is needed."""

import os
import re
import time
from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest

from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from planner.problem.hbm import kv_cache_bytes
from planner.problem.rules import GenerateRules as GenerateTable
from planner.problem.rules import Ways
from planner.verify.compare import compare
from planner.verify.copies import copies
from planner.verify.hlo import parse
from planner.verify.transfers import transfers
from tests.package.harness import Package, load
from tests.render.plans import LLAMA_70B, TINY, Case, generate_collectives, program_of
from tests.render.test_render import LLAMA

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
CACHE_BYTES = 80 * (8 * 32 + 1) * 128 * 4 * 128 * 2


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    case = replace(LLAMA, batch=32, context=4096, page_tokens=128, buckets=(512,), smallest_shard=8)
    return load(case, tmp_path_factory.mktemp("tpu"))


@pytest.fixture(scope="module")
def mesh(package: Package) -> Any:
    return package.module("sharding").make_mesh(topology("v5e:4x4").devices)


def topology(name: str) -> Any:
    """The devices of a TPU slice, to compile for."""
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=name)


def opcodes(text: str, kinds: str) -> Counter[str]:
    """Instructions of these kinds, by opcode."""
    return Counter(match[1] for match in re.finditer(rf"= \S+.*? ({kinds})\(", text))


def largest_copy_bytes(text: str) -> int:
    """Bytes of the largest bf16 array that an instruction copies; the cache and all activations are bf16."""
    copied = re.findall(r"= bf16\[([\d,]+)\]\S* (?:copy|copy-start|transpose)\(", text)
    return max((2 * prod(int(size) for size in shape.split(",")) for shape in copied), default=0)


def test_generate_compiles_in_place_with_the_planned_collectives(package: Package, mesh: Any) -> None:
    begin = time.monotonic()
    compiled = package.module("generate").lower_generate(package.module("config").MODEL, mesh).compile()
    assert time.monotonic() - begin < 60
    memory, text = compiled.memory_analysis(), compiled.as_text()
    assert is_the_cache(memory.alias_size_in_bytes, CACHE_BYTES)
    assert memory.temp_size_in_bytes < 10e6
    assert largest_copy_bytes(text) < 10e6
    assert text.count('custom_call_target="tpu_custom_call"') == 1
    found = opcodes(text, "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute(?:-start)?")
    # All-reduces: 2 norms, out and mlp.out of a layer, embedding, logits.norm. All-gathers: o_rows and hidden_rows of a
    # layer, residual, candidates.
    assert found == {"all-reduce": 6, "reduce-scatter": 2, "all-gather": 4}


def test_insert_writes_in_place_without_collectives(package: Package, mesh: Any) -> None:
    config = package.module("config").MODEL
    insert = package.module("kv_cache").lower_insert(config, mesh, 512).compile()
    assert insert.memory_analysis().alias_size_in_bytes == CACHE_BYTES
    assert insert.memory_analysis().temp_size_in_bytes < 10e6
    assert not opcodes(insert.as_text(), "all-reduce|all-gather|reduce-scatter|all-to-all")


def test_a_cache_without_the_kernel_stays_in_place(tmp_path: Path) -> None:
    rules = G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y"))
    case = replace(LLAMA, name="small", model={**TINY, "head_dim": 64, "layers": 8}, generate=rules, batch=64)
    case = replace(case, mesh={"x": 2, "y": 4}, slice="2x4", weights="bf16", context=1024, smallest_shard=8)
    package = load(case, tmp_path)
    mesh, config = package.module("sharding").make_mesh(topology("v5e:2x4").devices), package.module("config").MODEL
    generate = package.module("generate").lower_generate(config, mesh)
    for step in (generate, package.module("kv_cache").lower_insert(config, mesh, 32)):
        compiled = step.compile()
        cache = compiled.memory_analysis().alias_size_in_bytes
        assert cache > 30e6
        assert largest_copy_bytes(compiled.as_text()) < cache / 8


EIGHT_B = {**LLAMA_70B, "layers": 32, "d_model": 4096, "d_ff": 14336, "q_heads": 32}
KEPT = [
    Case(
        "tokens_cut",
        {"x": 2, "y": 4},
        G(q_heads=("x", "y"), kv_heads=("x",), kv_tokens=("y",), d_ff=("y", "x"), vocab=("x", "y")),
        P(tokens=("x",), q_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        model=EIGHT_B,
        weights="bf16",
    ),
    Case(
        "rows_cut_int8",
        {"x": 2, "y": 4},
        G(rows=("x", "y"), d_ff=("y",), vocab=("x",)),
        P(d_ff=("y",), vocab=("x",)),
        model=EIGHT_B,
        weights="bf16",
        kv_cache="int8",
        batch=64,
    ),
    Case(
        "tokens_cut_int8",
        {"x": 4, "y": 4},
        G(q_heads=("y", "x"), kv_heads=("y",), kv_tokens=("x",), d_ff=("x", "y"), vocab=("x", "y")),
        P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
        model=LLAMA_70B,
        kv_cache="int8",
    ),
    Case(
        "narrow_heads_int8",
        {"x": 2, "y": 4},
        G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), vocab=("x", "y")),
        P(q_heads=("y",), kv_heads=("y",), vocab=("x", "y")),
        model={**TINY, "q_heads": 24, "kv_heads": 12, "head_dim": 64, "layers": 8},
        weights="bf16",
        kv_cache="int8",
    ),
]
TPU: dict[str, Any] = {"chip": "v5e", "activations": "bf16", "context": 4096, "page_tokens": 128, "buckets": (512,)}


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_every_cache_stays_in_place_under_the_planned_collectives(case: Case, tmp_path: Path) -> None:
    kv_cache = "bf16" if case.kv_cache == "float32" else case.kv_cache
    weights = "int8" if case.weights == "float32" else case.weights
    shape = "x".join(map(str, case.mesh.values()))
    case = replace(case, kv_cache=kv_cache, weights=weights, slice=shape, smallest_shard=8, **TPU)
    package = load(case, tmp_path)
    mesh, config = (
        package.module("sharding").make_mesh(topology(f"v5e:{shape}").devices),
        package.module("config").MODEL,
    )
    generate = package.module("generate").lower_generate(config, mesh).compile()
    insert = package.module("kv_cache").lower_insert(config, mesh, 512).compile()
    for step, kernels in ((generate, 3 if kv_cache == "int8" else 1), (insert, 0)):
        memory, module = step.memory_analysis(), parse(step.as_text())
        assert is_the_cache(memory.alias_size_in_bytes, planned_cache_bytes(case))
        assert [copy for copy in copies(module, on_tpu=True) if copy.array.startswith("cache")] == []
        assert step.as_text().count('custom_call_target="tpu_custom_call"') == kernels
        wanted = generate_collectives(case) if step is generate else ()
        assert [row for row in compare(wanted, transfers(module, case.mesh)) if row.status != "matched"] == []


def is_the_cache(donated: int, cache: int) -> bool:
    """Whether a program's donated bytes are the cache and no more than the slots' lengths, tables and marks beside."""
    return cache <= donated < 1.01 * cache


def planned_cache_bytes(case: Case) -> int:
    """The bytes of the cache on one chip, as the planner counts them for a TPU."""
    sizes = replace(program_of(case).sizes, lanes=128)
    rules = GenerateTable(**case.generate.model_dump(mode="python"))
    return kv_cache_bytes(rules, case.batch, case.context, case.page_tokens, sizes, Ways(dict(case.mesh)))


def test_the_kernel_is_for_tpus_only(tmp_path: Path, package: Package) -> None:
    tiny = package.module("config").TINY
    text = package.module("generate").lower_generate(tiny, package.mesh).as_text()
    assert "tpu_custom_call" not in text
