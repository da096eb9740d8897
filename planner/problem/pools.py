"""Disaggregated serving: problems of the slices that only read prompts, and of those that only generate.

Each phase has slices of its own, so a block has one side only: a prefill side stores its weights as it likes, and a
generate side reads no prompts. Blocks agree on the residual stream of the one phase. What a fleet is best at never
falls with a shorter step, so a slice and its load ask for the shortest step, whatever the other phase does.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import floor

import numpy as np

from planner.problem import hbm
from planner.problem.demand import Demand, GenerateSide, PrefillSide
from planner.problem.drafts import Drafts, tokens_per_step
from planner.problem.floors import Floors
from planner.problem.handover import Link
from planner.problem.legal import legal_batch
from planner.problem.machine import Machine
from planner.problem.options import D_ROLES, ROLES, Mode, Option, Role, mode_tuples, role_tuples, stored_as, stream
from planner.problem.pipeline import Pipeline
from planner.problem.problem import NS, Block, Bools, Column, Floor, Ints, Limits, MeshTable, Problem, Stored
from planner.problem.rules import GenerateRules, PrefillRules
from planner.problem.spaces import STREAMS, Key, Roles, Space, code, stored_by
from planner.problem.tables import Load, Pricer, nanoseconds, units64

PREFILL_STREAMS = ("whole", "d_model", "tokens", "d_model_tokens")
"""What an axis cuts in the residual stream of prefill; blocks also agree on a stored d_model that they gather."""


@dataclass(frozen=True)
class Pool:
    """One phase on the meshes of one slice, under one load: `prompts` read together, or sequences of a `batch`."""

    slice: str
    chips: int
    load: int
    problem: Problem
    stages: int = 1
    drafts: Drafts | None = None

    def prefill_side(self, ns: float) -> PrefillSide:
        """The pool as a fleet sees it, where it reads prompts in so many nanoseconds."""
        return PrefillSide(self.chips, self.load, ns, self.problem.meshes[0].reading, self.stages)

    def generate_side(self, ns: float) -> GenerateSide:
        """The pool as a fleet sees it, where a step takes so many nanoseconds."""
        return GenerateSide(self.chips, self.load, ns, float(tokens_per_step(self.drafts)))


@dataclass(frozen=True)
class Apart:
    """What disaggregated serving may choose from: pools of both phases, what is asked of the fleet, the ways between
    slices by their names, and the bytes of a prompt's keys and values."""

    prefill: tuple[Pool, ...]
    generate: tuple[Pool, ...]
    demand: Demand
    links: Mapping[tuple[str, str], list[Link]]
    sent_bytes: int


