"""A fleet as simulated services, interleaved slices or readers and generate servers, and how requests arrive at it.

A router brings as many requests together as a prefill reads, and sends them to a slice drawn at random. At a request
rate the loop is open: requests arrive at random times, whether earlier ones are answered or not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from random import Random

import simpy

from planner.plan.records import Fleet
from planner.plan.schema import Plan
from planner.simulate.pools import Generator, Reader
from planner.simulate.server import Process, Request, Server, Service, Slots
from planner.simulate.steps import Steps, steps_of


@dataclass(frozen=True)
class Slices:
    """The slices of a fleet, those that generate and those that read prompts (the same ones when interleaved), behind
    a router that brings `together` requests together."""

    env: simpy.Environment
    generating: Sequence[Slots]
    reading: Sequence[Server | Reader]
    together: int
    random: Random
    gathered: list[Request] = field(default_factory=list)

    def send(self, request: Request) -> None:
        """Take a request in; send those that are together to a slice drawn at random."""
        request.sent_s = self.env.now
        self.gathered.append(request)
        if len(self.gathered) == self.together:
            slice_ = self.random.choice(self.reading)
            for each in self.gathered:
                slice_.queue(each)
            self.gathered.clear()

    def slot_utilization(self, start: float, end: float) -> float:
        """The part of all slots that was taken between two times."""
        spans = ((each.taken_s, each.last_s or end) for slots in self.generating for each in slots.took)
        slots = sum(each.slots for each in self.generating)
        return overlap_s(spans, start, end) / (slots * (end - start))

    def prefill_utilization(self, start: float, end: float) -> float:
        """The part of the time between two times that slices which read prompts did so."""
        spans = (span for each in self.reading for span in each.reading)
        return overlap_s(spans, start, end) / (len(self.reading) * (end - start))


def overlap_s(spans: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of all spans that lie between two times."""
    return sum(max(0.0, min(last, end) - max(first, start)) for first, last in spans)


def slices_of(env: simpy.Environment, plan: Plan, seed: int) -> Slices:
    """The slices of a plan's fleet, at work; one interleaved slice without a router where the plan has no fleet."""
    steps, random, fleet = steps_of(plan), Random(f"slices {seed}"), plan.fleet
    if fleet is not None and fleet.mode == "disaggregated":
        return pools_of(env, plan, fleet, steps, random, seed)
    drawing = (Random(seed if number == 0 else f"drafts {seed} {number}") for number in count())
    servers = [Server(env, steps, plan.generate.batch, next(drawing)) for _ in range(fleet.slices if fleet else 1)]
    for server in servers:
        env.process(server.serve())
    return Slices(env, servers, servers, steps.prompts if fleet else 1, random)


def pools_of(env: simpy.Environment, plan: Plan, fleet: Fleet, steps: Steps, random: Random, seed: int) -> Slices:
    """Readers and generate servers."""
    drawing = [Random(f"drafts {seed} {number}") for number in range(fleet.slices)]
    generators = [Generator(env, steps, plan.generate.batch, each) for each in drawing]

    def deliver(request: Request) -> None:
        random.choice(generators).queue(request)

    transfer_s = fleet.transfer.seconds if fleet.transfer else 0.0
    readers = [
        Reader(env, steps, transfer_s, deliver, simpy.Store(env), simpy.Store(env))
        for _ in range(fleet.prefill_slices or 1)
    ]
    for generator in generators:
        env.process(generator.serve())
    for reader in readers:
        env.process(reader.serve())
        env.process(reader.hand_over())
    return Slices(env, generators, readers, steps.prompts, random)


def arrivals(env: simpy.Environment, service: Service, requests: Iterator[Request], gaps: Iterator[float]) -> Process:
    """Requests at random times, for ever; `gaps` are the seconds before each."""
    for request in requests:
        yield env.timeout(next(gaps))
        service.send(request)


def poisson_gaps(rate: float, warming: int, counted: int, seed: int) -> Iterator[float]:
    """Seconds between requests that arrive at random, `rate` a second, for ever.

    Those of the warming ones, of the counted ones, and of each as many after them, are scaled to their mean: a Poisson
    process of which it is known how many arrive, so that few requests already load the slices as many would.
    """
    random = Random(f"arrivals {seed}")
    for number in chain([warming], repeat(counted)):
        gaps = [random.expovariate(1.0) for _ in range(number)]
        scale = number / rate / sum(gaps)
        yield from (scale * gap for gap in gaps)
