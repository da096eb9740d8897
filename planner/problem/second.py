"""Options in which prefill reads a second copy of a block's weights: only those that no other option makes needless.

A copy ties the two sides of an option together in the residual stream and, of attention, in the KV heads: a chip must
make the keys and values that it will keep, so prefill may cut KV heads over no axis but those of generate. Otherwise
any generate side g goes with any prefill side p that is stored another way, at the prices

    prefill(p),  generate(g),  kept(g) + held(p) + copy(p),  and, near an earlier plan, change(g) + change(p).

The prices are sums over the sides. So if p' has the same residual layout, cuts KV heads over no further axis, and is no
worse than p in each of its own prices, then (g, p') is legal wherever (g, p) is and no worse in any price; and where p'
happens to be stored as g is, (g, p') needs no copy at all, which is better still. By the same argument (g, p) is not
needed where a side that is stored as g is, without the copy, is no worse than p with it. What is left is exact: no
optimum of a goal that grows with the prices is lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.problem.options import VOCAB_CUTS, Mode, Role, mode_tuples, role_tuples, stored_as
from planner.problem.problem import Bools, Ints
from planner.problem.spaces import Key, Roles, Space, code, stored_by


@dataclass(frozen=True)
class Sides:
    """The prices of the prefill sides of a space, [sides, prices]: without a copy, and with one. `apart`: sides that
    differ in it do not stand for each other."""

    own: Ints
    copied: Ints
    apart: Ints


def with_every_key(
    space: Space,
    sizes: tuple[int, ...],
    allowed_roles: tuple[Role, ...],
    keeps_stored: Callable[[Roles], bool],
    keeps_key: Callable[[Key], bool],
) -> Space:
    """A space with every other prefill side that a copy could be read by, in no option yet."""
    known = {stored for stored, _ in space.keys}
    more = [
        key
        for stored in role_tuples(sizes, tuple(dict.fromkeys(map(stored_as, allowed_roles))))
        if stored not in known and keeps_stored(stored)
        for modes in mode_tuples(sizes, stored)
        if keeps_key(key := (stored, modes))
    ]
    return Space(space.roles, (*space.keys, *more), space.role_of, space.key_of)


@dataclass(frozen=True)
class Pairs:
    """A space with every prefill side, and which generate sides may go with which by way of a copy."""

    space: Space

    @cached_property
    def layouts(self) -> tuple[Roles, ...]:
        """The ways in which generate sides store weights."""
        return tuple(dict.fromkeys(map(stored_by, self.space.roles)))

    @cached_property
    def number(self) -> dict[Roles, int]:
        """The place of each of them."""
        return {stored: at for at, stored in enumerate(self.layouts)}

    @cached_property
    def of_role(self) -> Ints:
        """The layout of each generate side."""
        return np.array([self.number[stored_by(roles)] for roles in self.space.roles], dtype=np.int64)

    @cached_property
    def of_key(self) -> Ints:
        """The layout of each prefill side; -1 where no generate side has it."""
        return np.array([self.number.get(stored, -1) for stored, _ in self.space.keys], dtype=np.int64)

    @cached_property
    def heads(self) -> Ints:
        """The axes over which each prefill side cuts KV heads, as bits."""
        return np.array([code(map(cuts_heads, *key), 2) for key in self.space.keys], dtype=np.int64)

    @cached_property
    def group(self) -> Ints:
        """The residual layout of each prefill side, and the axes that cut the vocabulary, whose weights are not copied:
        in both a side must be like another to stand for it."""
        vocab = [vocab_cut(stored) for stored, _ in self.space.keys]
        found: Ints = self.space.prefill_residual * 2 ** len(self.space.keys[0][0]) + np.array(vocab, dtype=np.int64)
        return found

    @cached_property
    def allowed(self) -> Bools:
        """[layouts, prefill sides]: whether a generate side so stored may go with a prefill side over a copy."""
        heads = [code(map(cuts_heads, each), 2) for each in self.layouts]
        vocab = [vocab_cut(each) for each in self.layouts]
        read_vocab = np.array([vocab_cut(stored) for stored, _ in self.space.keys], dtype=np.int64)
        within = (self.heads & ~np.array(heads, dtype=np.int64)[:, None]) == 0
        same: Bools = np.arange(len(self.layouts))[:, None] == self.of_key
        found: Bools = within & (read_vocab == np.array(vocab, dtype=np.int64)[:, None]) & ~same
        return found

    def with_copies(self, sides: Sides) -> Space:
        """The space with every option over a copy that no other makes needless, after those that store weights once."""
        group = numbered(self.group, sides.apart)
        front = np.flatnonzero(undominated(group, self.heads, sides.copied))
        copies = self.paired(front, self.allowed[:, front] & ~self.needless(front, group, sides))
        space = self.space
        return replace(
            space,
            role_of=np.concatenate([space.role_of, copies.role_of]),
            key_of=np.concatenate([space.key_of, copies.key_of]),
        )

    def copies_alone(self, sides: Sides) -> Space:
        """The space of options over a copy alone. None of them stands for one whose copy is stored another way, since
        it might be stored as some generate side is."""
        stored = {each: at for at, each in enumerate(dict.fromkeys(stored for stored, _ in self.space.keys))}
        of_copy = np.array([stored[each] for each, _ in self.space.keys], dtype=np.int64)
        front = np.flatnonzero(undominated(numbered(self.group, sides.apart, of_copy), self.heads, sides.copied))
        return self.paired(front, self.allowed[:, front])

    def paired(self, front: Ints, wanted: Bools) -> Space:
        """The space of the options over some prefill sides: [layouts, front] whether they are wanted."""
        role_of, found = np.nonzero(wanted[self.of_role])
        return replace(self.space, role_of=role_of, key_of=front[found])

    def needless(self, front: Ints, group: Ints, sides: Sides) -> Bools:
        """[layouts, front]: whether a prefill side over weights that are stored once is no worse than a copy."""
        found = np.zeros((len(self.layouts), len(front)), dtype=np.bool_)
        own = np.flatnonzero(self.of_key >= 0)
        if not len(own):
            return found
        beaten = group[own][:, None] == group[front]
        for price in range(sides.own.shape[1]):
            beaten &= sides.own[own, price][:, None] <= sides.copied[front, price]
        layouts = self.of_key[own]
        starts = np.flatnonzero(np.diff(layouts, prepend=-1))
        found[layouts[starts]] = np.logical_or.reduceat(beaten, starts, axis=0)
        return found


def numbered(*parts: Ints) -> Ints:
    """A number for each combination of parts."""
    _, found = np.unique(np.stack(parts), axis=1, return_inverse=True)
    return np.asarray(found, dtype=np.int64).reshape(-1)


def cuts_heads(stored: Role, mode: Mode = Mode.SAME) -> bool:
    """Whether an axis that stores weights so cuts KV heads where the block computes."""
    return stored is Role.KV_HEADS and mode is not Mode.GATHERED


def vocab_cut(stored: Roles) -> int:
    """The axes that cut the vocabulary, as bits."""
    return code((role in VOCAB_CUTS for role in stored), 2)


def undominated(group: Ints, heads: Ints, prices: Ints) -> Bools:
    """The sides that no other of their group matches or beats in every price, cutting KV heads over no further axis;
    of equal ones the first."""
    _, distinct = np.unique(np.column_stack([group, heads, prices]), axis=0, return_index=True)
    kept = np.zeros(len(group), dtype=np.bool_)
    kept[distinct] = True
    distinct.sort()
    order = distinct[np.argsort(group[distinct], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(rows) > 1:
            better = (heads[rows][:, None] & ~heads[rows]) == 0
            for price in prices[rows].T:
                better &= price[:, None] <= price
            np.fill_diagonal(better, False)
            kept[rows] = ~better.any(axis=0)
    return kept
