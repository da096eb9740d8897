"""The frontier: points that no other point matches in both quantities and beats in one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from planner.plan.units import digits, seconds_text
from planner.sweep.schema import AgainstName, LatencyName, Point


@dataclass(frozen=True)
class Measure:
    """A quantity that points are compared by. `better` is the sign of an improvement: -1 where less is better."""

    title: str
    value: Callable[[Point], float]
    text: Callable[[float], str]
    better: int = -1

    def loss(self, point: Point) -> float:
        """The quantity with less as better."""
        return -self.better * self.value(point)

    def shown(self, point: Point) -> str:
        """The quantity as text."""
        return self.text(self.value(point))


MEASURES: dict[LatencyName | AgainstName, Measure] = {
    "tpot": Measure("TPOT", lambda point: point.service.tpot_s, seconds_text),
    "ttft": Measure("TTFT", lambda point: point.service.ttft_s, seconds_text),
    "throughput": Measure("tokens/s", lambda point: point.service.tokens_per_s, digits, better=1),
    "cost": Measure("chip-s per 1M tokens", lambda point: point.service.chip_seconds_per_million_tokens, digits),
}


def undominated(losses: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """For each pair, less being better, whether no other is as good in both and better in one. Equal pairs share."""
    kept = [False] * len(losses)
    least = float("inf")
    group: tuple[float, float] | None = None
    for index in sorted(range(len(losses)), key=lambda index: losses[index]):
        x, y = losses[index]
        if y < least:
            least, group = y, (x, y)
        kept[index] = (x, y) == group
    return tuple(kept)


def marked(points: Sequence[Point], latency: LatencyName, against: AgainstName) -> tuple[Point, ...]:
    """The points, those on the frontier marked."""
    x, y = MEASURES[latency], MEASURES[against]
    kept = undominated([(x.loss(point), y.loss(point)) for point in points])
    return tuple(
        point.model_copy(update={"on_frontier": True}) if on else point for point, on in zip(points, kept, strict=True)
    )


def by_latency(points: Iterable[Point], latency: LatencyName, against: AgainstName) -> list[Point]:
    """Points, the fastest first; of equal ones the better in the other quantity."""
    x, y = MEASURES[latency], MEASURES[against]
    return sorted(points, key=lambda point: (x.loss(point), y.loss(point)))
