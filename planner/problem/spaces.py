"""The options of one block on one mesh, as pairs of a generate side and a prefill side.

The sides agree on how weights are stored, or prefill reads a second copy (`second.py`). Both sides are few, the pairs
are many: prices are computed by side, and only arrays of indices are as long as pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from planner.problem.options import (
    Mode,
    Option,
    PrefillStream,
    Role,
    Stream,
    mode_tuples,
    prefill_stream,
    role_tuples,
    stored_as,
    stream,
)
from planner.problem.problem import Bools, Ints

Roles = tuple[Role, ...]
Key = tuple[Roles, tuple[Mode, ...]]
"""A prefill side: how the weights that it reads are stored, as prefill sees it, and the mode of each axis."""

STREAMS: tuple[Stream, ...] = ("whole", "d_model", "batch")
PREFILL_STREAMS: tuple[PrefillStream, ...] = ("whole", "d_model", "tokens")


def residuals(axes: int) -> int:
    """Layouts of the residual stream on a mesh of `axes` axes: three in generate and three in prefill for each."""
    return int(9**axes)


@dataclass(frozen=True)
class Space(Sequence[Option]):
    """The legal options of a block; option i has the generate side `role_of[i]` and the prefill side `key_of[i]`."""

    roles: tuple[Roles, ...]
    keys: tuple[Key, ...]
    role_of: Ints
    key_of: Ints

    def __len__(self) -> int:
        return len(self.role_of)

    @overload
    def __getitem__(self, index: int) -> Option: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Option]: ...
    def __getitem__(self, index: int | slice) -> Option | Sequence[Option]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        roles, (read, modes) = self.roles[self.role_of[index]], self.keys[self.key_of[index]]
        return Option(roles, modes, None if read == stored_by(roles) else read)

    @cached_property
    def residual(self) -> Ints:
        """The index of the residual layout that each option needs."""
        if not len(self):
            return self.role_of
        generate = [code((STREAMS.index(stream(role)) for role in roles), 3) for roles in self.roles]
        found: Ints = np.array(generate)[self.role_of] * 3 ** len(self.roles[0]) + self.prefill_residual[self.key_of]
        return found

    @cached_property
    def copied(self) -> Bools:
        """Whether prefill reads other weights than generate in each option."""
        number: dict[Roles, int] = {}
        stored = [number.setdefault(stored_by(roles), len(number)) for roles in self.roles]
        read = [number.setdefault(each, len(number)) for each, _ in self.keys]
        found: Bools = np.array(stored, dtype=np.int64)[self.role_of] != np.array(read, dtype=np.int64)[self.key_of]
        return found

    @cached_property
    def prefill_residual(self) -> Ints:
        """The part of prefill, for each prefill side."""
        return np.array([prefill_code(key) for key in self.keys], dtype=np.int64)


def stored_by(roles: Roles) -> Roles:
    """How the weights of a generate side are stored, as prefill sees it."""
    return tuple(map(stored_as, roles))


def prefill_code(key: Key) -> int:
    """The residual layout that a prefill side needs, as a number."""
    return code((PREFILL_STREAMS.index(prefill_stream(role, mode)) for role, mode in zip(*key, strict=True)), 3)


def code(digits: Iterable[int], base: int) -> int:
    """Digits as one number."""
    found = 0
    for digit in digits:
        found = base * found + int(digit)
    return found


def space_of(
    sizes: tuple[int, ...],
    allowed_roles: tuple[Role, ...],
    keeps_roles: Callable[[Roles], bool],
    keeps_key: Callable[[Key], bool],
) -> Space:
    """The options that store weights once, on mesh axes of these sizes, whose two sides are both kept, ordered by
    generate side. A generate side without options is still there: prefill may read a copy."""
    by_stored: dict[Roles, list[int]] = {}
    keys: list[Key] = []
    kept: list[Roles] = []
    role_of, key_of = [], []
    for roles in role_tuples(sizes, allowed_roles):
        if not keeps_roles(roles):
            continue
        stored = stored_by(roles)
        if stored not in by_stored:
            found = [key for modes in mode_tuples(sizes, stored) if keeps_key(key := (stored, modes))]
            by_stored[stored] = list(range(len(keys), len(keys) + len(found)))
            keys += found
        sides = by_stored[stored]
        role_of += [len(kept)] * len(sides)
        key_of += sides
        kept.append(roles)
    return Space(tuple(kept), tuple(keys), np.array(role_of, dtype=np.int64), np.array(key_of, dtype=np.int64))
