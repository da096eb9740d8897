"""What a simulation measured: distributions over requests, throughput, and goodput against the spec's limits."""

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

FORMAT_VERSION = "1.0"


@dataclass(frozen=True)
class Distribution:
    """Mean and nearest-rank percentiles."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: list[float]) -> "Distribution":
        """The distribution of some values; zeros for none."""
        ordered = sorted(values) or [0.0]

        def percentile(percent: int) -> float:
            return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]

        mean = sum(ordered) / len(ordered)
        return cls(mean, percentile(50), percentile(95), percentile(99), ordered[-1])


@dataclass(frozen=True)
class Goodput:
    """Requests that kept every limit of the spec by themselves, though limits are promised of the mean."""

    ttft_limit_s: float | None
    tpot_limit_s: float | None
    share: float
    tokens_per_s: float


@dataclass(frozen=True)
class Simulated:
    """One replay, with what the plan predicts beside it."""

    plan: str
    requests: int
    clients: int
    slots: int
    seed: int
    shortened: int
    narrowed: tuple[str, ...]
    prompt_tokens: Distribution
    output_tokens: Distribution
    ttft_s: Distribution
    tpot_s: Distribution
    tokens_per_s: float
    goodput: Goodput | None
    planned_ttft_s: float
    planned_tpot_s: float
    planned_tokens_per_s: float

    def data(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}
