"""Fleets: the search equals an enumeration of layouts, loads and numbers of slices that shares nothing with it."""

from dataclasses import replace
from fractions import Fraction
from math import isclose

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.queueing import gathering_p95, mean_wait_s, most_slot_utilization, p95_of_sum, p95_wait_s
from planner.problem.arrivals import NS
from planner.problem.build import build
from planner.problem.drafts import tokens_per_step
from planner.problem.pools import Apart, Pool
from planner.problem.problem import MeshTable, Place, Problem, steps_of_request
from planner.solve.fleet import FleetSolution, search_fleet
from planner.solve.search import search
from planner.solve.verify import faults
from planner.spec import Spec, spec_from_data, spec_to_data
from tests.problem.specs import specs
from tests.solve.test_real import TINY_SLICES

EXAMPLES = 120
MOST = 40
"""Slices up to which fleets are enumerated."""


@st.composite
def served(draw, mode: str, rate: bool) -> Spec:
    """A small spec with a request rate, or clients that come back; limits loose enough to be kept now and then."""
    data = spec_to_data(draw(specs(TINY_SLICES, concurrency=8, most_slices=2)))
    times = st.sampled_from(["1 ms", "5 ms", "20 ms", "100 ms", "1 s", "20 s"])
    names = ("ttft", "tpot", "ttft_p95", "tpot_p95") if rate else ("ttft", "tpot")
    data["limits"] = {name: draw(times) for name in draw(st.sets(st.sampled_from(names), max_size=2))}
    drafts = data["serving"].get("speculation")
    data["serving"] = {"mode": mode} | ({"speculation": drafts} if drafts else {})
    if rate:
        data["workload"]["requests_per_s"] = draw(st.sampled_from([0.5, 3.0, 20.0, 150.0]))
        data["objective"] = "cost"
    if not rate or draw(st.booleans()):
        data["hardware"]["fleet_chips"] = draw(st.sampled_from([8, 16, 60] if mode == "disaggregated" else [4, 8, 16]))
    return spec_from_data(data)


