"""The prefix cache by itself: what it finds, what it gives up first, and that no page is lost on the way."""

from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

SIZE = 2  # tokens of a page


@dataclass
class Copies:
    """What pages hold, copied to host memory and back."""

    contents: dict[int, Any] = field(default_factory=dict)

    def copy_out(self, page: int) -> Any:
        return ("copy of", self.contents[page])

    def copy_in(self, handle: Any, page: int) -> None:
        assert handle[0] == "copy of"
        self.contents[page] = handle[1]


@dataclass
class Cached:
    """A prefix cache, and sequences that use it as the scheduler does."""

    core: SimpleNamespace
    per_group: int = 8
    groups: int = 1
    host_pages: int = 0
    copies: Copies = field(default_factory=Copies)

    def __post_init__(self) -> None:
        self.pages = self.core.Pages(self.groups, self.per_group)
        self.cache = self.core.PrefixCache(self.pages, self.copies, SIZE, self.host_pages)

    def begin(self, tokens: list[int], group: int = 0) -> list[int] | None:
        """The pages of a new sequence, or None where there are too few; cached ones hold what they should."""
        path = self.cache.match(group, tokens)
        cached = sum(node.page is not None for node in path)
        count = -(-len(tokens) // SIZE)
        if not self.cache.can_take(group, count - cached, path):
            return None
        pages = self.cache.acquire(group, path, len(tokens))
        for nth, page in enumerate(pages):
            assert self.copies.contents[page] == (group, tuple(tokens[: (nth + 1) * SIZE]))
        pages += self.cache.take(group, count - len(path))
        for nth in range(len(path), count):
            self.copies.contents[pages[nth]] = (group, tuple(tokens[: (nth + 1) * SIZE]))
        return list(pages)

    def end(self, tokens: list[int], pages: list[int], group: int = 0) -> None:
        """Keep the pages of a sequence and let go of them."""
        self.cache.add(group, tokens, pages)
        for page in pages:
            self.pages.drop(page)

    def read(self, *prompts: list[int]) -> None:
        """Read prompts, one after the other."""
        for tokens in prompts:
            pages = self.begin(tokens)
            assert pages is not None
            self.end(tokens, pages)

    def found(self, tokens: list[int], group: int = 0) -> int:
        """Pages that would be found of a prompt."""
        return len(self.cache.match(group, tokens))


def test_the_longest_path_is_found_and_one_token_is_left(core: SimpleNamespace):
    cached = Cached(core)
    cached.read([1, 2, 3, 4, 5])
    assert [cached.found(tokens) for tokens in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7])] == [
        0,
        0,
        1,
        1,
        2,
    ]
    assert cached.found([1, 2, 4, 3, 5]) == 1
    assert cached.found([3, 4, 1]) == 0


def test_groups_find_their_own_pages_only(core: SimpleNamespace):
    cached = Cached(core, groups=2)
    cached.read([1, 2, 3])
    assert (cached.found([1, 2, 3], 0), cached.found([1, 2, 3], 1)) == (1, 0)


def test_tokens_of_equal_hash_are_not_taken_for_each_other(core: SimpleNamespace):
    cached = Cached(core)
    assert hash((-1, 5)) == hash((-2, 5))
    cached.read([-1, 5, 7])
    assert cached.found([-2, 5, 7]) == 0


def test_a_cache_that_is_off_keeps_nothing(core: SimpleNamespace):
    cached = Cached(core)
    cached.cache.on = False
    cached.read([1, 2, 3])
    assert cached.found([1, 2, 3]) == 0
    assert cached.pages.free(0) == 8


def test_what_was_used_least_recently_is_evicted_first_and_leaves_before_branches(core: SimpleNamespace):
    cached = Cached(core, per_group=5)
    cached.read([1, 1, 2, 2, 0], [3, 3, 4, 4, 0])  # nodes: 1, 1-2, 3, 3-4
    cached.read([1, 1, 2, 2, 0])
    cached.read([9, 9, 0])
    assert (cached.found([3, 3, 4, 4, 0]), cached.found([1, 1, 2, 2, 0]), cached.found([9, 9, 0])) == (1, 2, 1)


def test_pages_of_a_running_sequence_are_not_evicted(core: SimpleNamespace):
    cached = Cached(core, per_group=4)
    cached.read([1, 1, 2, 2, 0])
    running = cached.begin([1, 1, 2, 2, 5])
    assert running is not None
    assert cached.begin([9, 9, 9]) is None
    assert cached.begin([9]) is not None
    assert cached.found([1, 1, 2, 2, 0]) == 2
    with pytest.raises(core.OutOfPages):
        cached.cache.take(0, 1)


def test_an_evicted_page_comes_back_from_host_memory(core: SimpleNamespace):
    cached = Cached(core, per_group=3, host_pages=4)
    cached.read([1, 1, 2, 2, 0], [5, 5, 6, 6, 0])
    assert all(node.page is None for node in cached.cache.match(0, [1, 1, 2, 2, 0]))
    cached.read([1, 1, 2, 2, 0])  # begin compares what came back
    counters = cached.cache.counters
    assert (counters.hbm_tokens, counters.host_tokens, counters.missed_tokens) == (0, 4, 11)
    assert (counters.copied_out, counters.forgotten) == (4, 0)


