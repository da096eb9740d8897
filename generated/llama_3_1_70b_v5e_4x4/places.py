# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Slots and pages of sequences: where one fits, what it takes, and what it gives back."""

from .pages import Pages
from .prefix_cache import Node, PrefixCache
from .runner_protocol import Runner
from .sequence import Sequence, State

Place = tuple[int, list[Node]]  # a free slot, and the cached pages that a sequence begins with


class Places:
    """The slots of a runner, which sequences have them, and the pages of their groups."""

    def __init__(self, runner: Runner, host_pages: int, reuses_prefixes: bool) -> None:
        self.pages = Pages(runner.groups, runner.pages_per_group)
        self.cache = PrefixCache(self.pages, runner, runner.tokens_per_page, host_pages, reuses_prefixes)
        self.longest = min(runner.pages_per_slot, runner.pages_per_group) * runner.tokens_per_page
        self._page_tokens, self._pages_per_slot = runner.tokens_per_page, runner.pages_per_slot
        self._slots_per_group = runner.slots // runner.groups
        self._slots: list[Sequence | None] = [None] * runner.slots

    def sequences(self) -> list[Sequence]:
        """Those that have a slot, oldest first."""
        return sorted((sequence for sequence in self._slots if sequence), key=lambda each: each.arrival)

    def find(self, sequence: Sequence) -> Place | None:
        """A place in the group that has most of a waiting sequence's tokens cached, then most free pages; or None.

        One page is left for each sequence of the group that may grow.
        """
        found: list[tuple[int, int, Place]] = []
        for group in range(self.pages.groups):
            first = group * self._slots_per_group
            free = [slot for slot in range(first, first + self._slots_per_group) if self._slots[slot] is None]
            if not free:
                continue
            path = self.cache.match(group, sequence.tokens)
            growing = sum(not each.reserves for each in self._members(group))
            wanted = self._pages_at_start(sequence) + growing - sum(node.page is not None for node in path)
            if self.cache.can_take(group, wanted, path):
                found.append((len(path), self.pages.free(group), (free[0], path)))
        return max(found, key=lambda each: each[:2])[2] if found else None

    def give(self, sequence: Sequence, place: Place) -> None:
        """Give a waiting sequence the place that was found for it."""
        sequence.slot, path = place
        group = self._group(sequence)
        sequence.state, self._slots[sequence.slot] = State.READING, sequence
        sequence.pages = self.cache.acquire(group, path, len(sequence.tokens))
        sequence.pages += self.cache.take(group, self._pages_at_start(sequence) - len(path))
        sequence.cached = self.cached_tokens(place)

    def cached_tokens(self, place: Place) -> int:
        """Tokens that a sequence in this place need not read."""
        return len(place[1]) * self._page_tokens

    def holds(self, sequence: Sequence, tokens: int) -> bool:
        """Whether a sequence's pages are enough for so many tokens."""
        return len(sequence.pages) >= self._pages_of(tokens)

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence pages for so many tokens; False, and nothing, where its group has too few."""
        group, missing = self._group(sequence), self._pages_of(tokens) - len(sequence.pages)
        if not self.cache.can_take(group, missing):
            return False
        sequence.pages += self.cache.take(group, missing)
        return True

    def youngest_beside(self, sequence: Sequence) -> Sequence:
        """The last to arrive of those in the group that can be read again; it may be `sequence` itself."""
        members = self._members(self._group(sequence))
        return max((each for each in members if not each.reserves), key=lambda each: each.arrival)

    def keep(self, sequence: Sequence, tokens: int) -> None:
        """Let the prefix cache have the full pages of a sequence's first tokens, which must have been written."""
        self.cache.add(self._group(sequence), sequence.tokens[:tokens], sequence.pages)

    def free(self, sequence: Sequence) -> None:
        """Take a sequence's slot and pages back."""
        for page in sequence.pages:
            self.pages.drop(page)
        self._slots[sequence.slot] = None
        sequence.slot, sequence.pages, sequence.cached, sequence.written = -1, [], 0, 0

    def table(self, sequence: Sequence) -> list[int]:
        """The pages of a sequence [pages_per_slot], -1 where it has none."""
        return sequence.pages + [-1] * (self._pages_per_slot - len(sequence.pages))

    def check(self) -> None:
        """RuntimeError where pages and their holders do not add up, or a sequence has pages of another group."""
        self.cache.check()
        self.pages.check([*self.cache.held(), *(page for each in self.sequences() for page in each.pages)])
        for each in self.sequences():
            if any(page // self.pages.per_group != self._group(each) for page in each.pages):
                raise RuntimeError(f"{each.request.id} has slot {each.slot} and pages {each.pages}")

    def _members(self, group: int) -> list[Sequence]:
        return [each for each in self._slots if each and self._group(each) == group]

    def _group(self, sequence: Sequence) -> int:
        return sequence.slot // self._slots_per_group

    def _pages_at_start(self, sequence: Sequence) -> int:
        return self._pages_of(sequence.last_written if sequence.reserves else len(sequence.tokens) + 1)

    def _pages_of(self, tokens: int) -> int:
        return -(-tokens // self._page_tokens)
