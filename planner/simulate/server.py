"""Servers and their clients, as simpy processes.

An interleaved server does one thing at a time: when as many prompts wait and slots are free as a prefill reads
together, or nothing is generated, it reads them, which also makes their first tokens; otherwise it runs a generate
step, which adds a token to every slot in use, and the drafts that it accepts. Between the chunks of a prompt it runs a
step too, if there is something to generate. A client sends a request, waits for the whole answer, and sends the next;
by then the server has begun its next step, so a prompt waits for that step.
"""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import simpy

from planner.simulate.steps import Steps

Process = Generator[simpy.Event, Any, None]


@dataclass
class Request:
    """One request on its way: lengths in tokens, times in seconds of the simulated clock."""

    prompt: int
    output: int
    done: simpy.Event
    shortened: bool = False
    sent_s: float = 0.0
    taken_s: float = 0.0
    """When it took its slot."""
    first_s: float = 0.0
    last_s: float = 0.0
    made: int = 0

    @property
    def ttft_s(self) -> float:
        """From sending to the first token."""
        return self.first_s - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time between tokens; None for an answer of one token."""
        return (self.last_s - self.first_s) / (self.output - 1) if self.output > 1 else None


class Service(Protocol):
    """What requests are sent to."""

    def send(self, request: Request) -> None:
        """Take a request in."""


@dataclass
class Slots:
    """The slots of a server, the queue before them, and the time of every token made."""

    env: simpy.Environment
    steps: Steps
    slots: int
    random: Random = field(default_factory=lambda: Random(0))
    """Draws which drafts are accepted."""
    waiting: deque[Request] = field(default_factory=deque)
    active: list[Request] = field(default_factory=list)
    made: list[tuple[float, int]] = field(default_factory=list)
    took: list[Request] = field(default_factory=list)
    """Every request that has taken a slot."""
    idle: simpy.Event | None = None

    def queue(self, request: Request) -> None:
        """Let a request wait for a slot."""
        self.waiting.append(request)
        if self.idle is not None and not self.idle.triggered:
            self.idle.succeed()

    def rest(self) -> simpy.Event:
        """The event of the next request that queues."""
        self.idle = self.env.event()
        return self.idle

    def take(self, count: int) -> list[Request]:
        """The next `count` requests, which take a slot each."""
        taken = [self.waiting.popleft() for _ in range(count)]
        for request in taken:
            request.taken_s = self.env.now
        self.took += taken
        return taken

    def begin(self, requests: list[Request]) -> None:
        """The first token of each of `requests`."""
        for request in requests:
            request.first_s = self.env.now
        self.active += requests
        self.add_tokens(requests, [1] * len(requests))

    def generate(self) -> Process:
        """A generate step."""
        yield self.env.timeout(self.steps.generate_s)
        self.add_tokens(self.active, [self.steps.tokens(self.random) for _ in self.active])

    def add_tokens(self, requests: list[Request], counts: list[int]) -> None:
        """So many tokens more for each of `requests`, as far as they want them; complete ones leave their slot."""
        wanted = [min(count, each.output - each.made) for each, count in zip(requests, counts, strict=True)]
        self.made.append((self.env.now, sum(wanted)))
        for request, count in zip(requests, wanted, strict=True):
            request.made += count
            if request.made == request.output:
                request.last_s = self.env.now
                request.done.succeed()
        self.active = [request for request in self.active if request.made < request.output]


@dataclass
class Server(Slots):
    """An interleaved server."""

    reading: list[tuple[float, float]] = field(default_factory=list)
    """Start and end of every prefill, of every chunk of it."""

    def serve(self) -> Process:
        """Prompts first, steps otherwise, for ever."""
        while True:
            if batch := self.next_prompts():
                yield from self.read(max(request.prompt for request in batch))
                self.begin(batch)
            elif self.active:
                yield from self.generate()
            else:
                yield self.rest()

    def read(self, tokens: int) -> Process:
        """A prefill, with a generate step between any two of its chunks."""
        for number, seconds in enumerate(self.steps.reads_s(tokens)):
            if number and self.active:
                yield from self.generate()
            self.reading.append((self.env.now, self.env.now + seconds))
            yield self.env.timeout(seconds)

    def next_prompts(self) -> list[Request]:
        """The prompts to read now: a full prefill, or fewer when nothing is generated meanwhile."""
        ready = min(len(self.waiting), self.slots - len(self.active), self.steps.prompts)
        if self.active and ready < self.steps.prompts:
            return []
        return self.take(ready)


def client(env: simpy.Environment, service: Service, requests: Iterator[Request]) -> Process:
    """One request after the other, for ever."""
    for request in requests:
        service.send(request)
        yield request.done
