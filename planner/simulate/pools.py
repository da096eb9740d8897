"""Servers of disaggregated serving: readers of prompts, each with a link of its own, and servers that generate.

A reader reads as many prompts together as planned. Keys and values then cross its
link, one prompt after the other while it reads on, to a generate server drawn at random. There a prompt waits for a
slot and for the start of the next step, which is when its first token counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import simpy

from planner.simulate.server import Process, Request, Slots
from planner.simulate.steps import Steps


@dataclass
class Reader:
    """A slice that only reads prompts; `deliver` is called with each whose keys and values have arrived."""

    env: simpy.Environment
    steps: Steps
    transfer_s: float
    deliver: Callable[[Request], None]
    waiting: simpy.Store
    read: simpy.Store
    reading: list[tuple[float, float]] = field(default_factory=list)
    """Start and end of every prefill, of its first stage where there are several."""

    def queue(self, request: Request) -> None:
        """Let a request wait for its prefill."""
        self.waiting.put(request)

    def serve(self) -> Process:
        """One prefill after the other, for ever."""
        while True:
            batch: list[Request] = []
            while len(batch) < self.steps.prompts:
                batch.append((yield self.waiting.get()))
            start, seconds = self.env.now, self.steps.prompt_s(max(request.prompt for request in batch))
            yield self.env.timeout(seconds / self.steps.stages)
            self.reading.append((start, self.env.now))
            self.env.process(self.finish(batch, seconds - seconds / self.steps.stages))

    def finish(self, batch: list[Request], seconds: float) -> Process:
        """The other stages of a pipeline, while the first reads on."""
        yield self.env.timeout(seconds)
        for request in batch:
            self.read.put(request)

    def hand_over(self) -> Process:
        """One transfer after the other, for ever."""
        while True:
            request = yield self.read.get()
            yield self.env.timeout(self.transfer_s)
            self.deliver(request)


@dataclass
class Generator(Slots):
    """A slice that only generates."""

    def serve(self) -> Process:
        """One step after the other, for ever; who waits joins before a step."""
        while True:
            joining = self.take(min(len(self.waiting), self.slots - len(self.active)))
            if joining:
                self.begin(joining)
            if self.active:
                yield from self.generate()
            elif not self.waiting:
                yield self.rest()
