# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Pages of the KV cache: which are free, and how many hold on to each of the others.

A page id stands for `tokens_per_page` tokens of one sequence. Slots are in groups, by the chips that keep their keys
and values; a slot takes its pages from those of its group, ids [group * per_group, (group + 1) * per_group).

A page that is taken has one holder. Sharing it adds one, dropping it removes one, and without any it is free again.
"""

from collections import Counter
from collections.abc import Iterable


class OutOfPages(Exception):
    """A group has fewer free pages than were asked for."""


class Pages:
    """The page ids of all groups and their holders."""

    def __init__(self, groups: int, per_group: int) -> None:
        self.groups, self.per_group = groups, per_group
        self._free = [list(reversed(range(group * per_group, (group + 1) * per_group))) for group in range(groups)]
        self._holders = [0] * (groups * per_group)

    def free(self, group: int) -> int:
        """Free pages of a group."""
        return len(self._free[group])

    def holders(self, page: int) -> int:
        """How many hold on to a page; none where it is free."""
        return self._holders[page]

    def take(self, group: int, count: int) -> list[int]:
        """`count` free pages of a group, each with one holder now; OutOfPages where there are fewer."""
        free = self._free[group]
        if count > len(free):
            raise OutOfPages(f"group {group} has {len(free)} free pages of {self.per_group}; {count} were asked for")
        taken = [free.pop() for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, page: int) -> None:
        """Add a holder to a page that has one; ValueError where it is free."""
        self._refuse_free(page)
        self._holders[page] += 1

    def drop(self, page: int) -> None:
        """Remove a holder; ValueError where there is none. The last one frees the page."""
        self._refuse_free(page)
        self._holders[page] -= 1
        if not self._holders[page]:
            self._free[page // self.per_group].append(page)

    def check(self, held: Iterable[int]) -> None:
        """RuntimeError where holders are not those of `held`, which has each page once for each holder it should have,
        or where free pages are not exactly those that nobody holds."""
        counts = Counter(held)
        for page, holders in enumerate(self._holders):
            if holders != counts[page]:
                raise RuntimeError(f"page {page} has {holders} holders; {counts[page]} are known")
        for group, free in enumerate(self._free):
            ids = range(group * self.per_group, (group + 1) * self.per_group)
            if sorted(free) != [page for page in ids if not self._holders[page]]:
                raise RuntimeError(f"free pages of group {group} are not those without holders: {sorted(free)}")

    def _refuse_free(self, page: int) -> None:
        if not 0 <= page < len(self._holders) or not self._holders[page]:
            raise ValueError(f"page {page} has no holder")
