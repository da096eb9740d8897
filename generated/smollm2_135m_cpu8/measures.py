# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What a service measures: requests from their arrival to their end, generate steps, and what is in use."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from .scheduler import Scheduler
from .sequence import Event, Finish

LAST = 100  # steps and requests of which the newest times are told


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
    queue: int = 0
    running: int = 0
    slots: int = 0
    free_pages: int = 0
    pages: int = 0
    cached_pages: int = 0
    cached_host_pages: int = 0
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
    cache, groups = places.cache, range(scheduler.runner.groups)
    cached = cache.counters
    return Load(
        waiting=scheduler.waiting,
        queue=scheduler.limits.queue,
        running=len(places.sequences()),
        slots=scheduler.runner.slots,
        free_pages=sum(places.pages.free(group) for group in groups),
        pages=len(groups) * scheduler.runner.pages_per_group,
        cached_pages=cache.pages_in_hbm,
        cached_host_pages=cache.pages_in_host,
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

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))

    def note(self, seconds: float, steps: int, read_tokens: int) -> None:
        """Count what one call of the scheduler took, in which so many steps were called and tokens read."""
        if steps and not read_tokens:
            self.seconds.append(seconds / steps)

    @property
    def median_s(self) -> float | None:
        """The median, or None before the first."""
        return median(self.seconds) if self.seconds else None


@dataclass
class RequestTimes:
    """Times to the first token and per token after it, in seconds, of the last requests that had such."""

    ttft_s: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))
    tpot_s: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))

    def note(self, record: Record) -> None:
        """Count a request that ended."""
        for kept, seconds in ((self.ttft_s, record.ttft_s), (self.tpot_s, record.tpot_s)):
            if seconds is not None:
                kept.append(seconds)

    def told_ms(self) -> dict[str, float | None]:
        """Medians and 95th percentiles in milliseconds; None before the first."""
        return {
            "ttft_ms": percentile_ms(self.ttft_s, 50),
            "ttft_p95_ms": percentile_ms(self.ttft_s, 95),
            "tpot_ms": percentile_ms(self.tpot_s, 50),
            "tpot_p95_ms": percentile_ms(self.tpot_s, 95),
        }


def percentile_ms(seconds: Iterable[float], percent: int) -> float | None:
    """The least of `seconds` that so many percent of them do not exceed, in milliseconds; None where there are none."""
    ranked = sorted(seconds)
    return ranked[ceil(percent * len(ranked) / 100) - 1] * 1e3 if ranked else None
