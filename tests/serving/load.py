"""Requests that come at random, and what became of them."""

from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.serving.fake_runner import VOCAB, FakeRunner, Sampling, expected


@dataclass
class Outcome:
    """What a request was given: its tokens in order, and how it ended."""

    tokens: list[int] = field(default_factory=list)
    finish: str | None = None


@dataclass
class Load:
    """A scheduler over a fake runner, and the outcome of each request so far."""

    core: SimpleNamespace
    runner: FakeRunner
    limits: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    requests: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = self.core.Scheduler(self.runner, self.core.Limits(**self.limits))

    def add(self, prompt: list[int] | range, max_tokens: int | None = None, **other: Any) -> str:
        """The id of a new request."""
        sampling = Sampling(other.pop("seed", 0), other.get("needs_sync", False))
        name = f"r{len(self.requests)}"
        request = self.core.Request(name, tuple(prompt), max_tokens, sampling, **other)
        self.scheduler.add(request)
        self.requests[name], self.outcomes[name] = request, Outcome()
        return name

    def step(self) -> list[Any]:
        """The events of one step, also noted in the outcomes; everything must add up after it."""
        events = self.scheduler.step()
        self.scheduler.check()
        on_their_way = sum(handle.generated for handle in self.runner.handles)
        assert on_their_way < self.scheduler.limits.depth
        for event in events:
            outcome = self.outcomes[event.request]
            assert outcome.finish is None, f"{event} after the end"
            if event.token is not None:
                assert event.info == ("told", event.token)
                outcome.tokens.append(event.token)
            outcome.finish = event.finish
        return list(events)

    def finish(self, steps: int = 5000) -> None:
        """Take steps until all is done."""
        for _ in range(steps):
            if self.scheduler.idle:
                return
            self.step()
        raise AssertionError("the scheduler does not come to an end")

    def expected(self, name: str) -> list[int]:
        """The tokens of a request that runs to its end."""
        request, runner = self.requests[name], self.runner
        room = min(runner.context, min(runner.pages_per_slot, runner.pages_per_group) * runner.tokens_per_page)
        tokens = min(request.max_tokens or room, room - len(request.prompt))
        return expected(request.prompt, tokens, request.stop_ids, request.sampling, request.sampling.steered)

    def check_outcomes(self) -> None:
        """Every request has the tokens that it has alone; where it was cancelled, the first of them."""
        for name, outcome in self.outcomes.items():
            tokens = self.expected(name)
            if outcome.finish == "cancelled":
                assert outcome.tokens == tokens[: len(outcome.tokens)]
            else:
                assert outcome.tokens == tokens, name
                assert outcome.finish == ("stop" if tokens[-1] in self.requests[name].stop_ids else "length")

    def check_base_line(self) -> None:
        """No slot and no page is left in use, but for pages of the prefix cache, and these can all be had."""
        places = self.scheduler.places
        assert places.sequences() == []
        assert self.runner.in_use == set()
        assert not self.runner.handles
        places.pages.check(places.cache.held())
        for group in range(self.runner.groups):
            taken = places.cache.take(group, self.runner.pages_per_group)
            for page in taken:
                places.pages.drop(page)
            assert places.pages.free(group) == self.runner.pages_per_group
        assert list(places.cache.held()) == []
        self.scheduler.check()


def drawn_prompt(random: Random, longest: int) -> list[int]:
    """Tokens of which many prompts have the same first ones, token 0 among them."""
    alike = random.randrange(3)
    begin = [(alike * position) % VOCAB for position in range(random.randrange(longest + 1))]
    end = [random.randrange(3) for _ in range(random.randrange(1, 6))]
    return (begin + end)[:longest]


def add_drawn(load: Load, random: Random) -> None:
    """One more request, if the queue takes it."""
    longest = load.scheduler.longest_prompt
    prompt = drawn_prompt(random, longest)
    if load.outcomes and random.random() < 0.3:  # a conversation goes on
        before = random.choice(list(load.outcomes))
        prompt = [*load.requests[before].prompt, *load.outcomes[before].tokens, *prompt[:2]][:longest]
    stops = frozenset(random.sample(range(VOCAB), random.choice((0, 0, 3, 10))))
    most, seed, sync = random.choice((None, 1, 2, 5, 20)), random.randrange(2), random.random() < 0.03
    if load.scheduler.waiting < load.scheduler.limits.queue:
        load.add(prompt, most, stop_ids=stops, seed=seed, needs_sync=sync)


def play(load: Load, random: Random, operations: int, cancels: float = 0.05) -> None:
    """So many additions, cancellations and steps at random, and then steps until all is done."""
    for _ in range(operations):
        drawn = random.random()
        if drawn < cancels and load.requests:
            load.scheduler.cancel(random.choice(list(load.requests)))
        elif drawn < 0.35:
            add_drawn(load, random)
        else:
            load.step()
    load.finish()
