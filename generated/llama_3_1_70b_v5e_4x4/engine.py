# Rendered from plan.yaml (sha256 cf84d444). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The engine: slots that hold sequences, and the compiled steps that fill and advance them.

Every step is compiled ahead of time for the layouts of the plan, so nothing compiles once `warm_up` has returned.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .config import Config
from .generate import Slots, abstract_slots, lower_generate
from .kv_cache import checked_table, empty_cache, lower_insert, own_tables
from .prefill import lower_prefill
from .sampling import Sampling
from .weights import Weights

Finish = Literal["stop", "length"]
GREEDY = Sampling()


@dataclass(frozen=True)
class Token:
    """A token of a sequence; `finish` says why it is the last one. A token that finishes with "stop" is no text."""

    id: int
    finish: Finish | None


@dataclass(frozen=True)
class Prefilled:
    """A prompt that was read: its keys and values on the chips, and the first token after it."""

    first: int
    kv: jax.Array
    length: int
    sampling: Sampling


@dataclass
class _Running:
    """A sequence in a slot: the position of its next token, and how many tokens it may still add."""

    position: int
    remaining: int


def _set_slot(slots: Slots, slot: jax.Array, new: Slots) -> Slots:
    found: Slots = jax.tree.map(lambda array, value: array.at[slot].set(value.astype(array.dtype)), slots, new)
    return found


