"""The options of one block on one mesh, as pairs of a generate side and a prefill side that agree on stored weights.

Both sides are few, the pairs are many: prices are computed by side, and only arrays of indices are as long as pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from planner.problem.options import Mode, Option, Role, Stream, mode_tuples, role_tuples, stored_as, stream
from planner.problem.problem import Ints

Roles = tuple[Role, ...]
Key = tuple[Roles, tuple[Mode, ...]]
"""A prefill side: how weights are stored, as prefill sees it, and the mode of each axis."""

STREAMS: tuple[Stream, ...] = ("whole", "d_model", "batch")


def residuals(axes: int) -> int:
    """Layouts of the residual stream on a mesh of `axes` axes: three in generate and two in prefill for each."""
    return int(6**axes)


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
        return Option(self.roles[self.role_of[index]], self.keys[self.key_of[index]][1])

    @cached_property
    def residual(self) -> Ints:
        """The index of the residual layout that each option needs."""
        if not len(self):
            return self.role_of
        generate = [code((STREAMS.index(stream(role)) for role in roles), 3) for roles in self.roles]
        prefill = [code((mode is not Mode.SAME for mode in modes), 2) for _, modes in self.keys]
        found: Ints = np.array(generate)[self.role_of] * 2 ** len(self.roles[0]) + np.array(prefill)[self.key_of]
        return found


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
    """The options on mesh axes of these sizes whose two sides are both kept, ordered by generate side."""
    by_stored: dict[Roles, list[int]] = {}
    keys: list[Key] = []
    kept: list[Roles] = []
    role_of, key_of = [], []
    for roles in role_tuples(sizes, allowed_roles):
        if not keeps_roles(roles):
            continue
        stored = tuple(map(stored_as, roles))
        if stored not in by_stored:
            found = [key for modes in mode_tuples(sizes, stored) if keeps_key(key := (stored, modes))]
            by_stored[stored] = list(range(len(keys), len(keys) + len(found)))
            keys += found
        sides = by_stored[stored]
        if sides:
            role_of += [len(kept)] * len(sides)
            key_of += sides
            kept.append(roles)
    return Space(tuple(kept), tuple(keys), np.array(role_of, dtype=np.int64), np.array(key_of, dtype=np.int64))
