"""Pages in host memory: bit for bit what the chips had, wherever they come back to, and nowhere else meanwhile."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.package.cases import INT8_CACHES, READS
from tests.package.harness import load
from tests.serving.served import Served

PLAIN = next(case for case in READS if case.name == "heads_by_batch_chunks")
CASES = [
    PLAIN,
    replace(PLAIN, name="bf16_chunks", kv_cache="bf16"),
    *(replace(case, chunk=16) for case in INT8_CACHES if case.name == "one_device_int8_cache"),
]


def filled(cache: Any) -> Any:
    """A cache of any bits that are numbers."""
    random = np.random.default_rng(0)

    def bits(array: jax.Array) -> jax.Array:
        found = random.integers(0, 255, array.size * array.dtype.itemsize, np.uint8).view(array.dtype)
        found[np.isnan(found.astype(np.float32))] = 1
        return jax.device_put(found.reshape(array.shape), array.sharding)

    return jax.tree.map(bits, cache)


def bits_of(page: Any) -> list[bytes]:
    return [np.asarray(array).tobytes() for array in jax.tree.leaves(page)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_page_comes_back_bit_for_bit(case: Any, tmp_path: Path) -> None:
    case = replace(case, context=64, buckets=(16, 48), page_tokens=8)
    programs = Served(case, load(case, tmp_path)).programs
    programs._cache = filled(programs._cache)
    slot_pages = programs.config.pages_per_slot
    home, away = 3, programs.config.batch * slot_pages - 2  # where slots of other chips have theirs, too
    taken = programs.take(home)
    before = bits_of(taken.on_chips(programs.config, programs.mesh))
    assert len(set(before[0])) > 100
    jax.block_until_ready(taken._contents)
    programs.step()
    assert all(isinstance(array, np.ndarray) for array in jax.tree.leaves(taken._contents))
    assert not programs._leaving
    programs.put(taken, away)
    assert bits_of(programs.take(away).on_chips(programs.config, programs.mesh)) == before
    other = bits_of(programs.take(away - 1).on_chips(programs.config, programs.mesh))
    assert other != before
