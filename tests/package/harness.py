"""Render a plan, import the package, and run its steps."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from planner.plan.schema import Plan
from planner.render import write_package
from tests.render.plans import Case, make_plan

_numbers = count()
T = TypeVar("T")


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
            for request in requests:
                if request.end == step:
                    engine.release(request.slot)
            _begin(engine, [(at, each) for at, each in enumerate(requests) if each.begin == step], found, pages)
            tokens = np.zeros(config.batch, np.int32)
            running = [index for index, each in enumerate(requests) if each.begin <= step < each.end]
            for index in running:
                tokens[requests[index].slot] = requests[index].token(step)
            slots = replace(engine._slots, tokens=engine._put(tokens)[0])
            engine._cache, made = engine._program("generate")(engine._weights, engine._cache, slots)
            engine._slots = replace(made, tokens=slots.tokens)
            offers = as_logits(made.tokens, config.vocab)
            for index in running:
                found[index].append(offers[requests[index].slot])
    finally:
        sampling.choose = choose
    return Replay(tuple(np.stack(each) for each in found), engine)


def _begin(engine: Any, begun: Sequence[tuple[int, Request]], found: list[list[np.ndarray]], pages: Any) -> None:
    """Read prompts, as many together as the plan does, and give them their slots; `found` gets their candidates."""
    for some in _batches(begun, engine.config.prompts):
        read = _prefilled(engine, [request.prompt for _, request in some])
        for (index, request), (offers, prefilled) in zip(some, read, strict=True):
            taken = None if pages is None else pages[request.slot]
            engine.insert(replace(prefilled, first=request.token(request.begin)), request.slot, pages=taken)
            found[index].append(as_logits(offers[None], engine.config.vocab)[0])


def _batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]


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
