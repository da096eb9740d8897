# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Metrics for Prometheus, and the state of the service as JSON for the status page."""

import time
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .config import PREDICTED_GENERATE_MS, PREDICTED_TPOT_MS, PREDICTED_TTFT_MS
from .measures import Load, Record, RequestTimes
from .service import Service

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0)
UNPREFIXED = ("", "", "")  # name space, subsystem and unit, which the names have already
GAUGES = {
    "waiting": "requests in the queue",
    "queue": "requests that the queue may have",
    "running": "slots in use, those whose prompt is being read among them",
    "slots": "slots",
    "free_pages": "pages of the KV cache that nothing holds",
    "pages": "pages of the KV cache",
    "cached_pages": "pages of the KV cache that the prefix cache keeps, those that sequences use too among them",
    "cached_host_pages": "pages that the prefix cache keeps in host memory",
}
COUNTERS = {
    "read_tokens": "prompt tokens read",
    "made_tokens": "tokens generated",
    "dropped_tokens": "tokens generated beyond the end of a sequence",
    "steps": "generate steps",
    "preemptions": "sequences that had to wait again for want of pages",
    "cached_hbm_tokens": "prompt tokens found in the prefix cache",
    "cached_host_tokens": "prompt tokens found in the prefix cache in host memory",
    "missed_tokens": "prompt tokens that no cache had",
}
"""Fields of Load -> what they are."""


class _Loads(Collector):
    """The load of a service as metrics."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """One metric for each field, and the step's time beside its prediction."""
        load = self._service.load
        for name, what in GAUGES.items():
            yield GaugeMetricFamily(f"serve_{name}", what, getattr(load, name))
        for name, what in COUNTERS.items():
            yield CounterMetricFamily(f"serve_{name}", what, getattr(load, name))
        ready = float(self._service.state == "ready")
        yield GaugeMetricFamily("serve_ready", "whether requests are taken", ready)
        predicted = PREDICTED_GENERATE_MS / 1e3
        yield GaugeMetricFamily("serve_predicted_step_seconds", "generate step, as planned", predicted)
        if load.step_ms is not None:
            measured = "generate step, median of the last ones"
            yield GaugeMetricFamily("serve_measured_step_seconds", measured, load.step_ms / 1e3)


class Metrics:
    """Counts and times of requests, in a registry of their own."""

    def __init__(self, service: Service) -> None:
        """Metrics of a service, which tells them of each request that ends."""
        self.service, self.started, self.times = service, time.monotonic(), RequestTimes()
        kept = self.kept = CollectorRegistry()
        kept.register(_Loads(service))
        self.requests = Counter("serve_requests", "requests that ended, by how", ["finish"], *UNPREFIXED, kept)
        self.refused = Counter("serve_refused", "requests that were refused, by status", ["status"], *UNPREFIXED, kept)
        self.ttft = Histogram("serve_ttft_seconds", "time to the first token", (), *UNPREFIXED, kept, buckets=SECONDS)
        per_token = "time per token after the first"
        self.tpot = Histogram("serve_tpot_seconds", per_token, (), *UNPREFIXED, kept, buckets=TOKEN_SECONDS)
        self.total = Histogram("serve_request_seconds", "time to the end", (), *UNPREFIXED, kept, buckets=SECONDS)
        service.observers.append(self.observe)

    def observe(self, record: Record) -> None:
        """Count a request that ended."""
        self.requests.labels(record.finish).inc()
        self.times.note(record)
        times = ((self.ttft, record.ttft_s), (self.tpot, record.tpot_s), (self.total, record.total_s))
        for histogram, seconds in times:
            if seconds is not None:
                histogram.observe(seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.kept)


def status_of(metrics: Metrics, model: str) -> dict[str, Any]:
    """What the status page shows."""
    service = metrics.service
    load = service.load  # one, as the engine thread replaces it
    return {
        "model": model,
        "state": service.state,
        "uptime_s": round(time.monotonic() - metrics.started, 3),
        "predicted_step_ms": PREDICTED_GENERATE_MS,
        "predicted_ttft_ms": PREDICTED_TTFT_MS,
        "predicted_tpot_ms": PREDICTED_TPOT_MS,
        **{name: getattr(load, name) for name in Load.__dataclass_fields__},
        **metrics.times.told_ms(),
        "finished": _by_label(metrics.requests),
        "refused": _by_label(metrics.refused),
    }


def _by_label(counter: Counter) -> dict[str, int]:
    """Label -> count, of a counter that has one label."""
    samples = [sample for family in counter.collect() for sample in family.samples if sample.name.endswith("_total")]
    return {label: int(sample.value) for sample in samples for label in sample.labels.values()}