def test_host_memory_forgets_what_was_used_least_recently(core: SimpleNamespace):
    cached = Cached(core, per_group=2, host_pages=2)
    cached.read([1, 1, 0], [2, 2, 0], [3, 3, 0], [4, 4, 0])
    assert [cached.found([each, each, 0]) for each in (1, 2, 3, 4)] == [0, 1, 1, 1]
    assert (cached.cache.pages_in_hbm, cached.cache.pages_in_host) == (1, 2)
    assert cached.cache.counters.forgotten == 1


def test_a_page_read_again_takes_the_place_of_its_copy_in_host_memory(core: SimpleNamespace):
    cached = Cached(core, per_group=3, host_pages=1)
    cached.read([1, 1, 0])
    pages = cached.begin([1, 1])  # reads the whole page again: one token must be left
    assert pages is not None
    cached.cache.take(0, 2)
    assert cached.cache.counters.copied_out == 1
    cached.end([1, 1], pages)
    [node] = cached.cache.match(0, [1, 1, 0])
    assert (node.page, node.handle) == (pages[0], None)
    cached.cache.check()


def test_what_is_forgotten_takes_along_what_is_below_it(core: SimpleNamespace):
    cached = Cached(core, per_group=6)
    first, second = cached.begin([1, 1, 2]), cached.begin([1, 1, 2, 2])
    assert first is not None
    assert second is not None
    cached.cache.add(0, [1, 1], first)
    cached.cache.add(0, [1, 1, 2, 2], second)  # the node of 1, 1 has the page of the first
    for page in first:
        cached.pages.drop(page)
    assert len(cached.cache.take(0, 4)) == 4
    assert cached.found([1, 1, 2, 2, 0]) == 0
    cached.cache.check()
    assert list(cached.cache.held()) == []
    assert [cached.pages.holders(page) for page in second] == [1, 1]


def test_what_was_just_forgotten_is_not_evicted_too(core: SimpleNamespace):
    cached = Cached(core, per_group=4, host_pages=1)
    other, first, second = cached.begin([9, 9]), cached.begin([1, 1]), cached.begin([1, 1, 2, 2])
    assert other is not None
    assert first is not None
    assert second is not None
    cached.cache.add(0, [9, 9], other)
    cached.cache.add(0, [1, 1], first)
    cached.cache.add(0, [1, 1, 2, 2], second)
    cached.pages.drop(*first)
    cached.pages.drop(*cached.cache.take(0, 1))  # 1, 1 is in host memory, 2, 2 below it in HBM and in use
    cached.pages.drop(*other)
    with pytest.raises(core.OutOfPages):
        cached.cache.take(0, 3)  # 9, 9 pushes 1, 1 out of host memory
    cached.cache.check()
    assert [cached.pages.holders(page) for page in second] == [1, 1]
    assert (cached.found([9, 9, 0]), cached.found([1, 1, 0])) == (1, 0)


def test_check_tells_a_node_in_the_wrong_tier(core: SimpleNamespace):
    cached = Cached(core, host_pages=1)
    cached.read([1, 1, 0])
    [node] = cached.cache.match(0, [1, 1, 0])
    cached.cache._host[node] = cached.cache._hbm[0].pop(node)
    with pytest.raises(RuntimeError, match=r"of \(1, 1\) is listed in the wrong tier"):
        cached.cache.check()
    del cached.cache._host[node]
    with pytest.raises(RuntimeError, match="0 pages are in the two tiers, 1 in the tries"):
        cached.cache.check()


@pytest.mark.parametrize("host_pages", [0, 3, 50])
def test_ten_thousand_random_operations_keep_every_page_in_order(core: SimpleNamespace, host_pages: int):
    random, cached = Random(host_pages), Cached(core, per_group=9, groups=2, host_pages=host_pages)
    running: list[tuple[list[int], list[int], int]] = []
    for _ in range(10_000):
        if running and random.random() < 0.5:
            tokens, pages, group = running.pop(random.randrange(len(running)))
            cached.end(tokens[: random.randrange(len(tokens) + 1)], pages, group)
        else:
            tokens, group = [random.randrange(2) for _ in range(random.randrange(1, 12))], random.randrange(2)
            if (begun := cached.begin(tokens, group)) is not None:
                running.append((tokens, begun, group))
        cached.cache.check()
        cached.pages.check([*cached.cache.held(), *(page for _, pages, _ in running for page in pages)])
    for tokens, pages, group in running:
        cached.end(tokens, pages, group)
    assert all(cached.cache.can_take(group, 9) for group in range(2))
    assert min(cached.cache.counters.hbm_tokens, cached.cache.counters.missed_tokens) > 1000
    assert not host_pages or cached.cache.counters.host_tokens > 500