@dataclass(frozen=True)
class PoolPricer:
    """The options of one phase on one mesh, and their prices."""

    pricer: Pricer
    pipeline: Pipeline | None = None
    _keys: dict[str, list[Key]] = field(default_factory=dict)
    _roles: dict[str, list[Roles]] = field(default_factory=dict)

    @property
    def machine(self) -> Machine:
        """The chips and links of a slice, of a stage where there are several."""
        return self.pricer.machine

    @property
    def load(self) -> Load:
        """The lengths that it is priced for."""
        return self.pricer.load

    @property
    def stages(self) -> int:
        """Stages of the pipeline, 1 for none."""
        return self.pipeline.stages if self.pipeline else 1

    @cached_property
    def floors(self) -> Floors:
        """The floors of the mesh; weights are stored once."""
        return Floors(self.machine, self.load)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The blocks of the model."""
        return self.pricer.machine.sizes.blocks

    def prefill_table(self, prompts: int) -> MeshTable:
        """The table of a slice that reads `prompts` together."""
        return self.table(
            prompts,
            lambda limit: self.prefill_floor(prompts, limit),
            lambda: tuple(self.prefill_block(name, prompts) for name in self.names),
        )

    def generate_table(self, at: int, drafts: Drafts | None = None) -> MeshTable:
        """The table of a slice that generates a batch of the load, told by its index, with drafts or without."""
        table = self.table(
            1,
            lambda limit: self.generate_floor(at, limit, drafts),
            lambda: tuple(self.generate_block(n, at, drafts) for n in self.names),
        )
        return replace(table, drafts=drafts, tokens_per_step=tokens_per_step(drafts))

    def table(
        self, prompts: int, floors: Callable[[int | None], Floor], price: Callable[[], tuple[Block, ...]]
    ) -> MeshTable:
        """A table with one column."""
        machine = self.pricer.machine
        layouts = len(PREFILL_STREAMS) ** len(machine.mesh)
        return MeshTable(
            str(machine.slice), machine.slice.chips, machine.mesh, prompts, layouts, floors, price, self,
            reading=self.load.reading(prompts),
        )  # fmt: skip

    def prefill_floor(self, prompts: int, limit: int | None) -> Floor:
        """The floor of a prefill, whose slice keeps no cache."""
        whole, vocab_ns = self.floors.of(prompts, None), 0
        if self.pipeline is not None:
            vocab_ns = floor(self.pipeline.vocab_s(whole.prefill_ns / NS, self.machine) * NS)
        held = sum(self.least_units) + self.floors.vocab_units
        stored = (
            Stored(each.prefill_ns, np.zeros((len(each.prefill_ns), 1), dtype=np.int64), fits(units, held, limit))
            for each, units in zip(whole.stored, self.units, strict=True)
        )
        least_ns = max(0, vocab_ns - 1) if self.pipeline else whole.prefill_ns
        return Floor(tuple(stored), least_ns, np.zeros(1, dtype=np.int64), np.array([held]))

    def generate_floor(self, at: int, limit: int | None, drafts: Drafts | None) -> Floor:
        """The floor of a generate step."""
        whole = self.floors.of(self.load.prompts[0], limit, drafts=drafts)
        stored = (
            Stored(np.zeros_like(each.prefill_ns), each.generate_ns[:, [at]], each.fits[:, [at]])
            for each in whole.stored
        )
        return Floor(tuple(stored), 0, whole.generate_ns[[at]], whole.hbm[[at]])

    @cached_property
    def units(self) -> list[Ints]:
        """HBM units of every way to store the weights of a block's floor."""
        return [block.units // self.stages for block in self.floors.blocks]

    @cached_property
    def least_units(self) -> list[int]:
        """The least of them."""
        return [int(units.min()) for units in self.units]

    def prefill_block(self, name: str, prompts: int) -> Block:
        """One block of prefill: every way to store and use its weights, its time, and the weights and what it holds."""
        sizes, ways = self.pricer.machine.sizes, self.pricer.machine.ways
        keys = self.keys(name)
        tables = [self.pricer.rules(name, Option(*key)) for key in keys]
        read = [(GenerateRules() if name == "vocab" else stored, rules) for stored, rules in tables]
        each_once = {pair: self.prefill(name, *pair, prompts) for pair in dict.fromkeys(read)}
        weights = {stored: self.kept(name, hbm.block_weights_bytes(name, stored, sizes, ways)) for stored, _ in tables}
        priced = [
            (each_once[pair][0], each_once[pair][1] + weights[stored])
            for pair, (stored, _) in zip(read, tables, strict=True)
        ]
        residual = np.array([code(map(prefill_stream, *key), len(PREFILL_STREAMS)) for key in keys], dtype=np.int64)
        units = units64(each[1] for each in priced)
        column = Column(np.zeros_like(units), units, np.ones(len(keys), dtype=np.bool_))
        ns = nanoseconds(each[0] for each in priced)
        return Block(name, prefill_space(keys), residual, ns, lambda _: column)

    def prefill(self, name: str, stored: GenerateRules, rules: PrefillRules, prompts: int) -> tuple[float, int]:
        """Seconds of the prefill of a block through all stages, and the bytes per chip that it holds meanwhile."""
        seconds, held = self.pricer.prefill(name, stored, rules, prompts, None)
        if self.pipeline is not None and name == "vocab":
            return self.pipeline.vocab_s(seconds, self.machine), held
        if self.pipeline is not None and name == "attention":
            permute = self.pipeline.permute(rules, self.load.prompt, self.machine.program, prompts)
            seconds += permute.repeats * self.pipeline.permute_s(permute, self.machine)
        return seconds, held

    def kept(self, name: str, layer_bytes: int) -> int:
        """Weights of a block on a chip."""
        return self.pipeline.kept(name, layer_bytes) if self.pipeline else layer_bytes

    def generate_block(self, name: str, at: int, drafts: Drafts | None) -> Block:
        """One block of a generate step."""
        roles, batch, machine = self.roles(name), self.pricer.load.batches[at], self.pricer.machine
        rules = [self.pricer.stored(name, each) for each in roles]
        legal = np.array([legal_batch(each, batch, machine) for each in rules], dtype=np.bool_)
        priced = [
            self.pricer.generate(name, each, batch, drafts) if ok else (0.0, 0)
            for each, ok in zip(rules, legal, strict=True)
        ]
        column = Column(nanoseconds(each[0] for each in priced), units64(each[1] for each in priced), legal)
        streams = [[STREAMS.index(stream(role)) for role in each] for each in roles]
        residual = np.array([code(each, len(STREAMS)) for each in streams], dtype=np.int64)
        return Block(name, generate_space(roles), residual, np.zeros_like(column.hbm), lambda _: column)

    def keys(self, name: str) -> list[Key]:
        """The ways to store and use a block's weights in prefill that are legal and pinned so."""
        if name not in self._keys:
            sizes = self.pricer.axis_sizes
            stored = dict.fromkeys(tuple(map(stored_as, roles)) for roles in role_tuples(sizes, ROLES[name]))
            self._keys[name] = [
                key
                for each in stored
                if self.pricer.legal_stored(name, self.pricer.stored(name, each))
                for modes in mode_tuples(sizes, each)
                if self.pricer.keeps_key(name, key := (each, modes), self.load.even(None))
            ]
        return self._keys[name]

    def roles(self, name: str) -> list[Roles]:
        """The ways to cut a block in generate that are legal at some batch and pinned so."""
        if name not in self._roles:
            every = role_tuples(self.pricer.axis_sizes, ROLES[name])
            self._roles[name] = [each for each in every if self.pricer.keeps_roles(name, each)]
        return self._roles[name]


def prefill_space(keys: list[Key]) -> Space:
    """Options of prefill alone."""
    stored = tuple(dict.fromkeys(each for each, _ in keys))
    of = np.array([stored.index(each) for each, _ in keys], dtype=np.int64)
    return Space(stored, tuple(keys), of, np.arange(len(keys), dtype=np.int64))


def generate_space(roles: list[Roles]) -> Space:
    """Options of generate alone."""
    keys = tuple(dict.fromkeys((stored_by(each), (Mode.SAME,) * len(each)) for each in roles))
    of = np.array([keys.index((stored_by(each), (Mode.SAME,) * len(each))) for each in roles], dtype=np.int64)
    return Space(tuple(roles), keys, np.arange(len(roles), dtype=np.int64), of)


def prefill_stream(role: Role, mode: Mode) -> int:
    """The index of what an axis with a role and a mode cuts in the residual stream of prefill."""
    return 2 * (mode is not Mode.SAME) + (role in D_ROLES)


def fits(units: Ints, least: int, limit: int | None) -> Bools:
    """Which stored weights fit beside the least of everything else, [stored, 1]; all where none does."""
    if limit is None:
        return np.ones((len(units), 1), dtype=np.bool_)
    kept: Bools = (units - units.min() + least <= limit)[:, None]
    return kept | ~kept.any(axis=0)


def prefill_pools(pricers: Mapping[str, list[PoolPricer]], limits: Limits, output_tokens: int) -> Iterator[Pool]:
    """For each slice, number of stages and of prompts read together, the shortest prefill."""
    for name, own in pricers.items():
        for stages, prompts in product(sorted({each.stages for each in own}), own[0].load.prompts):
            tables = tuple(each.prefill_table(prompts) for each in own if each.stages == stages)
            problem = Problem(tables, (prompts,), output_tokens, "prefill", Limits(hbm=limits.hbm))
            yield Pool(name, tables[0].chips, prompts, problem, stages)


def generate_pools(pricers: Mapping[str, list[PoolPricer]], limits: Limits, output_tokens: int) -> Iterator[Pool]:
    """For each slice and batch, with drafts and without, the shortest step."""
    for name, own in pricers.items():
        for (at, batch), drafts in product(enumerate(own[0].load.batches), own[0].load.drafts):
            tables = tuple(each.generate_table(at, drafts) for each in own)
            problem = Problem(tables, (batch,), output_tokens, "generate", Limits(hbm=limits.hbm))
            yield Pool(name, tables[0].chips, batch, problem, drafts=drafts)
