"""Render a plan, import the package, and run its steps."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """An imported package and its mesh, or its meshes of both phases."""

    name: str
    mesh: Any

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
    if plan.pool is not None:
        return Package(name, package.make_meshes(jax.devices()))
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
        first = [offered for some in _batches(prompts, config.prompts) for offered in _prefilled(engine, some)]
        for index, (_, read) in enumerate(first):
            engine.insert(replace(read, first=7), index * 3 % config.batch)
        _, slots = engine._program("generate")(engine._weights, engine._cache, engine._slots)
    finally:
        sampling.choose = choose
    made = as_logits(slots.tokens, config.vocab)
    return PhaseLogits(
        as_logits(np.stack([offers for offers, _ in first]), config.vocab),
        made[[index * 3 % config.batch for index in range(len(prompts))]],
        engine,
    )


def _batches(prompts: Sequence[Sequence[int]], size: int) -> list[Sequence[Sequence[int]]]:
    return [prompts[begin : begin + size] for begin in range(0, len(prompts), size)]


def _prefilled(engine: Any, prompts: Sequence[Sequence[int]]) -> list[tuple[np.ndarray, Any]]:
    """(candidates, what insert takes) of each prompt, all read together; prefill's choice of tokens is patched."""
    made: list[np.ndarray] = []
    program = engine._program

    def recording(step: str, bucket: int = 0) -> Any:
        run = program(step, bucket)

        def record(*values: Any) -> tuple[Any, ...]:
            offers, *rest = run(*values)
            made.append(np.asarray(offers))
            return (np.zeros(engine.config.prompts, np.int32), *rest)

        return record if step == "prefill" else run

    engine._program = recording
    try:
        if not hasattr(engine, "prefill_together"):
            read = [engine.prefill(prompt) for prompt in prompts]
        else:
            read = engine.prefill_together(prompts, [engine_module(engine).GREEDY] * len(prompts))
    finally:
        engine._program = program
    chunk = getattr(engine.config, "chunk", engine.config.context)
    last = [(len(prompt) - 1) // chunk + getattr(engine, "stages", 1) - 1 for prompt in prompts]
    offers = [made[step][nth - engine.config.prompts] for nth, step in enumerate(last)]
    return list(zip(offers, read, strict=True))


def engine_module(engine: Any) -> Any:
    """The module that an engine is of."""
    return sys.modules[type(engine).__module__]
