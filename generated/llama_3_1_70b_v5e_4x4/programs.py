# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The compiled steps, and the arrays on the chips that they advance: weights, the KV cache, the slots.

Every step is compiled ahead of time for the layouts of the plan, so nothing compiles once `warm_up` has returned. What
is called here is carried out in order and not waited for.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from . import kv_cache
from .config import Config
from .generate import Slots, abstract_slots, empty_slots, lower_generate
from .prefill import CHOICE_LAYOUT, Choice, lower_prefill
from .sampling import DTYPES, FORBIDDEN, Chosen, Sampling, is_plain, mark
from .weights import Weights

GREEDY = Sampling()


@dataclass
class Reading:
    """Prompts that are read together, and what came of them so far."""

    bucket: int
    ids: np.ndarray  # [prompts, tokens]
    lengths: np.ndarray  # [prompts]
    choice: Choice
    samplings: list[Sampling]  # of the prompts, and their marks, as the slots take them
    marks: list[np.ndarray]
    kv: Any = None
    ends: dict[int, tuple[Chosen, int]] = field(default_factory=dict)  # prompt -> (what was chosen after it, row)


class Programs:
    """Steps by name, and what they work on."""

    def __init__(self, weights: Weights, config: Config, mesh: Mesh) -> None:
        """The steps of `config` with all slots free; nothing is compiled yet."""
        self._weights = weights
        self.config, self.mesh = config, mesh
        self._whole = NamedSharding(mesh, P())
        self._read_whole = self._whole
        self._cache, self._slots = kv_cache.empty_cache(config, mesh), empty_slots(config, mesh)
        self._special: set[int] = set()  # slots that need marks or log probabilities
        self._programs: dict[tuple[str, int], Any] = {}

    def warm_up(self, buckets: Sequence[int] | None = None) -> None:
        """Compile what one sequence after the other needs, for prompts of all `buckets` or of those given."""
        for bucket in buckets or self.config.buckets:
            for step in ("prefill", "insert"):
                self._program(step, bucket)
        for step in ("generate", "generate_special", "set_slot", "free_slot"):
            self._program(step)

    def warm_up_to_serve(self, steps: int) -> None:
        """Compile everything that a runner calls, `steps` at a time."""
        self.warm_up()
        for step in ("pick", "set_table", "steer"):
            self._program(step)
        if steps > 1:
            self._program("generate", steps)
            self._program("generate_special", steps)

    def begin(
        self,
        prompts: Sequence[Sequence[int]],
        samplings: Sequence[Sampling],
        made: Sequence[int] = (),
        forbidden: Sequence[np.ndarray | None] = (),
        least_bucket: int = 0,
    ) -> Reading:
        """A reading of up to `config.prompts` prompts; ValueError when one is empty or too long.

        The last `made` tokens of a prompt are such as its sequence has chosen before; it may not choose the tokens of
        `forbidden`, bool[vocab_stored], next.
        """
        bucket = max(least_bucket, *(self.config.bucket(len(tokens)) for tokens in prompts))
        ids = np.zeros((self.config.prompts, bucket), np.int32)
        lengths = np.ones(self.config.prompts, np.int32)  # of a prompt that is missing, the token 0
        marks = [np.zeros(self.config.vocab_stored, np.int16)] * self.config.prompts
        for nth, tokens in enumerate(prompts):
            ids[nth, : len(tokens)], lengths[nth] = tokens, len(tokens)
            read, not_next = len(tokens) - (made[nth] if made else 0), forbidden[nth] if forbidden else None
            marks[nth] = mark(self.config.vocab_stored, tokens[:read], tokens[read:], not_next)
        asked = [*samplings, *[GREEDY] * (self.config.prompts - len(prompts))]
        return Reading(bucket, ids, lengths, self._choice(asked, marks), asked, marks)

    def read_whole(self, readings: Sequence[Reading]) -> None:
        """Read all tokens of readings."""
        for reading in readings:
            told = self._put_read(reading.ids.reshape(-1), reading.lengths)
            chosen, reading.kv = self._program("prefill", reading.bucket)(self._weights, *told, reading.choice)
            reading.ends = {nth: (chosen, nth) for nth in range(self.config.prompts)}

    def first_token(self, reading: Reading, nth: int) -> jax.Array:
        """The token after the nth prompt, int32[] on all chips that generate."""
        chosen, row = reading.ends[nth]
        return self._program("pick")(chosen.tokens, *self._put_read(np.int32(row)))

    def write(self, reading: Reading, nth: int, table: np.ndarray, begin: int = 0) -> None:
        """Put the nth prompt's keys and values into the pages of `table`, those from position `begin` on."""
        span = np.int32(begin), reading.lengths[nth]
        kv, where = reading.kv, self._put(np.int32(nth), table, *span)
        self._cache = self._program("insert", reading.bucket)(self._cache, kv, *where)

    def start(self, slot: int, reading: Reading, nth: int, token: Any, table: np.ndarray) -> None:
        """Let a slot go on behind the nth prompt with `token`."""
        state = reading.lengths[nth], np.True_, _scalars(reading.samplings[nth]), table, reading.marks[nth]
        new = jax.device_put(Slots(token, *state), self._of_one(lambda array: array.sharding))
        self._slots = self._program("set_slot")(self._slots, *self._put(np.int32(slot)), new)
        if not is_plain(reading.samplings[nth]):
            self._special.add(slot)

    def step(self, steps: int = 0) -> Chosen:
        """What every slot chooses next; in each of so many steps, [steps, slots, ...], where there are several."""
        run = self._program("generate_special" if self._special else "generate", steps)
        self._cache, self._slots, chosen = run(self._weights, self._cache, self._slots)
        made: Chosen = chosen
        return made

    def set_table(self, slot: int, table: np.ndarray) -> None:
        """Give a slot other pages."""
        self._slots = self._program("set_table")(self._slots, *self._put(np.int32(slot), table))

    def steer(self, slot: int, forbidden: np.ndarray) -> None:
        """Tell which tokens, bool[vocab_stored], a slot may not choose next."""
        place = self._of_one(lambda array: array.sharding).marks
        told = jax.device_put(forbidden, place)
        self._slots = self._program("steer")(self._slots, *self._put(np.int32(slot)), told)

    def free(self, slot: int) -> None:
        """Let a slot rest."""
        self._slots = self._program("free_slot")(self._slots, *self._put(np.int32(slot)))
        self._special.discard(slot)

    def _choice(self, samplings: Sequence[Sampling], marks: Sequence[np.ndarray]) -> Choice:
        choice = Choice(jax.tree.map(lambda *values: np.stack(values), *map(_scalars, samplings)), np.stack(marks))
        places = (NamedSharding(self.mesh, each) for each in (CHOICE_LAYOUT.sampling, CHOICE_LAYOUT.marks))
        made: Choice = jax.device_put(choice, Choice(*places))
        return made

    def _put(self, *values: Any) -> Any:
        """The values, on every chip that generates."""
        return jax.device_put(values, self._whole)

    def _put_read(self, *values: Any) -> Any:
        """The values, on every chip that reads prompts."""
        return jax.device_put(values, self._read_whole)

    def _program(self, step: str, bucket: int = 0) -> Any:
        if (step, bucket) not in self._programs:
            size = f" for {bucket} {'steps' if 'generate' in step else 'tokens'}" if bucket else ""
            print(f"compiling {step}{size}", file=sys.stderr, flush=True)
            self._programs[step, bucket] = self._lower(step, bucket).compile()
        return self._programs[step, bucket]

    def _lower(self, step: str, bucket: int) -> Any:
        config, mesh = self.config, self.mesh
        lowered: dict[str, Callable[[], Any]] = {
            "prefill": lambda: lower_prefill(config, self.mesh, bucket),
            "insert": lambda: kv_cache.lower_insert(config, mesh, bucket),
            "generate": lambda: lower_generate(config, mesh, bucket),
            "generate_special": lambda: lower_generate(config, mesh, bucket, special=True),
            "pick": self._lower_pick,
            "set_slot": lambda: self._lower_slots(_set_slot, self._of_one(lambda array: array)),
            "free_slot": lambda: self._lower_slots(_free_slot),
            "set_table": lambda: self._lower_slots(_set_table, self._of_one(lambda array: array).tables),
            "steer": lambda: self._lower_slots(_steer, self._of_one(lambda array: array.update(dtype=bool)).marks),
        }
        return lowered[step]()

    def _lower_slots(self, change: Callable[..., Slots], *new: Any) -> Any:
        """The lowered step (slots, a slot, what is new of it) -> slots, which are donated."""
        slots, slot = abstract_slots(self.config, self.mesh), jax.ShapeDtypeStruct((), np.int32, sharding=self._whole)
        held = jax.tree.map(lambda array: array.sharding, slots)
        return jax.jit(change, donate_argnums=0, out_shardings=held).lower(slots, slot, *new)

    def _lower_pick(self) -> Any:
        tokens = jax.ShapeDtypeStruct((self.config.prompts,), np.int32, sharding=self._read_whole)
        row = jax.ShapeDtypeStruct((), np.int32, sharding=self._read_whole)
        return jax.jit(lambda tokens, row: tokens[row], out_shardings=self._read_whole).lower(tokens, row)

    def _of_one(self, what: Callable[[jax.ShapeDtypeStruct], Any]) -> Any:
        """`what` of each array of a single slot's state."""

        def of_one(array: jax.ShapeDtypeStruct) -> Any:
            sharding = NamedSharding(self.mesh, P(*array.sharding.spec[1:]))
            return what(jax.ShapeDtypeStruct(array.shape[1:], array.dtype, sharding=sharding))

        return jax.tree.map(of_one, abstract_slots(self.config, self.mesh))


def _set_slot(slots: Slots, slot: jax.Array, new: Slots) -> Slots:
    found: Slots = jax.tree.map(lambda array, value: array.at[slot].set(value.astype(array.dtype)), slots, new)
    return found


def _free_slot(slots: Slots, slot: jax.Array) -> Slots:
    sampling = jax.tree.map(lambda array, value: array.at[slot].set(value), slots.sampling, GREEDY)
    return replace(slots, live=slots.live.at[slot].set(False), sampling=sampling)


def _set_table(slots: Slots, slot: jax.Array, table: jax.Array) -> Slots:
    return replace(slots, tables=slots.tables.at[slot].set(table))


def _steer(slots: Slots, slot: jax.Array, forbidden: jax.Array) -> Slots:
    marks = slots.marks[slot] & ~FORBIDDEN | jnp.where(forbidden, FORBIDDEN, 0).astype(slots.marks.dtype)
    return replace(slots, marks=slots.marks.at[slot].set(marks))


def _scalars(sampling: Sampling) -> Sampling:
    found: Sampling = jax.tree.map(lambda dtype, value: np.asarray(value, dtype), DTYPES, sampling)
    return found
