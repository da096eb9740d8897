"""Plan and request count -> distributions of TTFT and TPOT, throughput, goodput.

Without a request rate the loop is closed: n = `workload.concurrency` clients keep the service busy. Of its first
request the k-th client gets only (k + 1/2) / n of the answer, so that answers end evenly spread and not all at once.
The first 2n requests warm up: they include the rush of all clients at once, and are not counted. The next `requests`
are, in the order in which they are sent, and clients go on sending until the last of those is answered. Throughput is
counted while they are in flight.

At a request rate the loop is open; two requests for each slot, and as many as are counted, warm up.
"""

import simpy

from cost_models.lengths import fitted
from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.simulate.fleet import Slices, arrivals, poisson_gaps, slices_of
from planner.simulate.result import Distribution, Goodput, OfFleet, Simulated
from planner.simulate.server import Request, client
from planner.simulate.source import Source, Warming
from planner.spec import Spec


def simulate(plan: Plan, requests: int, seed: int) -> Simulated:
    """`requests` of the spec's lengths, served as planned."""
    spec, env = spec_of(plan), simpy.Environment()
    slices, source = slices_of(env, plan, seed), Source(spec, env, requests, [])
    rate, clients = rate_of(plan, spec), spec.workload.concurrency
    if rate is None:
        drawn = source.drawn(Warming(2 * clients, clients, clients), seed)
        for _ in range(clients):
            env.process(client(env, slices, drawn))
    else:
        warming = requests + 2 * sum(each.slots for each in slices.generating)
        drawn = source.drawn(Warming(warming, requests), seed)
        env.process(arrivals(env, slices, drawn, poisson_gaps(rate, warming, requests, seed)))
    source.play()
    return measured(plan, spec, source.counted, slices, seed)


def rate_of(plan: Plan, spec: Spec) -> float | None:
    """Requests a second that arrive at a plan's fleet; None where clients keep it busy."""
    return None if plan.fleet is None else spec.workload.requests_per_s


def measured(plan: Plan, spec: Spec, counted: list[Request], slices: Slices, seed: int) -> Simulated:
    """The numbers of a finished replay."""
    tpots = [request.tpot_s for request in counted if request.tpot_s is not None]
    start, end = counted[0].sent_s, max(request.last_s for request in counted)
    made = sum(tokens for slots in slices.generating for at, tokens in slots.made if start < at <= end)
    limits = spec.limits
    return Simulated(
        plan=plan.name,
        requests=len(counted),
        clients=spec.workload.concurrency if rate_of(plan, spec) is None else None,
        slots=plan.generate.batch,
        seed=seed,
        shortened=sum(request.shortened for request in counted),
        narrowed=narrowed(spec),
        prompt_tokens=Distribution.of([float(request.prompt) for request in counted]),
        output_tokens=Distribution.of([float(request.output) for request in counted]),
        ttft_s=Distribution.of([request.ttft_s for request in counted]),
        tpot_s=Distribution.of(tpots),
        tokens_per_s=made / (end - start),
        goodput=goodput(limits.ttft_s, limits.tpot_s, counted, end - start),
        planned_ttft_s=plan.service.ttft_s,
        planned_tpot_s=plan.service.tpot_s,
        planned_tokens_per_s=planned_tokens_per_s(plan, spec),
        fleet=of_fleet(plan, spec, counted, slices, (start, end)),
    )


def planned_tokens_per_s(plan: Plan, spec: Spec) -> float:
    """What the plan predicts of the whole service."""
    if plan.fleet is None:
        return plan.service.tokens_per_s
    return plan.fleet.requests_per_s * spec.workload.output_tokens.mean


def of_fleet(
    plan: Plan, spec: Spec, counted: list[Request], slices: Slices, during: tuple[float, float]
) -> OfFleet | None:
    """How busy the slices of a fleet were, and what was promised of tails; None of a plan without a fleet."""
    fleet, limits, (start, end) = plan.fleet, spec.limits, during
    if fleet is None:
        return None
    return OfFleet(
        mode=fleet.mode,
        requests_per_s=spec.workload.requests_per_s,
        slices=fleet.slices,
        prefill_slices=fleet.prefill_slices,
        slot_utilization=slices.slot_utilization(start, end),
        prefill_utilization=slices.prefill_utilization(start, end),
        goodput_p95=goodput(limits.ttft_p95_s, limits.tpot_p95_s, counted, end - start),
        planned_slot_utilization=fleet.slot_utilization,
        planned_prefill_utilization=fleet.prefill_utilization,
        planned_ttft_p95_s=fleet.tails.ttft_p95_s if fleet.tails else None,
        planned_tpot_p95_s=fleet.tails.tpot_p95_s if fleet.tails else None,
    )


def narrowed(spec: Spec) -> tuple[str, ...]:
    """The lengths whose p95 no lognormal of their mean reaches."""
    named = {"prompt": spec.workload.prompt_tokens, "output": spec.workload.output_tokens}
    return tuple(name for name, each in named.items() if fitted(each.mean, each.p95).p95 < 0.999 * each.p95)


def goodput(ttft_s: float | None, tpot_s: float | None, counted: list[Request], seconds: float) -> Goodput | None:
    """Requests within two limits, and their output tokens per second; None without limits."""
    if ttft_s is None and tpot_s is None:
        return None
    good = [
        request
        for request in counted
        if (ttft_s is None or request.ttft_s <= ttft_s) and (tpot_s is None or (request.tpot_s or 0.0) <= tpot_s)
    ]
    tokens = sum(request.output for request in good)
    return Goodput(ttft_s, tpot_s, len(good) / len(counted), tokens / seconds)
