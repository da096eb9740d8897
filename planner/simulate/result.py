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
class OfFleet:
    """What there is to tell of a fleet besides: how busy its slices were, the limits on tails, and what was planned.

    Utilisations are parts of one: of the slots of the slices that generate, and of the time of those that read prompts.
    """

    mode: str
    requests_per_s: float | None
    slices: int
    prefill_slices: int | None
    slot_utilization: float
    prefill_utilization: float
    goodput_p95: Goodput | None
    """Requests that kept every limit on the p95."""
    planned_slot_utilization: float
    planned_prefill_utilization: float
    planned_ttft_p95_s: float | None
    planned_tpot_p95_s: float | None


@dataclass(frozen=True)
class Simulated:
    """One replay, with what the plan predicts beside it."""

    plan: str
    requests: int
    clients: int | None
    """Clients that keep the service busy; None where requests arrive at a rate."""
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
    fleet: OfFleet | None = None

    def data(self) -> dict[str, Any]:
        """The result as plain data; the fleet is left out where there is none."""
        found = {"format_version": FORMAT_VERSION, **asdict(self)}
        return {key: value for key, value in found.items() if key != "fleet" or value is not None}
