"""A logarithmic axis: where a value stands, and which values are worth a tick."""

from dataclasses import dataclass
from math import floor, log10

MANTISSAS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), tuple(1 + 0.1 * step for step in range(90)))
ROOM = 0.06
LEAST_ROOM = 1.02
FEW, MANY = 4, 9


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on a line from `start` to `end`, in tenfolds."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: list[float], start: float, end: float) -> "Scale":
        """The scale that holds all values, with some room at both ends."""
        low, high = min(values), max(values)
        room = max((high / low) ** ROOM, LEAST_ROOM)
        return cls(low / room, high * room, start, end)

    def at(self, value: float) -> float:
        """Where a value stands, to a tenth."""
        share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round values in range: the coarsest set that is not too few, thinned when it is too many."""
        for mantissas in MANTISSAS:
            found = self.within(mantissas)
            if len(found) >= FEW:
                break
        return found[:: -(-len(found) // MANY)] if found else []

    def ticks_apart(self, least: float) -> list[float]:
        """Of the round values those that stand at least so far from the one before."""
        found: list[float] = []
        for value in self.ticks():
            if not found or abs(self.at(value) - self.at(found[-1])) >= least:
                found.append(value)
        return found

    def within(self, mantissas: tuple[float, ...]) -> list[float]:
        """Every mantissa times a power of ten that is in range."""
        powers = range(floor(log10(self.low)), floor(log10(self.high)) + 1)
        values = [float(f"{mantissa * 10.0**power:.6g}") for power in powers for mantissa in mantissas]
        return [value for value in values if self.low <= value <= self.high]
