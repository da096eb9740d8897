"""The frontier by its definition, and the trade-off of one setting by enumeration."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem.problem import Problem
from planner.report.scale import FEW, MANY, Scale
from planner.sweep.frontier import undominated
from planner.sweep.schema import LatencyName
from planner.sweep.solve import latency_of, one_batch, trade_off
from tests.solve.toys import problems, solutions

FEW_VALUES = st.integers(0, 6).map(float)
PAIRS = st.lists(st.tuples(FEW_VALUES | st.floats(0, 10), FEW_VALUES | st.floats(0, 10)), max_size=40)
ROOT = Path(__file__).resolve().parents[2]


def dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_the_frontier_holds_what_nothing_dominates_and_something_on_it_dominates_the_rest(pairs):
    kept = undominated(pairs)
    front = [pair for pair, on in zip(pairs, kept, strict=True) if on]
    for pair, on in zip(pairs, kept, strict=True):
        assert any(dominates(other, pair) for other in front) != on
        assert any(dominates(other, pair) for other in pairs) != on


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.randoms())
def test_the_frontier_does_not_depend_on_the_order(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    ordered = sorted(pair for pair, on in zip(pairs, undominated(pairs), strict=True) if on)
    assert ordered == sorted(pair for pair, on in zip(shuffled, undominated(shuffled), strict=True) if on)


@pytest.mark.parametrize("latency", ["ttft", "tpot"])
@settings(max_examples=80, deadline=None)
@given(problem=problems(), data=st.data())
def test_a_trade_off_is_every_undominated_solution_of_one_batch(latency: LatencyName, problem: Problem, data):
    index = data.draw(st.integers(0, len(problem.batches) - 1))
    alone = replace(one_batch(problem, index), goal="throughput")
    found = trade_off(alone, latency, "throughput")
    pairs = set()
    for each in solutions(alone):
        limits = ((alone.limits.hbm, each.hbm), (alone.limits.ttft, each.ttft), (alone.limits.tpot, each.tpot))
        if all(limit is None or used <= limit for limit, used in limits):
            pairs.add((each.ttft if latency == "ttft" else each.tpot * alone.output_tokens, each.goal))
    expected = {pair for pair in pairs if not any(dominates(other, pair) for other in pairs)}
    assert [(latency_of(each, latency), each.value) for each in found] == sorted(expected, reverse=True)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20))
def test_a_scale_holds_its_values_and_has_some_ticks(values):
    scale = Scale.over(values, 70, 700)
    assert all(70 <= scale.at(value) <= 700 for value in values)
    ticks = scale.ticks()
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= MANY
    if max(values) > 1.3 * min(values):
        assert len(ticks) >= FEW // 2
