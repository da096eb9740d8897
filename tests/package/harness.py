"""Render a plan, import the package, and run its steps."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from planner.plan.schema import Plan
from planner.render import write_package
from tests.render.plans import Case, make_plan

_numbers = count()


@dataclass(frozen=True)
class Package:
    """An imported package and its mesh."""

    name: str
    mesh: jax.sharding.Mesh

    def module(self, name: str) -> Any:
        """One of its modules."""
        return importlib.import_module(f"{self.name}.{name}")


def load(case: Case, folder: Path) -> Package:
    """The package of `case`, rendered below `folder` and imported."""
    return load_plan(make_plan(case), case.name, folder)


def load_plan(plan: Plan, title: str, folder: Path) -> Package:
    """The package of a plan, rendered below `folder` under a name that begins with `title`, and imported."""
    name = f"{title}_{next(_numbers)}"
    write_package(plan, folder / name)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    package: ModuleType = importlib.import_module(name)
    return Package(name, package.make_mesh(jax.devices()[: len(plan.mesh.chips)]))


def _offers(best: jax.Array, ids: jax.Array, *_: Any) -> jax.Array:
    return jnp.concatenate([best, ids.astype(jnp.float32)], axis=1)


def as_logits(offers: np.ndarray, vocab: int) -> np.ndarray:
    """[rows, vocab] of candidates [rows, 2 * candidates]; NaN for tokens that are no candidates."""
    best, ids = np.split(np.asarray(offers), 2, axis=1)
    found = np.full((offers.shape[0], vocab), np.nan, np.float32)
    np.put_along_axis(found, ids.astype(int), best, axis=1)
    return found


@dataclass(frozen=True)
class PhaseLogits:
    """Candidates' logits [prompts, vocab] of prefill and of generate, and the engine that made them."""

    after_prompt: np.ndarray
    after_token: np.ndarray
    engine: Any


def phase_logits(package: Package, config: Any, weights: Any, prompts: Sequence[Sequence[int]]) -> PhaseLogits:
    """Candidates' logits of both phases: after each prompt, and one generated token later for all prompts in slots.

    Prompt i sits in slot (i * 3) % batch; the other slots are idle. The token generate reads is 7.
    """
    sampling, engine = package.module("sampling"), package.module("engine").Engine(weights, config, package.mesh)
    choose, sampling.choose = sampling.choose, _offers
    try:
        first = [_prefilled(engine, prompt) for prompt in prompts]
        for index, (prompt, (_, kv)) in enumerate(zip(prompts, first, strict=True)):
            read = package.module("engine").Prefilled(7, kv, len(prompt), package.module("sampling").Sampling())
            engine.insert(read, index * 3 % config.batch)
        _, slots = engine._program("generate")(weights, engine._cache, engine._slots)
    finally:
        sampling.choose = choose
    made = as_logits(slots.tokens, config.vocab)
    return PhaseLogits(
        np.concatenate([as_logits(offers, config.vocab) for offers, _ in first]),
        made[[index * 3 % config.batch for index in range(len(prompts))]],
        engine,
    )


def _prefilled(engine: Any, prompt: Sequence[int]) -> tuple[Any, Any]:
    bucket = engine.config.bucket(len(prompt))
    ids = np.zeros(bucket, np.int32)
    ids[: len(prompt)] = prompt
    sampling = sys.modules[type(engine).__module__].Sampling
    choice = sampling(np.float32([0]), np.int32([0]), np.float32([1]), np.uint32([0]))
    return engine._program("prefill", bucket)(engine._weights, *engine._put(ids, np.int32(len(prompt)), choice))
