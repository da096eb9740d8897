"""Plan and request count -> distributions of TTFT and TPOT, throughput, goodput.

A closed loop: n = `workload.concurrency` clients keep the server busy. Of its first request the k-th client gets only
(k + 1/2) / n of the answer, so that answers end evenly spread and not all at once. The first 2n requests warm up: they
include the rush of all clients at once, and are not counted. The next `requests` are, in the order in which they are
sent, and clients go on sending until the last of those is answered. Throughput is counted while they are in flight.
"""

from collections.abc import Iterator
from itertools import count
from math import ceil
from random import Random

import simpy

from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.simulate.lengths import fitted, fractions
from planner.simulate.result import Distribution, Goodput, Simulated
from planner.simulate.server import Request, Server, client
from planner.simulate.steps import steps_of
from planner.spec import Spec


def simulate(plan: Plan, requests: int, seed: int) -> Simulated:
    """`requests` of the spec's lengths, served as planned."""
    spec, env = spec_of(plan), simpy.Environment()
    server = Server(env, steps_of(plan), plan.generate.batch, Random(seed))
    clients = spec.workload.concurrency
    counted: list[Request] = []
    source = request_source(spec, env, clients, requests, seed, counted)
    for _ in range(clients):
        env.process(client(env, server, source))
    env.process(server.serve())
    while len(counted) < requests or not all(request.done.triggered for request in counted):
        env.step()
    return measured(plan, spec, counted, server, seed)


def request_source(
    spec: Spec, env: simpy.Environment, clients: int, requests: int, seed: int, counted: list[Request]
) -> Iterator[Request]:
    """Requests for ever: two for each client to warm up, then the counted ones, which are noted, then more."""
    random, workload = Random(seed), spec.workload
    prompts = fitted(workload.prompt_tokens.mean, workload.prompt_tokens.p95)
    outputs = fitted(workload.output_tokens.mean, workload.output_tokens.p95)

    def request(prompt_at: float, output_at: float) -> Request:
        return fitting(workload.max_context, prompts.at(prompt_at), outputs.at(output_at), env)

    draws = zip(range(2 * clients), fractions(clients, random), fractions(clients, random), strict=False)
    for number, prompt_at, output_at in draws:
        warming = request(prompt_at, output_at)
        if number < clients:
            warming.output = ceil(warming.output * (number + 0.5) / clients)
        yield warming
    prompt_draws, output_draws = fractions(requests, random), fractions(requests, random)
    for number in count():
        each = request(next(prompt_draws), next(output_draws))
        if number < requests:
            counted.append(each)
        yield each


def fitting(context: int, prompt: int, output: int, env: simpy.Environment) -> Request:
    """A request cut to what one sequence of the KV cache holds; its output keeps at least one token."""
    kept = min(prompt, context - 1)
    made = min(output, context - kept)
    return Request(kept, made, env.event(), shortened=(kept, made) != (prompt, output))


def measured(plan: Plan, spec: Spec, counted: list[Request], server: Server, seed: int) -> Simulated:
    """The numbers of a finished replay."""
    tpots = [request.tpot_s for request in counted if request.tpot_s is not None]
    start, end = counted[0].sent_s, max(request.last_s for request in counted)
    made = sum(tokens for at, tokens in server.made if start < at <= end)
    return Simulated(
        plan=plan.name,
        requests=len(counted),
        clients=spec.workload.concurrency,
        slots=plan.generate.batch,
        seed=seed,
        shortened=sum(request.shortened for request in counted),
        narrowed=narrowed(spec),
        prompt_tokens=Distribution.of([float(request.prompt) for request in counted]),
        output_tokens=Distribution.of([float(request.output) for request in counted]),
        ttft_s=Distribution.of([request.ttft_s for request in counted]),
        tpot_s=Distribution.of(tpots),
        tokens_per_s=made / (end - start),
        goodput=goodput(spec, counted, end - start),
        planned_ttft_s=plan.service.ttft_s,
        planned_tpot_s=plan.service.tpot_s,
        planned_tokens_per_s=plan.service.tokens_per_s,
    )


def narrowed(spec: Spec) -> tuple[str, ...]:
    """The lengths whose p95 no lognormal of their mean reaches."""
    named = {"prompt": spec.workload.prompt_tokens, "output": spec.workload.output_tokens}
    return tuple(name for name, each in named.items() if fitted(each.mean, each.p95).p95 < 0.999 * each.p95)


def goodput(spec: Spec, counted: list[Request], seconds: float) -> Goodput | None:
    """Requests within the limits, and their output tokens per second; None without limits."""
    ttft_s, tpot_s = spec.limits.ttft_s, spec.limits.tpot_s
    if ttft_s is None and tpot_s is None:
        return None
    good = [
        request
        for request in counted
        if (ttft_s is None or request.ttft_s <= ttft_s) and (tpot_s is None or (request.tpot_s or 0.0) <= tpot_s)
    ]
    tokens = sum(request.output for request in good)
    return Goodput(ttft_s, tpot_s, len(good) / len(counted), tokens / seconds)
