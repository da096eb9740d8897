"""Fractions at which the token counts of requests are drawn from their distribution."""

from collections.abc import Iterator
from random import Random


def spread(count: int, random: Random) -> list[float]:
    """`count` fractions, one from each of `count` equal strata, in random order.

    A sample so drawn has the mean and the tail of its distribution even when it is small.
    """
    fractions = [(place + random.uniform(0.001, 0.999)) / count for place in range(count)]
    random.shuffle(fractions)
    return fractions


def fractions(count: int, random: Random) -> Iterator[float]:
    """A spread of `count` fractions, then another, for ever."""
    while True:
        yield from spread(count, random)