class Engine:
    """Prefill, insert and generate over the slots of one mesh."""

    def __init__(
        self,
        weights: Weights,
        config: Config,
        mesh: Mesh,
        end_ids: frozenset[int] = frozenset(),
        debug: bool = False,
    ) -> None:
        """An engine with all slots free; `end_ids` are the tokens that end a sequence.

        `debug`: after every step the slots on the chips are compared with what the engine knows of them.
        """
        self._weights = weights
        self.config, self.mesh, self.end_ids, self.debug = config, mesh, end_ids, debug
        self._whole = NamedSharding(mesh, P())
        self._cache = empty_cache(config, mesh)
        self._slots = jax.tree.map(partial(_zeros, sharding=self._whole), abstract_slots(config, mesh))
        self._tables = own_tables(config)
        self._slots = replace(self._slots, tables=self._put(self._tables)[0])
        self._sequences: dict[int, _Running] = {}
        self._programs: dict[tuple[str, int], Any] = {}

    @property
    def free_slots(self) -> list[int]:
        """Slots that hold no sequence, lowest first."""
        return [slot for slot in range(self.config.batch) if slot not in self._sequences]

    def warm_up(self, buckets: Sequence[int] | None = None) -> None:
        """Compile all steps, for prompts of all `buckets` or of those given."""
        for bucket in buckets or self.config.buckets:
            self._program("prefill", bucket)
            self._program("insert", bucket)
        self._program("generate")
        self._program("set_slot")

    def prefill(self, tokens: Sequence[int], sampling: Sampling = GREEDY) -> Prefilled:
        """Read a prompt; ValueError when it is empty or too long."""
        bucket = self.config.bucket(len(tokens))
        choice = jax.tree.map(lambda value: value[None], _scalars(sampling))
        ids, length = np.zeros(bucket, np.int32), np.array([len(tokens)], np.int32)
        ids[: len(tokens)] = tokens
        first, kv = self._program("prefill", bucket)(self._weights, *self._put(ids, length, choice))
        return Prefilled(int(np.asarray(first)[0]), kv, len(tokens), sampling)

    def insert(
        self, prefilled: Prefilled, slot: int, max_tokens: int | None = None, pages: Sequence[int] | None = None
    ) -> None:
        """Give a free slot a sequence that was read; it may have `max_tokens` tokens, the first included.

        The slot takes the `pages` of these ids, or else the pages of its own.
        """
        if slot in self._sequences or not 0 <= slot < self.config.batch:
            raise ValueError(f"slot {slot} is not free")
        others = [self._tables[other] for other in self._sequences]
        given = own_tables(self.config)[slot] if pages is None else pages
        table = self._tables[slot] = checked_table(self.config, self.mesh, slot, given, others)
        length = prefilled.length
        where = self._put(np.int32(0), table, np.int32(length))
        self._cache = self._program("insert", prefilled.kv.shape[1])(self._cache, prefilled.kv, *where)
        self._set(slot, prefilled.first, length, live=True, sampling=prefilled.sampling)
        room = self.config.context - length
        self._sequences[slot] = _Running(length + 1, min(room, max_tokens or room) - 1)

    def generate(self) -> dict[int, Token]:
        """Slot -> its next token, for every slot in use; a slot whose sequence finishes becomes free."""
        self._cache, self._slots = self._program("generate")(self._weights, self._cache, self._slots)
        ids = np.asarray(self._slots.tokens)
        made = {slot: self._advance(slot, int(ids[slot])) for slot in self._sequences}
        if self.debug:
            self._check_slots()
        for slot, token in made.items():
            if token.finish:
                self.release(slot)
        return made

    def release(self, slot: int) -> None:
        """Free a slot, whatever it holds."""
        if self._sequences.pop(slot, None):
            self._set(slot, 0, 0, live=False, sampling=GREEDY)

    def stream(
        self, tokens: Sequence[int], max_tokens: int | None = None, sampling: Sampling = GREEDY
    ) -> Iterator[Token]:
        """The tokens that follow a prompt, one by one as they are made."""
        if not self.free_slots:
            raise ValueError(f"all {self.config.batch} slots are in use")
        prefilled = self.prefill(tokens, sampling)
        if prefilled.first in self.end_ids or max_tokens == 1 or prefilled.length + 1 == self.config.context:
            yield Token(prefilled.first, "stop" if prefilled.first in self.end_ids else "length")
            return
        slot = self.free_slots[0]
        self.insert(prefilled, slot, max_tokens)
        try:
            yield Token(prefilled.first, None)
            while slot in self._sequences:
                yield self.generate()[slot]
        finally:
            self.release(slot)

    def _advance(self, slot: int, token: int) -> Token:
        sequence = self._sequences[slot]
        sequence.position += 1
        sequence.remaining -= 1
        if token in self.end_ids:
            return Token(token, "stop")
        return Token(token, None if sequence.remaining else "length")

    def _check_slots(self) -> None:
        """RuntimeError where the chips' slots are not what the engine knows of them."""
        found: Slots = jax.tree.map(np.asarray, self._slots)
        for slot in range(self.config.batch):
            running = self._sequences.get(slot)
            if bool(found.live[slot]) != (running is not None):
                raise RuntimeError(f"slot {slot} is {'in use' if found.live[slot] else 'free'} on the chips only")
            if not np.array_equal(found.tables[slot], self._tables[slot]):
                raise RuntimeError(f"slot {slot} has other pages on the chips: {found.tables[slot].tolist()}")
            position, token = int(found.positions[slot]), int(found.tokens[slot])
            if running and not position == running.position - 1 < self.config.context:
                raise RuntimeError(f"slot {slot} is at {position} on the chips, not at {running.position - 1}")
            if running and not 0 <= token < self.config.vocab:
                raise RuntimeError(f"slot {slot} has chosen {token}, which is no token")

    def _set(self, slot: int, token: int, position: int, live: bool, sampling: Sampling) -> None:
        table = self._tables[slot]
        new = Slots(np.int32(token), np.int32(position), np.bool_(live), _scalars(sampling), table)
        self._slots = self._program("set_slot")(self._slots, *self._put(np.int32(slot), new))

    def _put(self, *values: Any) -> Any:
        """The values, on every chip."""
        return jax.device_put(values, self._whole)

    def _program(self, step: str, bucket: int = 0) -> Any:
        if (step, bucket) not in self._programs:
            size = f" for {bucket} tokens" if bucket else ""
            print(f"compiling {step}{size}", file=sys.stderr, flush=True)
            self._programs[step, bucket] = self._lower(step, bucket).compile()
        return self._programs[step, bucket]

    def _lower(self, step: str, bucket: int) -> Any:
        if step == "prefill":
            return lower_prefill(self.config, self.mesh, bucket)
        if step == "insert":
            return lower_insert(self.config, self.mesh, bucket)
        if step == "generate":
            return lower_generate(self.config, self.mesh)
        scalar = jax.ShapeDtypeStruct((), np.int32, sharding=self._whole)
        new = jax.tree.map(self._of_one, abstract_slots(self.config, self.mesh))
        return jax.jit(_set_slot, out_shardings=self._whole).lower(self._slots, scalar, new)

    def _of_one(self, of_all: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(of_all.shape[1:], of_all.dtype, sharding=self._whole)


def _zeros(array: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    return jax.device_put(np.zeros(array.shape, array.dtype), sharding)


def _scalars(sampling: Sampling) -> Sampling:
    return Sampling(
        np.float32(sampling.temperature), np.int32(sampling.top_k), np.float32(sampling.top_p), np.uint32(sampling.seed)
    )
