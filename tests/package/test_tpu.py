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
from tests.package.harness import Package, load
from tests.render.plans import TINY
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
    assert memory.alias_size_in_bytes == CACHE_BYTES
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


def test_the_kernel_is_for_tpus_only(tmp_path: Path, package: Package) -> None:
    tiny = package.module("config").TINY
    text = package.module("generate").lower_generate(tiny, package.mesh).as_text()
    assert "tpu_custom_call" not in text
