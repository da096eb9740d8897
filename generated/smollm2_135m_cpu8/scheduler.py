# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Continuous batching: which prompts are read when, which slots and pages sequences have, and when they lose them.

- **Order.** First come, first served. Where the request at the head of the queue finds no slot or too few pages, those
  behind it wait too. Waiting requests that follow each other are read together, up to `runner.prompts` of them, if
  reading begins at the same position in all: behind the pages that the prefix cache has of them.
- **Interleaving.** Between two generate steps at most `prefill_budget` tokens of prompts are read, or one chunk of the
  prompts that are read together where that is more. When nothing runs, reading goes on without a pause.
- **Pages.** A sequence starts with pages for its prompt and one token, and gets more as it grows. It starts only where
  one page is left for each sequence beside it that may grow. Full pages stay in the prefix cache while there is room.
- **Preemption.** Where a sequence must grow and its group has no page to give, the youngest of the group goes back into
  the queue, to be read again with what it has generated. The oldest is never preempted for others, so that all finish.
  A sequence that may grow longer than prompts that can be read takes all its pages at the start, and is not preempted.
- **Dispatch.** Up to `depth` generate steps are on their way: step n + 1 is called before the tokens of step n are
  read. Tokens beyond the end of a sequence are dropped. While a sequence that `needs_sync` runs, steps make one token
  each, and each is read before the next is called.

