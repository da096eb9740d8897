"""A runner without chips, in whose pages every mistake of a scheduler changes what is generated.

A page holds, for each token, a digest of it and of all tokens before it: what keys and values depend on. The next token
is a digest of all that is found through the slot's table, so that a page that is stale, lost, or written by two
sequences changes the tokens that follow. Nothing happens when a verb is called: all is done, in the order of the calls,
when tokens are asked for.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

VOCAB = 353
NOTHING = -1


def digest(values: Sequence[int]) -> int:
    """A number that any change of `values` changes; the same in every process."""
    found = 17
    for value in values:
        found = (found * 1_000_003 + value + 7) % (2**61 - 1)
    return found


def entry(before: int, token: int) -> int:
    """What a page holds of a token that follows tokens of which the last entry is `before`."""
    return digest((before, token))


def entries(tokens: Sequence[int]) -> list[int]:
    """What pages hold of a sequence that begins with `tokens`."""
    found: list[int] = []
    for token in tokens:
        found.append(entry(found[-1] if found else 0, token))
    return found


def choose(held: Sequence[int], sampling: Any, made: Sequence[int] | None) -> int:
    """The token after those that pages hold; `made` is what the host has told of generated tokens."""
    return digest((*held, hash(sampling), *(made or ()))) % VOCAB


def expected(prompt: Sequence[int], tokens: int, stop_ids: frozenset[int], sampling: Any, steered: bool) -> list[int]:
    """What a request gives that nothing disturbs."""
    made: list[int] = []
    held = entries(prompt)
    while len(made) < tokens and not (made and made[-1] in stop_ids):
        made.append(choose(held, sampling, made if steered else None))
        held.append(entry(held[-1], made[-1]))
    return made


@dataclass(frozen=True)
class Sampling:
    """How a request chooses its tokens; `steered`: by all that it generated before."""

    seed: int
    steered: bool = False


@dataclass
class Reading:
    """Prompts being read, and what was found of each so far."""

    prompts: list[list[int]]
    samplings: list[Any]
    made: list[int]
    held: list[list[int]]
    position: int | None = None  # up to which `read` was called


@dataclass
class Slot:
    """A sequence on the chips; without a table there is none."""

    table: list[int] = field(default_factory=list)
    length: int = 0
    token: int = NOTHING
    sampling: Any = None
    made: list[int] | None = None


class Tokens:
    """Tokens that are there once all that was called before is done."""

    def __init__(self, runner: "FakeRunner", generated: bool) -> None:
        self.runner, self.generated = runner, generated
        self.made: list[list[int]] | None = None

    def ids(self) -> list[list[int]]:
        assert self.runner.handles.popleft() is self, "tokens are read out of order"
        while self.made is None:
            self.runner.queue.popleft()()
        return self.made

    def info(self, step: int, row: int) -> Any:
        assert self.made is not None
        return ("told", self.made[step][row])


class FakeRunner:
    """Slots, pages and programs of a machine that does nothing in time."""

    def __init__(
        self,
        slots: int = 4,
        groups: int = 1,
        pages_per_group: int = 16,
        tokens_per_page: int = 4,
        pages_per_slot: int = 8,
        context: int = 32,
        prompts: int = 1,
        longest_prompt: int = 31,
        chunk: int | None = 8,
        steps_per_dispatch: int = 1,
        reuses_prefixes: bool | None = None,
    ) -> None:
        self.slots, self.groups, self.pages_per_group = slots, groups, pages_per_group
        self.tokens_per_page, self.pages_per_slot, self.context = tokens_per_page, pages_per_slot, context
        self.prompts, self.longest_prompt, self.chunk = prompts, longest_prompt, chunk
        self.reuses_prefixes = chunk is not None if reuses_prefixes is None else reuses_prefixes
        self.steps_per_dispatch = steps_per_dispatch
        self.queue: deque[Callable[[], None]] = deque()
        self.handles: deque[Tokens] = deque()
        self.calls: list[tuple[Any, ...]] = []
        self.pages = [[NOTHING] * tokens_per_page for _ in range(groups * pages_per_group)]
        self.state = [Slot() for _ in range(slots)]
        self.in_use: set[int] = set()  # slots, as of the calls
        self.broken_rows: set[int] = set()  # slots that give no token

    # Prompts

    def begin(self, prompts: list[list[int]], samplings: list[Any], made: list[int]) -> Reading:
        assert 1 <= len(prompts) <= self.prompts
        assert all(1 <= len(tokens) <= self.longest_prompt for tokens in prompts)
        self.calls.append(("begin", tuple(map(tuple, prompts))))
        return Reading(prompts, samplings, made, [[] for _ in prompts])

    def load(self, reading: Reading, nth: int, table: list[int], tokens: int) -> None:
        assert self.reuses_prefixes
        assert tokens % self.tokens_per_page == 0
        assert 0 < tokens < len(reading.prompts[nth])
        self.calls.append(("load", nth, tokens))
        self.queue.append(lambda: reading.held[nth].extend(self._held(table, tokens)))
        reading.position = tokens

    def read(self, reading: Reading, first: int, tokens: int) -> None:
        longest = max(map(len, reading.prompts))
        assert first == (reading.position or 0)
        assert tokens == longest if self.chunk is None else 1 <= tokens <= self.chunk
        assert first + tokens <= longest
        reading.position = first + tokens
        counted = sum(max(0, min(len(prompt), first + tokens) - first) for prompt in reading.prompts)
        self.calls.append(("read", first, tokens, counted))
        self.queue.append(lambda: self._read(reading, first, tokens))

    def _read(self, reading: Reading, first: int, tokens: int) -> None:
        for prompt, held in zip(reading.prompts, reading.held, strict=True):
            for token in prompt[first : first + tokens]:
                held.append(entry(held[-1] if held else 0, token))

    def first_tokens(self, reading: Reading) -> Tokens:
        tokens = self._handle(generated=False)
        self.queue.append(lambda: setattr(tokens, "made", [[self._first(reading, nth) for nth in range(self.prompts)]]))
        return tokens

    def _first(self, reading: Reading, nth: int) -> int:
        if nth >= len(reading.prompts):
            return NOTHING
        prompt, sampling, count = reading.prompts[nth], reading.samplings[nth], reading.made[nth]
        made = prompt[len(prompt) - count :] if getattr(sampling, "steered", False) else None
        return choose(reading.held[nth], sampling, made)

    def insert(self, reading: Reading, nth: int, slot: int, table: list[int], cached: int, length: int) -> None:
        assert slot not in self.in_use
        self.in_use.add(slot)
        self._check_table(slot, table)
        assert length == len(reading.prompts[nth])
        assert (reading.position or 0) >= length
        self.calls.append(("insert", slot, cached, length))
        self.queue.append(lambda: self._insert(reading, nth, slot, table, cached))

    def _insert(self, reading: Reading, nth: int, slot: int, table: list[int], cached: int) -> None:
        held = reading.held[nth]
        for position in range(cached, len(held)):
            self._write(table, position, held[position])
        first = self._first(reading, nth)
        self.state[slot] = Slot(table, len(held), first, reading.samplings[nth])

    # Slots

    def set_table(self, slot: int, table: list[int]) -> None:
        assert slot in self.in_use
        self._check_table(slot, table)
        self.queue.append(lambda: setattr(self.state[slot], "table", table))

    def steer(self, slot: int, made: list[int]) -> None:
        assert slot in self.in_use
        assert not self.handles, "steered by tokens that are not the last"
        told = list(made)
        self.queue.append(lambda: setattr(self.state[slot], "made", told))

    def release(self, slot: int) -> None:
        self.in_use.remove(slot)
        self.calls.append(("release", slot))
        self.queue.append(lambda: self.state.__setitem__(slot, Slot()))

    def generate(self, steps: int) -> Tokens:
        assert steps in (1, self.steps_per_dispatch)
        self.calls.append(("generate", steps))
        tokens, broken = self._handle(generated=True), set(self.broken_rows)
        self.queue.append(lambda: setattr(tokens, "made", [self._generate(broken) for _ in range(steps)]))
        return tokens

    def _generate(self, broken: set[int]) -> list[int]:
        return [NOTHING if nth in broken else self._next(slot) for nth, slot in enumerate(self.state)]

    def _next(self, slot: Slot) -> int:
        if not slot.table:
            return NOTHING
        before = self._held(slot.table, slot.length)
        self._write(slot.table, slot.length, entry(before[-1], slot.token))
        slot.length += 1
        steered = getattr(slot.sampling, "steered", False)
        slot.token = choose(self._held(slot.table, slot.length), slot.sampling, slot.made if steered else None)
        return slot.token

    # Pages

    def copy_out(self, page: int) -> list[int]:
        self.calls.append(("copy_out", page))
        handle: list[int] = []
        self.queue.append(lambda: handle.extend(self.pages[page]))
        return handle

    def copy_in(self, handle: list[int], page: int) -> None:
        self.calls.append(("copy_in", page))
        self.queue.append(lambda: self.pages.__setitem__(page, list(handle)))

    def _check_table(self, slot: int, table: list[int]) -> None:
        group = slot // (self.slots // self.groups)
        pages = [page for page in table if page != NOTHING]
        assert len(table) == self.pages_per_slot
        assert len(set(pages)) == len(pages)
        assert table == pages + [NOTHING] * (len(table) - len(pages))
        assert all(page // self.pages_per_group == group for page in pages)

    def _held(self, table: list[int], tokens: int) -> list[int]:
        return [self._at(table, position) for position in range(tokens)]

    def _at(self, table: list[int], position: int) -> int:
        page, offset = divmod(position, self.tokens_per_page)
        return NOTHING if page >= len(table) or table[page] == NOTHING else self.pages[table[page]][offset]

    def _write(self, table: list[int], position: int, value: int) -> None:
        page, offset = divmod(position, self.tokens_per_page)
        if page < len(table) and table[page] != NOTHING:
            self.pages[table[page]][offset] = value

    def _handle(self, generated: bool) -> Tokens:
        self.handles.append(tokens := Tokens(self, generated))
        return tokens
