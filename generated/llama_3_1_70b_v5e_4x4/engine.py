# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The engine: slots that hold sequences, one call after the other; what serves many clients is the scheduler."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from .config import Config
from .generate import Slots
from .kv_cache import checked_table, own_tables
from .programs import GREEDY, Programs, Reading
from .sampling import Chosen, Sampling
from .weights import Weights

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Token:
    """A token of a sequence; `finish` says why it is the last one. A token that finishes with "stop" is no text."""

    id: int
    finish: Finish | None


@dataclass(frozen=True)
class Prefilled:
    """A prompt that was read, the `nth` of a reading, and what was chosen after it."""

    chosen: Chosen
    reading: Reading
    nth: int

    @property
    def first(self) -> int:
        """The first token after the prompt."""
        return int(self.chosen.tokens)

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return int(self.reading.lengths[self.nth])

    @property
    def kv(self) -> Any:
        """The keys and values of all prompts of the reading."""
        return self.reading.kv


@dataclass
class _Running:
    """A sequence in a slot: the position of its next token, and how many tokens it may still add."""

    position: int
    remaining: int


class Engine(Programs):
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
        super().__init__(weights, config, mesh)
        self.end_ids, self.debug = end_ids, debug
        self._tables = own_tables(config)
        self._sequences: dict[int, _Running] = {}

    @property
    def free_slots(self) -> list[int]:
        """Slots that hold no sequence, lowest first."""
        return [slot for slot in range(self.config.batch) if slot not in self._sequences]

    def prefill(self, tokens: Sequence[int], sampling: Sampling = GREEDY) -> Prefilled:
        """Read a prompt; ValueError when it is empty or too long."""
        reading = self.begin([tokens], [sampling])
        self.read_whole([reading])
        return _prefilled(reading, 0)

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
        self.write(prefilled.reading, prefilled.nth, table)
        self.start(slot, prefilled.reading, prefilled.nth, np.int32(prefilled.first), table)
        room = self.config.context - prefilled.length
        self._sequences[slot] = _Running(prefilled.length + 1, min(room, max_tokens or room) - 1)

    def generate(self) -> dict[int, Token]:
        """Slot -> its next token, for every slot in use; a slot whose sequence finishes becomes free."""
        ids = np.asarray(self.step().tokens)
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
            self.free(slot)

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
        found: Slots = jax.tree.map(np.asarray, replace(self._slots, marks=None))
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


def _prefilled(reading: Reading, nth: int) -> Prefilled:
    chosen, row = reading.ends[nth]
    return Prefilled(jax.tree.map(lambda array: np.asarray(array)[row], chosen), reading, nth)
