# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What a service measures: requests from their arrival to their end, generate steps, and what is in use."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from .scheduler import Scheduler
from .sequence import Event, Finish


@dataclass
class Record:
    """A request: its tokens, and when it came, had its first token and ended, in seconds of one clock."""

    id: str
    prompt_tokens: int
    arrived: float
    first: float | None = None
    ended: float | None = None
    tokens: int = 0
    finish: Finish | None = None

    def note(self, event: Event, now: float) -> None:
        """Count an event."""
        if event.token is not None:
            self.tokens += 1
            self.first = self.first or now
        if event.finish is not None:
            self.finish, self.ended = event.finish, now

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token."""
        return None if self.first is None else self.first - self.arrived

    @property
    def tpot_s(self) -> float | None:
        """Time per token after the first."""
        if self.first is None or self.ended is None or self.tokens < 2:
            return None
        return (self.ended - self.first) / (self.tokens - 1)

    @property
    def total_s(self) -> float | None:
        """Time to the end."""
        return None if self.ended is None else self.ended - self.arrived


@dataclass(frozen=True)
class Load:
    """What is in use, and what was counted since the start."""

    waiting: int = 0
    running: int = 0
    slots: int = 0
    free_pages: int = 0
    pages: int = 0
    read_tokens: int = 0
    made_tokens: int = 0
    dropped_tokens: int = 0
    steps: int = 0
    preemptions: int = 0
    cached_hbm_tokens: int = 0
    cached_host_tokens: int = 0
    missed_tokens: int = 0
    step_ms: float | None = None  # median of the last generate steps


def load_of(scheduler: Scheduler, step_s: float | None) -> Load:
    """The load of a scheduler, whose thread this is called in."""
    places, counters = scheduler.places, scheduler.counters
    cached, groups = places.cache.counters, range(scheduler.runner.groups)
    return Load(
        waiting=scheduler.waiting,
        running=len(places.sequences()),
        slots=scheduler.runner.slots,
        free_pages=sum(places.pages.free(group) for group in groups),
        pages=len(groups) * scheduler.runner.pages_per_group,
        read_tokens=counters.read_tokens,
        made_tokens=counters.made_tokens,
        dropped_tokens=counters.dropped_tokens,
        steps=counters.steps,
        preemptions=counters.preemptions,
        cached_hbm_tokens=cached.hbm_tokens,
        cached_host_tokens=cached.host_tokens,
        missed_tokens=cached.missed_tokens,
        step_ms=None if step_s is None else step_s * 1e3,
    )


@dataclass
class StepTimes:
    """Seconds of the last generate steps beside which no prompt was read."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=100))

    def note(self, seconds: float, steps: int, read_tokens: int) -> None:
        """Count what one call of the scheduler took, in which so many steps were called and tokens read."""
        if steps and not read_tokens:
            self.seconds.append(seconds / steps)

    @property
    def median_s(self) -> float | None:
        """The median, or None before the first."""
        return median(self.seconds) if self.seconds else None
