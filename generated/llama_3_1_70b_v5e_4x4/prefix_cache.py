# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The prefix cache: full pages of tokens that were read before, found again by the tokens themselves.

Each group of slots has a trie. A node is one full page; it is found by the ids of its tokens below those of the pages
before it. Nodes are in one of two tiers:

- HBM: the node holds on to its page, beside any sequences that use it. A page that only its node holds may be evicted.
- host memory: at most `host_pages` of all groups. An evicted page is copied there, and back when it is wanted again.

Both tiers give up what was used least recently. A node that leaves host memory, or HBM where there is no host memory,
is forgotten with all nodes below it. Every page that no sequence holds can be had, so that a sequence alone in its
group never lacks pages because of the cache.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from .pages import Pages


class Copier(Protocol):
    """Copies of pages between HBM and host memory, in order with everything else that the chips are told."""

    def copy_out(self, page: int) -> Any:
        """The contents of a page in host memory; does not wait."""

    def copy_in(self, handle: Any, page: int) -> None:
        """Write what `copy_out` returned to a page, bit for bit; does not wait."""


@dataclass(eq=False)
class Node:
    """A full page of tokens in a trie; it has either a page or a handle. The root of a group has neither."""

    group: int
    ids: tuple[int, ...] = ()
    parent: "Node | None" = None
    children: dict[tuple[int, ...], "Node"] = field(default_factory=dict)
    page: int | None = None
    handle: Any = None


@dataclass
class CacheCounters:
    """Prompt tokens found in each tier or missed, pages copied to host memory, and pages forgotten."""

    hbm_tokens: int = 0
    host_tokens: int = 0
    missed_tokens: int = 0
    copied_out: int = 0
    forgotten: int = 0


