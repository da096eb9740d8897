"""Our TPU kernels: their numbers in interpret mode, and what the TPU compiler makes of them; no TPU is needed."""

import os
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from planner.render.package import environment
from tests.package.test_tpu import largest_copy_bytes, topology

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
LAYERS, ROWS, PAGES_PER_ROW = 4, 8, 8
SHAPES = {
    "bf16": (8, 2, 128, 128, jnp.bfloat16),
    "bf16, few heads": (9, 3, 64, 16, jnp.bfloat16),
    "int8": (8, 1, 128, 128, jnp.int8),
    "int8, all heads": (8, 8, 128, 128, jnp.int8),
    "int8, wide heads": (6, 1, 256, 128, jnp.int8),
}
"""Name -> query heads, KV heads, head_dim, tokens of a page, dtype of the cache."""


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    kv_layout = SimpleNamespace(vmem_bytes=64 * 2**20)
    view = SimpleNamespace(header="Rendered", generate=SimpleNamespace(kv_layout=kv_layout))
    text = environment(None).get_template("kernels.py.j2").render(view=view)
    module = ModuleType("kernels")
    exec(compile(text, "kernels.py", "exec"), module.__dict__)
    return module


def random_cache(
    rng: np.random.Generator, kv_heads: int, head_dim: int, page: int, dtype: Any
) -> tuple[jax.Array, jax.Array | None]:
    """Pages, and their scales where values are int8."""
    shape = (ROWS * PAGES_PER_ROW, page, 2 * kv_heads * head_dim)
    if dtype != jnp.int8:
        return jnp.array(rng.standard_normal(shape), dtype), None
    scales = jnp.array(rng.random((shape[0], 2 * kv_heads, page)) / 127, jnp.float32)
    return jnp.array(rng.integers(-127, 128, shape), jnp.int8), scales


