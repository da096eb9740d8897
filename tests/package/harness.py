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


def as_logprobs(chosen: Any, vocab: int) -> np.ndarray:
    """[..., vocab] of the log probabilities that were told [..., told]; NaN for tokens that are no candidates."""
    found = np.full((*chosen.top_tokens.shape[:-1], vocab), np.nan, np.float32)
    np.put_along_axis(found, np.asarray(chosen.top_tokens), np.asarray(chosen.top_logprobs), axis=-1)
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
    """For each request [1 + steps, vocab]: log probabilities after the prompt, and after each step that it runs in."""

    logprobs: tuple[np.ndarray, ...]
    engine: Any


def replay(
    package: Package, config: Any, weights: Any, requests: Sequence[Request] = REQUESTS, pages: Any = None
) -> Replay:
    """What `requests` give in so many steps; `pages`: slot -> its page ids, where they are not its own."""
    sampling, engine = package.module("sampling"), package.module("engine").Engine(weights, config, package.mesh)
    told, sampling.TOLD = sampling.TOLD, sampling.CANDIDATES
    found: list[list[np.ndarray]] = [[] for _ in requests]
    try:
        for step in range(max(request.end for request in requests)):
            for request in requests:
                if request.end == step:
                    engine.release(request.slot)
            _begin(
                package, engine, [(at, each) for at, each in enumerate(requests) if each.begin == step], found, pages
            )
            tokens = np.zeros(config.batch, np.int32)
            running = [index for index, each in enumerate(requests) if each.begin <= step < each.end]
            for index in running:
                tokens[requests[index].slot] = requests[index].token(step)
            engine._slots = replace(engine._slots, tokens=engine._put(tokens)[0])
            logprobs = as_logprobs(engine.step(), config.vocab)
            for index in running:
                found[index].append(logprobs[requests[index].slot])
    finally:
        sampling.TOLD = told
    return Replay(tuple(np.stack(each) for each in found), engine)


def _begin(
    package: Package, engine: Any, begun: Sequence[tuple[int, Request]], found: list[list[np.ndarray]], pages: Any
) -> None:
    """Read prompts, as many together as the plan does, and give them their slots; `found` gets what they choose."""
    telling = package.module("sampling").Sampling(logprobs=True)
    for some in _batches(begun, engine.config.prompts):
        for (index, request), prefilled in zip(some, _read(engine, some, telling), strict=True):
            chosen = replace(prefilled.chosen, tokens=np.int32(request.token(request.begin)))
            taken = None if pages is None else pages[request.slot]
            engine.insert(replace(prefilled, chosen=chosen), request.slot, pages=taken)
            found[index].append(as_logprobs(prefilled.chosen, engine.config.vocab))


def _read(engine: Any, some: Sequence[tuple[int, Request]], sampling: Any) -> list[Any]:
    prompts = [request.prompt for _, request in some]
    if not hasattr(engine, "prefill_together"):
        return [engine.prefill(prompt, sampling) for prompt in prompts]
    return list(engine.prefill_together(prompts, [sampling] * len(prompts)))


def _batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