def combinations(table: MeshTable, residual: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prefill, step and HBM of every combination of legal options with one layout of the residual stream."""
    found = []
    for price in ("prefill_ns", "generate_ns", "hbm"):
        total = np.zeros(1, dtype=np.int64)
        for block in table.blocks:
            column = block.column(0)
            values = block.prefill_ns if price == "prefill_ns" else getattr(column, price)
            total = (total[:, None] + values[column.legal & (block.residual == residual)]).ravel()
        found.append(total)
    return found[0], found[1], found[2]


def least_fleet(problem: Problem) -> tuple[int, Fraction] | None:
    """Chips and goal of the best fleet of slices that take turns, by trying everything."""
    found = [
        each
        for table in problem.meshes
        for at, batch in enumerate(problem.batches)
        if table.prompts <= batch
        for each in fleets_of(problem, table, at)
    ]
    return min(found, default=None)


def fleets_of(problem: Problem, table: MeshTable, at: int) -> list[tuple[int, Fraction]]:
    """The best fleet of each size, of one mesh, number of prompts and batch."""
    assert problem.arrivals is not None
    one = replace(
        table, price=lambda: tuple(replace(b, price=lambda _, b=b: b.column(at), _columns={}) for b in table.blocks)
    )
    found = []
    times = [combinations(one, residual) for residual in range(table.residuals)]
    prefill, step, hbm = (np.concatenate(each) for each in zip(*times, strict=True))
    held = np.ones(len(hbm), dtype=np.bool_) if problem.limits.hbm is None else hbm <= problem.limits.hbm
    for slices in range(1, min(MOST, problem.arrivals.most_slices(table.chips)) + 1):
        place = Place(
            table.chips,
            table.prompts,
            problem.batches[at],
            tokens_per_step=table.tokens_per_step,
            slices=slices,
            reading=table.reading,
        )
        kept = held.copy()
        for a, b, c in problem.arrivals.whole_rows(problem.limits, Fraction(problem.output_tokens), place):
            kept &= a * prefill + b * step <= c
        if kept.any():
            steps, mean = steps_of_request(problem.output_tokens, table.tokens_per_step), table.reading.mean
            alone = 4 * mean.numerator * prefill + int(4 * (1 + steps)) * mean.denominator * step
            filling = Fraction(table.prompts - 1, 2) * NS / problem.arrivals.per_s
            goal = Fraction(int(alone[kept].min()), 4 * mean.denominator) + filling
            return [*found, (table.chips * slices, goal)]
    return found


@settings(max_examples=EXAMPLES, deadline=None)
@given(served("interleaved", rate=True))
def test_the_fewest_chips_that_serve_a_rate_are_found(spec: Spec):
    problem = build(spec).problem
    solution, least = search(problem), least_fleet(problem)
    if solution is None or solution.taken.candidate.slices > MOST:
        assert least is None or solution is not None
        return
    candidate = solution.taken.candidate
    assert faults(solution.taken) == []
    assert least is not None
    assert candidate.table.chips * candidate.slices == least[0]
    assert isclose(solution.value - candidate.paid, least[1], rel_tol=1e-6), "large weights are rounded"
    assert solution.bound == solution.value


def shortest(pool: Pool, price: str) -> int | None:
    """The shortest step of a pool, by trying every layout."""
    best = None
    for table in pool.problem.meshes:
        for residual in range(table.residuals):
            prefill, step, hbm = combinations(table, residual)
            times = prefill if price == "prefill" else step
            most = pool.problem.limits.hbm
            kept = times if most is None else times[hbm <= most]
            if len(kept) and (best is None or kept.min() < best):
                best = int(kept.min())
    return best


def least_apart(apart: Apart) -> tuple[float, float] | None:
    """Chips (0 for a closed loop) and goal of the best fleet of both kinds of slices, by trying everything."""
    reads = [(pool, shortest(pool, "prefill")) for pool in apart.prefill]
    makes = [(pool, shortest(pool, "generate")) for pool in apart.generate]
    found = []
    for one, prefill_ns in reads:
        for other, step_ns in makes:
            if prefill_ns is None or step_ns is None:
                continue
            for link in apart.links[one.slice, other.slice]:
                sent = link.ns_per_byte * apart.sent_bytes
                for slices in numbers(apart, one, other, link, prefill_ns, step_ns):
                    value = valued(apart, one, other, prefill_ns, step_ns, sent, slices)
                    found += [] if value is None else [value]
    return min(found, default=None)


def numbers(apart: Apart, one: Pool, other: Pool, link, prefill_ns: int, step_ns: int) -> list[tuple[int, int]]:
    """Numbers of slices of both kinds that a fleet and a link allow."""
    most = [each for each in (apart.demand.fleet_chips, link.most_chips) if each is not None]
    return [
        (reading, making)
        for reading in range(1, MOST + 1)
        for making in range(1, MOST + 1)
        if all(reading * one.chips + making * other.chips <= each for each in most)
        and (not link.one_each or (reading, making) == (1, 1))
    ]


def valued(
    apart: Apart, one: Pool, other: Pool, prefill_ns: int, step_ns: int, sent: float, slices: tuple[int, int]
) -> tuple[float, float] | None:
    """Chips and goal of one fleet, or None where it breaks a limit."""
    demand, (reading, making) = apart.demand, slices
    limits, out, prompts, batch = demand.limits, demand.output_tokens, one.load, other.load
    chips = reading * one.chips + making * other.chips
    token_ns = step_ns / float(tokens_per_step(other.drafts))
    if any(limit is not None and token_ns > limit for limit in (limits.tpot, limits.tpot_p95)):
        return None
    if demand.arrivals is None:
        if demand.goal == "latency" and making * batch != demand.concurrency:
            return None
        if demand.goal != "latency" and making * batch + reading * prompts * one.stages > demand.concurrency:
            return None
        read_ns = prefill_ns / one.stages
        between = max(read_ns / prompts / reading, sent / reading, out * token_ns / batch / making, sent / making)
        ttft = (prompts - 1) / 2 * between + prefill_ns + prompts * sent + step_ns
        goal = {"cost": chips * between, "throughput": between, "latency": ttft + out * token_ns}[demand.goal]
        return None if limits.ttft is not None and ttft > limits.ttft else (0.0, goal)
    per_ns, busy = float(demand.arrivals.per_s) / NS, float(demand.arrivals.most_busy)
    taken = one.problem.meshes[0].reading
    read_ns = prefill_ns / one.stages
    whole_ns, later_ns = read_ns * float(taken.mean), prefill_ns - read_ns
    if per_ns * sent > busy * min(reading, making) or per_ns * whole_ns / prompts > busy * reading:
        return None
    if per_ns * out * token_ns > most_slot_utilization(batch) * batch * making:
        return None
    queue = per_ns / reading / prompts, whole_ns, 1.0, taken.spread
    filling, handed = (prompts - 1) / 2 / per_ns, prompts * sent + step_ns
    waits = mean_wait_s(*queue), p95_wait_s(*queue)
    mean = filling + whole_ns + later_ns * float(taken.mean) + waits[0] + handed
    parts = [(filling, gathering_p95(prompts) / per_ns), (whole_ns, read_ns * float(taken.p95)), waits]
    tail = p95_of_sum(parts) + later_ns * float(taken.p95) + handed
    if any(limit is not None and value > limit for limit, value in ((limits.ttft, mean), (limits.ttft_p95, tail))):
        return None
    return chips, filling + prefill_ns * float(taken.mean) + handed + out * token_ns


def as_value(found: FleetSolution | None, apart: Apart) -> tuple[float, float] | None:
    """Chips and goal of a solution."""
    if found is None:
        return None
    return (found.choice.chips if apart.demand.arrivals else 0.0), found.choice.goal


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.booleans().flatmap(lambda rate: served("disaggregated", rate)))
def test_the_best_fleet_of_slices_for_each_phase_is_found(spec: Spec):
    (apart,) = build(spec).apart
    solution, least = search_fleet(apart), least_apart(apart)
    found = as_value(solution, apart)
    if solution is not None and max(solution.choice.prefill_slices, solution.choice.slices) > MOST:
        return
    if found is None or least is None:
        assert found == least
        return
    assert found[0] == least[0]
    assert isclose(found[1], least[1], rel_tol=1e-9)
    assert solution is not None
    assert solution.bound == solution.value
    assert faults(solution.prefill) == faults(solution.generate) == []