def plain_decode(
    q: np.ndarray, pages: np.ndarray, scales: np.ndarray | None, tables: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What `paged_decode` returns, row by row and head by head in float64."""
    rows, heads, head_dim = q.shape
    combined = pages.shape[2] // head_dim
    o, lse = np.zeros(q.shape), np.full((rows, heads), -np.inf)
    for row in np.flatnonzero(lengths):
        kv = pages[tables[row]].reshape(-1, combined, head_dim)[: lengths[row]].astype(np.float64)
        if scales is not None:
            kv = kv * scales[tables[row]].swapaxes(1, 2).reshape(-1, combined)[: lengths[row], :, None]
        for head in range(heads):
            of = head // (heads // (combined // 2))
            scores = kv[:, 2 * of] @ q[row, head] / np.sqrt(head_dim)
            weights = np.exp(scores - scores.max())
            o[row, head] = weights @ kv[:, 2 * of + 1] / weights.sum()
            lse[row, head] = scores.max() + np.log(weights.sum())
    return o, lse


def assert_decodes(kernels: ModuleType, q_heads: int, kv_heads: int, head_dim: int, page: int, dtype: Any) -> None:
    """The kernel is the softmax over the pages of rows of every length."""
    rng = np.random.default_rng(0)
    pages, scales = random_cache(rng, kv_heads, head_dim, page, dtype)
    q = jnp.array(rng.standard_normal((ROWS, q_heads, head_dim)), jnp.bfloat16)
    tables = jnp.array(rng.permutation(ROWS * PAGES_PER_ROW).reshape(ROWS, PAGES_PER_ROW), jnp.int32)
    lengths = jnp.array([0, 1, page - 1, page, page + 1, 3 * page + 5, 7 * page, 8 * page], jnp.int32)
    o, lse = kernels.paged_decode(q, pages, scales, tables, lengths, interpret=True)
    wide = [None if each is None else np.asarray(each, np.float64) for each in (q, pages, scales)]
    wanted_o, wanted_lse = plain_decode(*wide, np.asarray(tables), np.asarray(lengths))
    np.testing.assert_allclose(o, wanted_o, atol=1e-2)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_decode_is_softmax_over_the_pages_of_a_row(kernels: ModuleType, name: str) -> None:
    assert_decodes(kernels, *SHAPES[name])


@pytest.mark.parametrize(("page", "dtype", "part"), [(128, jnp.bfloat16, 32), (256, jnp.int8, 128)])
def test_pages_that_do_not_fit_are_read_in_parts(
    kernels: ModuleType, page: int, dtype: Any, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug log B4, sglang-jax#408 and #182, vllm#19490: few chips, many KV heads, and not enough VMEM for a page."""
    heads, head_dim = 2, 128
    pages = jax.ShapeDtypeStruct((1, page, 2 * heads * head_dim), dtype)
    held = 4 if dtype == jnp.bfloat16 else 6
    monkeypatch.setattr(kernels, "KERNEL_VMEM_BYTES", 2 * part * pages.shape[2] * held)
    assert kernels._tokens_at_a_time(pages, dtype == jnp.int8) == part
    assert_decodes(kernels, 8, heads, head_dim, page, dtype)


@pytest.mark.parametrize("name", SHAPES)
def test_update_writes_exactly_the_rows_it_is_given(kernels: ModuleType, name: str) -> None:
    _, kv_heads, head_dim, page, dtype = SHAPES[name]
    rng = np.random.default_rng(1)
    pages, scales = random_cache(rng, kv_heads, head_dim, page, dtype)
    rows, row_scales = random_cache(rng, kv_heads, head_dim, 1, dtype)
    new, new_scales = rows[:ROWS, 0], None if row_scales is None else row_scales[:ROWS, :, 0]
    ids = jnp.array(rng.permutation(pages.shape[0])[:ROWS], jnp.int32)
    offsets = jnp.array([0, 1, page - 1, page // 2, 3, 5, 7, 9], jnp.int32)
    written, written_scales = kernels.write_rows(pages, scales, new, new_scales, ids, offsets, interpret=True)
    np.testing.assert_array_equal(written, pages.at[ids, offsets].set(new))
    if scales is None:
        assert written_scales is None
    else:
        np.testing.assert_array_equal(written_scales, scales.at[ids, :, offsets].set(new_scales))


@pytest.mark.parametrize(("q_heads", "kv_heads", "head_dim"), [(4, 2, 64), (8, 1, 128), (3, 3, 64)])
def test_splash_is_causal_attention(kernels: ModuleType, q_heads: int, kv_heads: int, head_dim: int) -> None:
    rng, tokens = np.random.default_rng(2), 256
    q, kv = (rng.standard_normal((tokens, n, head_dim), np.float32) for n in (q_heads, 2 * kv_heads))
    grouped = q.reshape(tokens, kv_heads, -1, head_dim)
    scores = np.einsum("qkgh,tkh->kgqt", grouped, kv[:, 0::2]) / np.sqrt(head_dim)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    wanted = np.einsum("kgqt,tkh->qkgh", weights, kv[:, 1::2]).reshape(q.shape)
    np.testing.assert_allclose(kernels.splash_attention(jnp.array(q), jnp.array(kv), interpret=True), wanted, atol=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_on_tpu_a_step_keeps_the_cache_in_place(kernels: ModuleType, name: str) -> None:
    q_heads, kv_heads, head_dim, page, dtype = SHAPES[name]
    per_layer, width = ROWS * PAGES_PER_ROW + 1, 2 * kv_heads * head_dim
    whole = NamedSharding(Mesh(np.array(topology("v5e:2x2").devices), ("x",)), P())
    scaled = dtype == jnp.int8

    def step(q: Any, pages: Any, scales: Any, tables: Any, lengths: Any, kv: Any, kv_scales: Any) -> Any:
        def layer(index: Any, carry: Any) -> Any:
            q, pages, scales = carry
            first = index * per_layer
            pages, scales = kernels.write_rows(pages, scales, kv, kv_scales, first + tables[:, 0], lengths % page)
            o, lse = kernels.paged_decode(q, pages, scales, first + tables, lengths)
            return (o * lse[:, :, None]).astype(q.dtype), pages, scales

        return jax.lax.fori_loop(0, LAYERS, layer, (q, pages, scales))

    def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=whole)

    pages = array(dtype, LAYERS * per_layer, page, width)
    scales = array(jnp.float32, LAYERS * per_layer, 2 * kv_heads, page) if scaled else None
    rows = array(dtype, ROWS, width), array(jnp.float32, ROWS, 2 * kv_heads) if scaled else None
    numbers = array(jnp.int32, ROWS, PAGES_PER_ROW), array(jnp.int32, ROWS)
    program = jax.shard_map(step, mesh=whole.mesh, in_specs=P(), out_specs=P(), check_vma=False)
    q = array(jnp.bfloat16, ROWS, q_heads, head_dim)
    compiled = jax.jit(program, donate_argnums=(1, 2)).lower(q, pages, scales, *numbers, *rows).compile()
    memory = compiled.memory_analysis()
    cache = pages.size * pages.dtype.itemsize + (scales.size * 4 if scales else 0)
    assert memory.alias_size_in_bytes >= cache
    assert memory.temp_size_in_bytes < cache / 100
    assert largest_copy_bytes(compiled.as_text()) < cache / 100


@pytest.mark.parametrize(
    ("rows", "kv_heads", "head_dim"), [(2048, 2, 64), (2048, 1, 256), (512, 1, 128), (512, 2, 128)]
)
def test_on_tpu_prefill_attention_compiles(kernels: ModuleType, rows: int, kv_heads: int, head_dim: int) -> None:
    tokens, q_heads = 2048, 4
    whole = NamedSharding(Mesh(np.array(topology("v5e:2x2").devices), ("x",)), P())

    def attend(q: Any, kv: Any, first: Any) -> Any:
        if rows == tokens:
            return kernels.splash_attention(q, kv)
        return kernels.ragged_attention(q, kv, jnp.zeros(1, jnp.int32), first, tokens=tokens)

    program = jax.shard_map(attend, mesh=whole.mesh, in_specs=P(), out_specs=P(), check_vma=False)
    shapes = ((rows, q_heads, head_dim), (tokens, 2 * kv_heads, head_dim))
    q, kv = (jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=whole) for shape in shapes)
    first = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
    compiled = jax.jit(program).lower(q, kv, first).compile()
    assert compiled.as_text().count('custom_call_target="tpu_custom_call"') == 1
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * q.size * 4  # no [tokens, tokens] array