class PrefixCache:
    """A trie of pages for each group. Where it is not `on`, nothing is ever found or kept."""

    def __init__(self, pages: Pages, copier: Copier, page_tokens: int, host_pages: int = 0, on: bool = True) -> None:
        self.counters = CacheCounters()
        self.on = on
        self._pages, self._copier, self._page_tokens, self._host_pages = pages, copier, page_tokens, host_pages
        self._roots = [Node(group) for group in range(pages.groups)]
        self._hbm: list[dict[Node, None]] = [{} for _ in range(pages.groups)]  # least recently used first
        self._host: dict[Node, None] = {}

    @property
    def pages_in_hbm(self) -> int:
        """Pages of HBM that are kept, those that sequences use too among them."""
        return sum(map(len, self._hbm))

    @property
    def pages_in_host(self) -> int:
        """Pages that are kept in host memory."""
        return len(self._host)

    def match(self, group: int, tokens: list[int]) -> list[Node]:
        """The longest path of cached pages that `tokens` begin with; at least one token is left to be read."""
        node, path = self._roots[group], []
        for ids in self._full_pages(tokens[:-1]):
            if ids not in node.children:
                break
            node = node.children[ids]
            path.append(node)
        return path

    def can_take(self, group: int, count: int, path: Iterable[Node] = ()) -> bool:
        """Whether so many pages of a group are free or may be evicted, but for those of `path`."""
        missing, kept = count - self._pages.free(group), set(path)
        evictable = (node for node in self._hbm[group] if self._is_evictable(node) and node not in kept)
        return missing <= 0 or sum(1 for _ in islice(evictable, missing)) == missing

    def take(self, group: int, count: int) -> list[int]:
        """`count` pages of a group, evicted where too few are free; OutOfPages where there are fewer."""
        if self._pages.free(group) < count:
            for node in list(self._hbm[group]):
                if self._pages.free(group) >= count:
                    break
                # One that was forgotten meanwhile with one above it is not there any more.
                if node in self._hbm[group] and self._is_evictable(node):
                    self._evict(node)
        return self._pages.take(group, count)

    def acquire(self, group: int, path: list[Node], tokens: int) -> list[int]:
        """The pages of a `path` that was matched in a prompt of so many `tokens`, each with one holder more.

        Those in host memory are copied into pages of the group; OutOfPages where these cannot be taken.
        """
        for node in path:
            if node.page is not None:
                self._pages.share(node.page)
        away = [node for node in path if node.page is None]
        for node in away:
            del self._host[node]  # what is evicted to make room must not push it out
        for node, page in zip(away, self.take(group, len(away)), strict=True):
            self._copier.copy_in(node.handle, page)
            node.page, node.handle = page, None
            self._pages.share(page)
        self._touch(path)
        self.counters.hbm_tokens += (len(path) - len(away)) * self._page_tokens
        self.counters.host_tokens += len(away) * self._page_tokens
        self.counters.missed_tokens += tokens - len(path) * self._page_tokens
        return [node.page for node in path if node.page is not None]

    def add(self, group: int, tokens: list[int], pages: list[int]) -> None:
        """Keep the full pages of a sequence, whose `tokens` its `pages` hold.

        Where a page of the same tokens is in HBM already, that one stays.
        """
        node, path = self._roots[group], []
        for ids, page in zip(self._full_pages(tokens), pages, strict=False):
            if ids not in node.children:
                node.children[ids] = Node(group, ids, node)
            node = node.children[ids]
            if node.page is None:
                self._host.pop(node, None)
                self._pages.share(page)
                node.page, node.handle = page, None
            path.append(node)
        self._touch(path)

    def held(self) -> Iterator[int]:
        """The pages that nodes hold."""
        return (node.page for nodes in self._hbm for node in nodes if node.page is not None)

    def check(self) -> None:
        """RuntimeError where a node is not in the list of its tier, or host memory has more pages than it may."""
        nodes = {child for root in self._roots for child in _below(root)}
        listed = [*self._host, *(node for group in self._hbm for node in group)]
        if len(listed) != len(nodes) or set(listed) != nodes:
            raise RuntimeError(f"{len(listed)} pages are in the two tiers, {len(nodes)} in the tries")
        if len(self._host) > self._host_pages:
            raise RuntimeError(f"{len(self._host)} pages are in host memory, which may have {self._host_pages}")
        for node in nodes:
            if node not in (self._host if node.page is None else self._hbm[node.group]):
                raise RuntimeError(f"page {node.page} of {node.ids} is listed in the wrong tier")

    def _full_pages(self, tokens: list[int]) -> Iterator[tuple[int, ...]]:
        size = self._page_tokens
        count = len(tokens) // size if self.on else 0
        return (tuple(tokens[nth * size : (nth + 1) * size]) for nth in range(count))

    def _is_evictable(self, node: Node) -> bool:
        """Whether only the node holds its page."""
        return node.page is not None and self._pages.holders(node.page) == 1

    def _touch(self, path: list[Node]) -> None:
        """Make a path the most recently used; pages further down are evicted before those above them."""
        for node in reversed(path):
            self._hbm[node.group].pop(node, None)
            self._hbm[node.group][node] = None

    def _evict(self, node: Node) -> None:
        """Move a page of HBM to host memory, which forgets its least recently used where it is full."""
        if not self._host_pages or node.page is None:
            self._forget(node)
            return
        node.handle = self._copier.copy_out(node.page)
        self.counters.copied_out += 1
        self._pages.drop(node.page)
        node.page = None
        del self._hbm[node.group][node]
        self._host[node] = None
        if len(self._host) > self._host_pages:
            self._forget(next(iter(self._host)))

    def _forget(self, node: Node) -> None:
        """Cut a node and all below it out of the trie; sequences that use their pages keep them."""
        if node.parent is not None:
            del node.parent.children[node.ids]
        for gone in (node, *_below(node)):
            self.counters.forgotten += 1
            self._host.pop(gone, None)
            self._hbm[gone.group].pop(gone, None)
            if gone.page is not None:
                self._pages.drop(gone.page)


def _below(node: Node) -> Iterator[Node]:
    pending = list(node.children.values())
    while pending:
        found = pending.pop()
        yield found
        pending.extend(found.children.values())