There are no threads and no clock here: the same calls give the same decisions, on every host.
"""

from bisect import insort
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from .places import Places
from .runner_protocol import Runner, Tokens
from .sequence import Event, Finish, PromptTooLong, QueueFull, Request, Sequence, State


@dataclass(frozen=True)
class Limits:
    """What the scheduler may do."""

    queue: int = 256  # requests that wait
    prefill_budget: int = 512  # tokens of prompts that are read between two generate steps
    depth: int = 2  # generate steps on their way; 1 waits for each
    prefix_cache: bool = True
    host_pages: int = 0  # pages that the prefix cache keeps in host memory


@dataclass
class Counters:
    """Tokens read, generated and dropped, generate steps called, and sequences preempted."""

    read_tokens: int = 0
    made_tokens: int = 0
    dropped_tokens: int = 0
    steps: int = 0
    preemptions: int = 0


@dataclass
class _Reading:
    """Prompts that are read together; None in the place of one that was cancelled or preempted."""

    reading: Any
    sequences: list[Sequence | None]
    position: int  # up to which all were read

    @property
    def live(self) -> list[tuple[int, Sequence]]:
        return [(nth, sequence) for nth, sequence in enumerate(self.sequences) if sequence]

    def tokens(self, chunk: int | None) -> int:
        """Tokens of all its prompts that the next call reads."""
        count = self.positions(chunk)
        return sum(min(count, max(0, len(sequence.tokens) - self.position)) for _, sequence in self.live)

    def positions(self, chunk: int | None) -> int:
        """Positions that the next call reads; none once all are read."""
        left = max([0, *(len(sequence.tokens) - self.position for _, sequence in self.live)])
        return left if chunk is None else min(left, chunk)


@dataclass(frozen=True)
class _OnTheirWay:
    """Tokens that were dispatched, and the sequence of each row."""

    tokens: Tokens
    rows: list[tuple[int, Sequence]]
    generated: bool  # by a generate step; else they are the first after prompts


class Scheduler:
    """Requests in, events out, over the slots and pages of a runner."""

    def __init__(self, runner: Runner, limits: Limits | None = None) -> None:
        self.runner, self.limits = runner, limits or Limits()
        self.counters = Counters()
        on = self.limits.prefix_cache and runner.reuses_prefixes
        self.places = Places(runner, self.limits.host_pages if on else 0, on)
        self._capacity = min(runner.context, self.places.longest)
        self._arrivals = 0
        self._unfinished: dict[str, Sequence] = {}
        self._waiting: list[Sequence] = []  # by arrival
        self._reading: _Reading | None = None
        self._on_their_way: deque[_OnTheirWay] = deque()
        self._events: list[Event] = []

    @property
    def idle(self) -> bool:
        """Whether no request is unfinished and no event is still to be told."""
        return not (self._unfinished or self._events or self._on_their_way)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt that is taken: there is room for one more."""
        return min(self.runner.longest_prompt, self._capacity - 1)

    def add(self, request: Request) -> None:
        """Put a request into the queue; QueueFull, PromptTooLong, or ValueError for what makes no sense."""
        tokens, room = len(request.prompt), self._capacity - len(request.prompt)
        if not 1 <= tokens <= self.longest_prompt:
            raise PromptTooLong(tokens, self.longest_prompt)
        if request.max_tokens is not None and request.max_tokens < 1:
            raise ValueError(f"max_tokens is {request.max_tokens}; at least 1 token is made")
        if request.id in self._unfinished:
            raise ValueError(f"request {request.id} is not finished yet")
        if len(self._waiting) >= self.limits.queue:
            raise QueueFull(f"{len(self._waiting)} requests wait; more may not")
        end = tokens + min(room, request.max_tokens or room)
        reserves = end - 1 > self.runner.longest_prompt
        sequence = Sequence(request, self._arrivals, end, reserves, list(request.prompt))
        self._arrivals += 1
        self._unfinished[request.id] = sequence
        self._waiting.append(sequence)

    def cancel(self, request_id: str, finish: Finish = "cancelled") -> bool:
        """End a request wherever it is, and free what it has; False where it is not there (any more)."""
        sequence = self._unfinished.get(request_id)
        if sequence:
            self._finish(sequence, Event(request_id, None, finish))
        return sequence is not None

    def step(self) -> list[Event]:
        """Read prompts, call a generate step, and tell what came out of those before it."""
        self._read_prompts()
        dispatched = self._generate()
        self._collect(self.limits.depth - 1 if dispatched and not self._needs_sync else 0)
        events, self._events = self._events, []
        return events

    def check(self) -> None:
        """RuntimeError where pages, their holders, slots and the queue do not add up."""
        self.places.check()
        known = Counter(id(each) for each in (*self.places.sequences(), *self._waiting))
        if known != Counter(id(each) for each in self._unfinished.values()):
            raise RuntimeError("a request is neither waiting nor in a slot, or it is in both")

    @property
    def _running(self) -> list[Sequence]:
        """Sequences that generate, oldest first."""
        return [each for each in self.places.sequences() if each.state is State.RUNNING]

    @property
    def _needs_sync(self) -> bool:
        return any(sequence.request.needs_sync for sequence in self._running)

    # Reading prompts

    def _read_prompts(self) -> None:
        left = budget = self.limits.prefill_budget
        while (left > 0 or not self._running) and (reading := self._reading or self._begin_reading()):
            tokens = reading.tokens(self.runner.chunk)
            if self._running and left < budget and tokens > left:
                return
            left -= tokens
            self.counters.read_tokens += tokens
            self._read(reading)

    def _begin_reading(self) -> _Reading | None:
        """Take requests from the queue that can be read together, if there are any."""
        batch: list[Sequence] = []
        while self._waiting and len(batch) < self.runner.prompts:
            place = self.places.find(self._waiting[0])
            if place is None or (batch and self.places.cached_tokens(place) != batch[0].cached):
                break
            batch.append(self._waiting.pop(0))
            self.places.give(batch[-1], place)
        if not batch:
            return None
        prompts, made = [list(each.tokens) for each in batch], [len(each.made) for each in batch]
        reading = self.runner.begin(prompts, [each.request.sampling for each in batch], made)
        for nth, each in enumerate(batch):
            if each.cached:
                self.runner.load(reading, nth, self.places.table(each), each.cached)
        self._reading = _Reading(reading, list(batch), batch[0].cached)
        return self._reading

    def _read(self, reading: _Reading) -> None:
        """Read the next tokens of a reading; after the last, its sequences run."""
        positions = reading.positions(self.runner.chunk)
        if positions:  # none are left where the longest prompt was cancelled
            self.runner.read(reading.reading, reading.position, positions)
            reading.position += positions
        if not reading.positions(self.runner.chunk):
            self._reading = None
            firsts = self.runner.first_tokens(reading.reading)
            for nth, sequence in reading.live:
                self._run(reading.reading, nth, sequence)
            self._on_their_way.append(_OnTheirWay(firsts, reading.live, generated=False))

    def _run(self, reading: Any, nth: int, sequence: Sequence) -> None:
        table, length = self.places.table(sequence), len(sequence.tokens)
        self.runner.insert(reading, nth, sequence.slot, table, sequence.cached, length)
        sequence.state, sequence.written = State.RUNNING, length
        self.places.keep(sequence, length)

    # Generating

    def _generate(self) -> bool:
        """Call a generate step; False where no sequence has a token left to make."""
        if sync := self._needs_sync:
            self._collect(0)
        steps = 1 if sync else self.runner.steps_per_dispatch
        for sequence in self._running:
            self._grow(sequence, steps)
        running = self._running
        if all(sequence.written >= sequence.last_written for sequence in running):
            return False
        for sequence in running:
            if sequence.request.needs_sync:
                self.runner.steer(sequence.slot, sequence.made)
            sequence.written += steps
        rows = [(sequence.slot, sequence) for sequence in running]
        self._on_their_way.append(_OnTheirWay(self.runner.generate(steps), rows, generated=True))
        self.counters.steps += steps
        return True

    def _grow(self, sequence: Sequence, steps: int) -> None:
        """Give a sequence the pages that so many steps write to, or preempt it."""
        wanted = min(sequence.written + steps, sequence.last_written)
        while sequence.state is State.RUNNING and not self.places.holds(sequence, wanted):
            if self.places.grow(sequence, wanted):
                self.runner.set_table(sequence.slot, self.places.table(sequence))
            elif self._on_their_way:
                self._collect(0)  # a sequence may have ended; and what is preempted must have all its tokens
            else:
                self._preempt(self.places.youngest_beside(sequence))

    def _preempt(self, sequence: Sequence) -> None:
        """Put a sequence back into the queue: by arrival, and so before all that came later."""
        self._leave(sequence)
        sequence.state = State.WAITING
        insort(self._waiting, sequence, key=lambda each: each.arrival)
        self.counters.preemptions += 1

    def _collect(self, depth: int) -> None:
        """Read tokens until at most `depth` generate steps are on their way, and nothing from before them."""
        steps = sum(each.generated for each in self._on_their_way)
        while self._on_their_way and (steps > depth or not self._on_their_way[0].generated):
            arrived = self._on_their_way.popleft()
            steps -= arrived.generated
            for step, ids in enumerate(arrived.tokens.ids()):
                for row, sequence in arrived.rows:
                    self._tell(sequence, ids[row], arrived.tokens.info(step, row))

    def _tell(self, sequence: Sequence, token: int, info: Any) -> None:
        request = sequence.request
        if sequence.state is not State.RUNNING:
            self.counters.dropped_tokens += 1
        elif token < 0:
            self._finish(sequence, Event(request.id, None, "error", info))
        else:
            self.counters.made_tokens += 1
            sequence.tokens.append(token)
            finish: Finish | None = "length" if len(sequence.tokens) == sequence.end else None
            finish = "stop" if token in request.stop_ids else finish
            is_first = len(sequence.tokens) == len(request.prompt) + 1
            event = Event(request.id, token, finish, info, sequence.cached if is_first else 0)
            if finish:
                self._finish(sequence, event)
            else:
                self._events.append(event)

    # Leaving

    def _finish(self, sequence: Sequence, event: Event) -> None:
        if sequence.state is State.WAITING:
            self._waiting.remove(sequence)
        else:
            self._leave(sequence)
        sequence.state = State.FINISHED
        del self._unfinished[sequence.request.id]
        self._events.append(event)

    def _leave(self, sequence: Sequence) -> None:
        """Free a sequence's slot and pages; those that are full of its tokens stay in the prefix cache."""
        if sequence.state is State.RUNNING:
            self.runner.release(sequence.slot)
            self.places.keep(sequence, len(sequence.tokens) - 1)  # the last token was not written
        elif self._reading:
            self._reading.sequences = [None if each is sequence else each for each in self._reading.sequences]
            if not self._reading.live:
                self._reading = None
        self.places.free(sequence)
