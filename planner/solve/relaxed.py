"""What limits cost, without the solver: a good solution, and how far from it an option may be.

A limit is relaxed into the goal at a price of so much per unit of what it bounds. For any price the sum

    goal + price * quantity  <=  goal of the best known solution + price * bound

holds for every solution that keeps the limit and is no worse than the best known one, and the least sum over each
residual layout is a minimum block by block. So it dismisses options before the solver sees them; and the cheapest
solution at some price often keeps the limits, which makes it the best known one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np

from planner.problem.problem import Bools, Weights
from planner.solve.candidate import NEVER, Candidate, total
from planner.solve.model import Taken

LARGEST_SUM = 2**59
CLOSE = 1.05
MOST_PRICES = 24

Row = tuple[Weights, int]


class Price(NamedTuple):
    """What a unit of a limited quantity is charged."""

    price: int
    row: Weights
    bound: int


@dataclass(frozen=True)
class Relaxed:
    """The least goal that is known to be reached in a candidate, unscaled, and the prices that prove most."""

    at_most: int | None
    prices: tuple[Price, ...] = ()


class Tried(NamedTuple):
    """The cheapest solution where a limit is relaxed at a price, and the lower bound on the goal that it proves."""

    price: int
    taken: Taken
    bound: int


def relaxed(candidate: Candidate, at_most: int | None, among: Sequence[Bools] | None = None) -> Relaxed:
    """What is known of solutions made of the options `among` all, and of one that reaches `at_most`."""
    goal, limits = candidate.weights(), candidate.limit_rows()
    free = cheapest(candidate, goal, among)
    if free is None:
        return Relaxed(at_most)
    known, prices = [free], []
    for row, bound in limits:
        if free.quantity(row) > bound:
            tried = list(priced(candidate, free, row, bound, among))
            known += [each.taken for each in tried]
            prices += [Price(max(tried, key=lambda each: each.bound).price, row, bound)] if tried else []
    kept = [each.quantity(goal) for each in known if all(each.quantity(row) <= bound for row, bound in limits)]
    return Relaxed(min([*kept, *([] if at_most is None else [at_most])], default=None), tuple(prices))


def sums(candidate: Candidate, prices: Iterable[Price], at_most: int | None) -> list[Row]:
    """Sums of the goal and a limited quantity, each with what no solution within `at_most` exceeds."""
    if at_most is None:
        return []
    return [(plus(candidate.weights(), price, row), at_most + price * bound) for price, row, bound in prices]


def priced(
    candidate: Candidate, free: Taken, row: Weights, bound: int, among: Sequence[Bools] | None
) -> Iterator[Tried]:
    """The cheapest solutions at prices of a limit that close in on the least at which it is kept; `free`: at none."""
    goal, most = candidate.weights(), highest_price(candidate, row)
    low, high, price = 1, None, max(1, free.quantity(goal) // max(1, free.quantity(row)))
    for _ in range(MOST_PRICES):
        price = min(price, most)
        taken = cheapest(candidate, plus(goal, price, row), among)
        if price < 1 or taken is None:
            return
        yield Tried(price, taken, taken.quantity(plus(goal, price, row)) - price * bound)
        if taken.quantity(row) <= bound:
            high = price
        else:
            low = price
        if low >= most or (high is not None and high <= low * CLOSE):
            return
        price = isqrt(low * high) if high is not None else price * 4


def highest_price(candidate: Candidate, row: Weights) -> int:
    """The highest price at which no sum overflows."""
    largest = 1
    for block in candidate.table.blocks:
        quantities = candidate.quantities(block, row)
        largest += int(quantities.max(initial=0, where=quantities < NEVER))
    return int(LARGEST_SUM // largest)


def plus(goal: Weights, price: int, row: Weights) -> Weights:
    """The goal and a limited quantity at a price, unscaled."""
    return Weights(
        goal.prefill + price * row.prefill,
        goal.generate + price * row.generate,
        goal.hbm + price * row.hbm,
        change=goal.change + price * row.change,
    )


def cheapest(candidate: Candidate, weights: Weights, among: Sequence[Bools] | None = None) -> Taken | None:
    """The solution of least quantity that limits are not asked of, in a residual layout that each of them allows."""
    blocks = candidate.table.blocks
    costs = [candidate.quantities(block, weights) for block in blocks]
    if among is not None:
        costs = [np.where(kept, cost, NEVER) for kept, cost in zip(among, costs, strict=True)]
    least = [candidate.least_of(block, cost) for block, cost in zip(blocks, costs, strict=True)]
    whole = np.where(candidate.residual_bounds() < NEVER, total(least), NEVER)
    residual = int(whole.argmin())
    if whole[residual] >= NEVER:
        return None
    picked = []
    for number, (block, cost) in enumerate(zip(blocks, costs, strict=True)):
        rows = np.flatnonzero(block.residual == residual)
        picked.append(candidate.choice(number, int(rows[cost[rows].argmin()])))
    return Taken(candidate, tuple(picked))
