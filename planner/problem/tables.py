"""Block tables of one mesh: every legal option of each block, priced when the solver asks.

Of the options over second copies of weights only those are there that no other option makes needless (`second.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import ceil, gcd
from typing import NamedTuple

import numpy as np

from cost_models.lengths import Lognormal, Reading, reading
from planner.problem import costs, hbm
from planner.problem.chunks import steps_of
from planner.problem.costs import seconds_of
from planner.problem.drafts import Drafts, rows_of, tokens_per_step
from planner.problem.floors import Floors
from planner.problem.legal import (
    divides,
    legal_batch,
    legal_d_ff,
    legal_d_model,
    legal_expert_ff,
    legal_experts,
    legal_heads,
)
from planner.problem.machine import Machine
from planner.problem.options import ROLES, RULES, STORED_AXES, Mode, Option, Role
from planner.problem.pins import Allowed
from planner.problem.planned import inserted
from planner.problem.problem import NS, UNIT_BYTES, Block, Column, Ints, MeshTable
from planner.problem.rules import Axes, GenerateRules, PrefillRules
from planner.problem.second import Pairs, Sides, with_every_key
from planner.problem.spaces import Key, Roles, Space, residuals, space_of


@dataclass(frozen=True)
class Load:
    """What a step is priced and sized for. Lengths are tokens."""

    batches: tuple[int, ...]
    prompts: tuple[int, ...]
    """Prompts that a prefill may read together."""
    prompt: int
    """Tokens of the bucket that holds the mean prompt."""
    buckets: tuple[int, ...]
    """Prompt lengths that prefill is compiled for, the shortest first."""
    lengths: Lognormal
    """How long prompts are."""
    mean_context: float
    max_context: int
    page_tokens: int
    chunks: tuple[int | None, ...] = (None,)
    """Tokens of each prompt that a step of prefill may read; None for whole prompts."""
    drafts: tuple[Drafts | None, ...] = (None,)
    """What a generate step may verify; None for plain steps."""

    @property
    def longest(self) -> int:
        """Tokens of the longest bucket: prefill memory is sized for it."""
        return self.buckets[-1]

    @property
    def smallest(self) -> int:
        """Tokens of the shortest bucket: tokens must cut it evenly."""
        return self.buckets[0]

    @cached_property
    def readings(self) -> tuple[tuple[int, int | None], ...]:
        """The prompts that a prefill may read together, and by what chunks."""
        return tuple(product(self.prompts, self.chunks))

    def even(self, chunk: int | None) -> int:
        """Tokens that token axes must divide: with them every bucket and every chunk is cut evenly."""
        return self.smallest if chunk is None else gcd(self.smallest, chunk)

    def reading(self, prompts: int) -> Reading:
        """What prefills of `prompts` together take, in times of the planned one."""
        return reading(self.lengths, self.buckets, self.prompt, prompts)


class Judged(NamedTuple):
    """What else than prices tells prefill sides apart: one is never left out for another with another `apart`, nor for
    one whose change against an earlier plan is greater, over weights that are stored once or over a copy."""

    apart: int = 0
    change: int = 0
    copied_change: int = 0


Judge = Callable[[Key], Judged]


class PrefillPrices(NamedTuple):
    """Nanoseconds, and units of 64 KiB that prefill holds and that a copy takes, for each prefill side."""

    ns: Ints
    held: Ints
    copy: Ints


@dataclass(frozen=True)
class Pricer:
    """The options of the blocks on one mesh, and their prices, for every number of prompts, chunk and drafts.

    Spaces and columns are kept by the name of their block and the tokens that token axes must divide.
    """

    machine: Machine
    load: Load
    allowed: Mapping[str, Allowed]
    _pairs: dict[tuple[str, int], Pairs] = field(default_factory=dict)
    _columns: dict[tuple[str, int, int, Drafts | None], Column] = field(default_factory=dict)
    _prices: dict[tuple[str, int, int | None], PrefillPrices] = field(default_factory=dict)
    _copies: dict[tuple[str, int], Ints] = field(default_factory=dict)
    _insertions: dict[tuple[Axes, int, int], float] = field(default_factory=dict)
    _rules: dict[tuple[str, Option], tuple[GenerateRules, PrefillRules]] = field(default_factory=dict)

    @cached_property
    def names(self) -> Axes:
        """The mesh axes' names."""
        return tuple(axis.name for axis in self.machine.mesh)

    @cached_property
    def axis_sizes(self) -> tuple[int, ...]:
        """The mesh axes' sizes."""
        return tuple(axis.size for axis in self.machine.mesh)

    @cached_property
    def floors(self) -> Floors:
        """The floors of the mesh."""
        return Floors(self.machine, self.load, copies=True)

    def tables(self) -> list[MeshTable]:
        """One table for every number of prompts read together, every chunk, with drafts and without."""
        return [self.table(*reading, drafts) for reading in self.load.readings for drafts in self.load.drafts]

    def table(self, prompts: int, chunk: int | None = None, drafts: Drafts | None = None) -> MeshTable:
        """The table of prefills that read `prompts` together, a `chunk` of each at a time, and steps with `drafts`."""
        machine = self.machine
        return MeshTable(
            str(machine.slice),
            machine.slice.chips,
            machine.mesh,
            prompts,
            residuals(len(machine.mesh)),
            lambda hbm: self.floors.of(prompts, hbm, chunk, drafts),
            lambda: tuple(self.block(name, prompts, chunk, drafts) for name in machine.sizes.blocks),
            self,
            chunk=chunk,
            steps=steps_of(self.load.prompt, chunk).number,
            drafts=drafts,
            tokens_per_step=tokens_per_step(drafts),
            reading=self.load.reading(prompts),
        )

    def block(
        self,
        name: str,
        prompts: int,
        chunk: int | None = None,
        drafts: Drafts | None = None,
        judge: Judge | None = None,
    ) -> Block:
        """One block with its prefill prices; those of generate wait for a batch."""
        space, prices = self.space(name, prompts, chunk, judge), self.prefill_prices(name, prompts, chunk)
        held = prices.held[space.key_of] + np.where(space.copied, prices.copy[space.key_of], 0)
        even = self.load.even(chunk)

        def column(at: int) -> Column:
            found, of = self.column(name, even, at, drafts), space.role_of
            return Column(found.generate_ns[of], found.hbm[of] + held, found.legal[of])

        return Block(name, space, space.residual, prices.ns[space.key_of], column)

    def space(self, name: str, prompts: int, chunk: int | None = None, judge: Judge | None = None) -> Space:
        """The legal options of a block that keep the pins."""
        pairs, copied = self.pairs(name, self.load.even(chunk)), self.copied(name)
        if copied is False or not (pairs.space.keys and pairs.space.roles):
            return pairs.space
        ns, held, copy = self.prefill_prices(name, prompts, chunk)
        judged = [judge(key) for key in pairs.space.keys] if judge else [Judged()] * len(ns)
        apart, change, copied_change = np.array(judged, dtype=np.int64).T
        own = np.stack([ns, held, change], axis=1)
        sides = Sides(own, np.stack([ns, held + copy, copied_change], axis=1), apart)
        return pairs.copies_alone(sides) if copied else pairs.with_copies(sides)

    def copied(self, name: str) -> bool | None:
        """Whether a block must store its weights twice, or must not; None where it may."""
        return self.allowed[name].copied

    def pairs(self, name: str, even: int) -> Pairs:
        """The options of a block that store weights once, and all its prefill sides, where token axes divide so many
        tokens."""
        if (name, even) not in self._pairs:
            space = space_of(
                self.axis_sizes,
                ROLES[name],
                lambda each: self.keeps_roles(name, each),
                lambda key: self.keeps_key(name, key, even),
            )
            if self.copied(name) is not False:
                space = with_every_key(
                    space,
                    self.axis_sizes,
                    ROLES[name],
                    lambda each: self.legal_stored(name, self.stored(name, as_read(each))),
                    lambda key: self.keeps_key(name, key, even),
                )
            self._pairs[name, even] = Pairs(space)
        return self._pairs[name, even]

    def prefill_prices(self, name: str, prompts: int, chunk: int | None) -> PrefillPrices:
        """The prices of every prefill side; that of the vocabulary does not ask what is stored, and needs no copy."""
        if (name, prompts, chunk) not in self._prices:
            even = self.load.even(chunk)
            pairs = [self.rules(name, Option(*key)) for key in self.pairs(name, even).space.keys]
            tables = [(GenerateRules() if name == "vocab" else stored, rules) for stored, rules in pairs]
            each_once = {pair: self.prefill(name, *pair, prompts, chunk) for pair in dict.fromkeys(tables)}
            priced = [each_once[pair] for pair in tables]
            ns, held = nanoseconds(each[0] for each in priced), units64(each[1] for each in priced)
            self._prices[name, prompts, chunk] = PrefillPrices(ns, held, self.copy_units(name, even))
        return self._prices[name, prompts, chunk]

    def copy_units(self, name: str, even: int) -> Ints:
        """Units of 64 KiB per chip of a second copy of a block's weights, for each prefill side; no matter how often
        prompts are priced, computed once."""
        if (name, even) not in self._copies:
            sizes, ways, keys = self.machine.sizes, self.machine.ways, self.pairs(name, even).space.keys
            found = {
                stored: hbm.block_weights_bytes(name, self.stored(name, stored), sizes, ways)
                if name in STORED_AXES
                else 0
                for stored in dict.fromkeys(stored for stored, _ in keys)
            }
            self._copies[name, even] = units64(found[stored] for stored, _ in keys)
        return self._copies[name, even]

    def keeps_roles(self, name: str, roles: Roles) -> bool:
        """Whether the generate side of an option is legal at some batch, and pinned so."""
        stored = self.stored(name, roles)
        legal = self.legal_stored(name, stored)
        legal = legal and any(legal_batch(stored, batch, self.machine) for batch in self.load.batches)
        return legal and self.allowed[name].generate(stored)

    def legal_stored(self, name: str, stored: GenerateRules) -> bool:
        """Whether the weights of a block may be stored by a table."""
        legal = legal_d_model(stored, self.machine)
        legal = legal and (name != "attention" or legal_heads(stored, self.machine))
        legal = legal and (name != "mlp" or legal_d_ff(stored, self.machine))
        legal = legal and (name != "experts" or legal_expert_ff(stored, self.machine))
        return legal and (name != "experts" or legal_experts(stored, self.machine))

    def keeps_key(self, name: str, key: Key, even: int) -> bool:
        """Whether the prefill side of an option is legal, and pinned so."""
        stored, rules = self.rules(name, Option(*key))
        return divides(even, rules, self.machine) and self.allowed[name].prefill(stored, rules)

    def stored(self, name: str, roles: Roles) -> GenerateRules:
        """The generate table of a role tuple."""
        return self.rules(name, Option(roles, (Mode.SAME,) * len(roles)))[0]

    def rules(self, name: str, option: Option) -> tuple[GenerateRules, PrefillRules]:
        """The tables of an option, made once."""
        if (name, option) not in self._rules:
            self._rules[name, option] = RULES[name](self.names, option)
        return self._rules[name, option]

    def column(self, name: str, even: int, at: int, drafts: Drafts | None) -> Column:
        """Prices of all generate sides of a block at a batch, without what prefill holds."""
        if (name, even, at, drafts) not in self._columns:
            space, batch = self.pairs(name, even).space, self.load.batches[at]
            rules = [self.stored(name, roles) for roles in space.roles]
            legal = np.array([legal_batch(each, batch, self.machine) for each in rules], dtype=np.bool_)
            priced = [
                self.generate(name, each, batch, drafts) if ok else (0.0, 0)
                for each, ok in zip(rules, legal, strict=True)
            ]
            ns, units = nanoseconds(each[0] for each in priced), units64(each[1] for each in priced)
            self._columns[name, even, at, drafts] = Column(ns, units, legal)
        return self._columns[name, even, at, drafts]

    def generate(self, name: str, rules: GenerateRules, batch: int, drafts: Drafts | None) -> tuple[float, int]:
        """Seconds of one step of a block, and the bytes per chip of its weights and what it keeps for the batch."""
        machine, load = self.machine, self.load
        sizes, ways = machine.sizes, machine.ways
        work = costs.generate_work(name, rules, batch, load.mean_context, machine, drafts)
        kept: int
        if name == "attention":
            kept = hbm.kv_cache_bytes(rules, batch, load.max_context, load.page_tokens, sizes, ways)
            kept += hbm.attention_weights_bytes(rules, sizes, ways)
        elif name == "mlp":
            kept = hbm.mlp_weights_bytes(rules, sizes, ways)
        elif name == "experts":
            kept = hbm.experts_weights_bytes(rules, sizes, ways)
        else:
            kept = hbm.vocab_weights_bytes(rules, sizes, ways)
            kept += hbm.logits_bytes(rules, batch * rows_of(drafts), sizes, ways)
        return seconds_of(work, machine), kept

    def prefill(
        self, name: str, stored: GenerateRules, rules: PrefillRules, prompts: int, chunk: int | None
    ) -> tuple[float, int]:
        """Seconds of the prefill of a block, all chunks together, and the bytes per chip that it holds meanwhile; with
        attention also the insertion of the prompts."""
        machine, load = self.machine, self.load
        sizes, ways, read, inserted_s = machine.sizes, machine.ways, (prompts, chunk), 0.0
        if name == "attention":
            inserted_s = self.insertion_s(stored, rules, prompts)
            work = costs.prefill_attention_work(stored, rules, load.prompt, machine, *read)
            held = hbm.prefill_attention_bytes(stored, rules, load.longest, sizes, ways, *read)
        elif name == "mlp":
            work = costs.prefill_mlp_work(stored, rules, load.prompt, machine, *read)
            held = hbm.prefill_mlp_bytes(stored, rules, load.longest, sizes, ways, *read)
        elif name == "experts":
            work = costs.prefill_experts_work(stored, rules, load.prompt, machine, *read)
            held = hbm.prefill_experts_bytes(stored, rules, load.longest, sizes, ways, *read)
        else:
            work = costs.prefill_vocab_work(rules, load.prompt, machine, *read)
            held = hbm.prefill_vocab_bytes(load.longest, sizes, *read)
        return seconds_of(work, machine) + inserted_s, held

    def insertion_s(self, stored: GenerateRules, rules: PrefillRules, prompts: int) -> float:
        """Seconds of the insertion of `prompts`; many options share one."""
        if prompts == 1:
            return 0.0
        key = *inserted(stored, rules, self.machine.program, prompts), prompts
        if key not in self._insertions:
            work = costs.insertion_work(stored, rules, self.load.prompt, self.machine, prompts)
            self._insertions[key] = seconds_of(work, self.machine)
        return self._insertions[key]


def as_read(stored: Roles) -> Roles:
    """Roles that store weights as these do, and that ask no more of them than prefill does: queries that are made on
    copies of KV heads may meet the cache elsewhere."""
    return tuple(Role.HEADS_BATCH if role is Role.COPIED_KV else role for role in stored)


def nanoseconds(seconds: Iterable[float]) -> Ints:
    """Whole nanoseconds, rounded up."""
    return np.array([ceil(each * NS) for each in seconds], dtype=np.int64)


def units64(sizes: Iterable[int]) -> Ints:
    """Whole units of 64 KiB, rounded up."""
    return np.array([-(-each // UNIT_BYTES) for each in sizes], dtype=np.int64)
