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
class Request:
    """A sequence of a replay: what is read, the slot it sits in, and the steps from which and before which it runs."""

    prompt: tuple[int, ...]
    slot: int
    begin: int
    end: int

    def token(self, step: int) -> int:
        """The token that a generate step reads: any, the same in every run."""
        return (31 * step + 17 * self.slot + 7 * len(self.prompt)) % 250

    @property
    def tokens(self) -> list[int]:
        """All tokens that are read."""
        return [*self.prompt, *(self.token(step) for step in range(self.begin, self.end))]


STEPS = 16
REQUESTS = (
    Request((3, 200, 17, 42, 0, 9, 101, 13, 88, 5, 61), slot=0, begin=0, end=STEPS),
    Request((7,) * 20, slot=3, begin=0, end=7),
    Request((1, 2, 3), slot=6, begin=0, end=STEPS),
    Request((90, 80, 70, 60, 50), slot=3, begin=9, end=STEPS),
)
"""Prompts of unequal length beside idle slots; a slot that is released, stays idle for two steps, and is used again."""


@dataclass(frozen=True)
class Replay:
    """For each request [1 + steps, vocab]: candidates' logits after the prompt, and after each step that it runs in."""

    logits: tuple[np.ndarray, ...]
    engine: Any


def replay(
    package: Package, config: Any, weights: Any, requests: Sequence[Request] = REQUESTS, pages: Any = None
) -> Replay:
    """What `requests` give in so many steps; `pages`: slot -> its page ids, where they are not its own."""
    sampling, engine = package.module("sampling"), package.module("engine").Engine(weights, config, package.mesh)
    choose, sampling.choose = sampling.choose, _offers
    found: list[list[np.ndarray]] = [[] for _ in requests]
    try:
        for step in range(max(request.end for request in requests)):
            for index, request in enumerate(requests):
                if request.end == step:
                    engine.release(request.slot)
                if request.begin == step:
                    found[index].append(_insert(package, engine, request, pages))
            tokens = np.zeros(config.batch, np.int32)
            running = [index for index, each in enumerate(requests) if each.begin <= step < each.end]
            for index in running:
                tokens[requests[index].slot] = requests[index].token(step)
            slots = replace(engine._slots, tokens=engine._put(tokens)[0])
            engine._cache, made = engine._program("generate")(weights, engine._cache, slots)
            engine._slots = replace(made, tokens=slots.tokens)
            offers = as_logits(made.tokens, config.vocab)
            for index in running:
                found[index].append(offers[requests[index].slot])
    finally:
        sampling.choose = choose
    return Replay(tuple(np.stack(each) for each in found), engine)


def _insert(package: Package, engine: Any, request: Request, pages: Any) -> np.ndarray:
    """Read a prompt and give it its slot; the candidates' logits after it."""
    offers, kv = _prefilled(engine, request.prompt)
    module = package.module("engine")
    read = module.Prefilled(
        request.token(request.begin), kv, len(request.prompt), package.module("sampling").Sampling()
    )
    engine.insert(read, request.slot, pages=None if pages is None else pages[request.slot])
    return as_logits(offers, engine.config.vocab)[0]


def _prefilled(engine: Any, prompt: Sequence[int]) -> tuple[Any, Any]:
    bucket = engine.config.bucket(len(prompt))
    ids = np.zeros(bucket, np.int32)
    ids[: len(prompt)] = prompt
    sampling = sys.modules[type(engine).__module__].Sampling
    choice = sampling(np.float32([0]), np.int32([0]), np.float32([1]), np.uint32([0]))
    return engine._program("prefill", bucket)(engine._weights, *engine._put(ids, np.int32(len(prompt)), choice))
