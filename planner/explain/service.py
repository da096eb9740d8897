"""What users of the service see, and the proof, with the formulas filled in."""

from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadow_numbers, shadow_sentences
from planner.plan.schema import Service
from planner.plan.show import near_text
from planner.plan.units import digits, percent_text, seconds_text
from planner.problem.problem import LimitName

TIMES: tuple[LimitName, ...] = ("ttft", "tpot")


def explain_service(subject: Subject) -> Explanation:
    """TTFT, TPOT, throughput and cost, as sums of the two steps."""
    plan, service = subject.plan, subject.plan.service
    if plan.fleet is not None:
        sentences = (*fleet_sentences(subject), *limit_sentences(subject))
        return Explanation("service", sentences, present(service))
    prefill, generate = seconds_text(plan.prefill.step_s), seconds_text(plan.generate.step_s)
    output, prompts = subject.spec.workload.output_tokens.mean, plan.prefill.prompts
    active = f"{plan.generate.batch - (prompts - 1) / 2:g}"
    others = f"the other {prompts - 1} prompts of the prefill arriving + " if prompts > 1 else ""
    reads = f"{active} prefills" if prompts == 1 else f"{active}/{prompts} prefills"
    held = "" if prompts == 1 else f" ({(prompts - 1) / 2:g} slots wait for others on average)"
    chips = subject.machine.slice.chips
    sentences = (
        f"TTFT {seconds_text(service.ttft_s)} = {others}one step in progress {generate} + the prefill {prefill}",
        f"TPOT {seconds_text(service.tpot_s)} = a step {generate} + {reads} of {prefill} "
        f"shared by {output} output tokens: prefills stop generation",
        f"{digits(service.tokens_per_s)} tokens/s = {active} sequences / TPOT{held}",
        f"{digits(service.chip_seconds_per_million_tokens)} chip-seconds per million output tokens "
        f"= {chips} chips x 1e6 / tokens/s",
        *limit_sentences(subject),
        *shadow_sentences(subject.shadows, TIMES),
    )
    return Explanation("service", sentences, {**present(service), **shadow_numbers(subject.shadows, TIMES)})


def fleet_sentences(subject: Subject) -> list[str]:
    """The same for slices that share requests, or that do one phase only."""
    plan, service, fleet = subject.plan, subject.plan.service, subject.plan.fleet
    assert fleet is not None, "only a fleet is told so"
    prefill, generate = seconds_text(plan.prefill.step_s), seconds_text(plan.generate.step_s)
    sent = f" + the hand-over {seconds_text(plan.prefill.prompts * fleet.transfer.seconds)}" if fleet.transfer else ""
    known = plan.generate.step_s + plan.prefill.step_s
    known += plan.prefill.prompts * fleet.transfer.seconds if fleet.transfer else 0.0
    waits = seconds_text(max(0.0, service.ttft_s - known))
    left = percent_text(1 - fleet.prefill_utilization)
    step = (
        "a step, which no prefill interrupts" if plan.pool else f"a step {generate} in the {left} that prefills leave"
    )
    return [
        f"TTFT {seconds_text(service.ttft_s)} = waiting {waits} + the prefill {prefill}{sent} + one step {generate}",
        f"TPOT {seconds_text(service.tpot_s)} = {step}",
        f"{digits(service.tokens_per_s)} tokens/s = {digits(fleet.requests_per_s)} requests/s x "
        f"{subject.spec.workload.output_tokens.mean} output tokens",
        f"{digits(service.chip_seconds_per_million_tokens)} chip-seconds per million output tokens "
        f"= {fleet.chips} chips x 1e6 / tokens/s",
    ]


def present(service: Service) -> dict[str, float]:
    """The numbers of the service that there are: money only with a price."""
    return {name: value for name, value in dict(service).items() if value is not None}


def limit_sentences(subject: Subject) -> list[str]:
    """Each limit of the spec, and the room left to it."""
    limits, service = subject.spec.limits, subject.plan.service
    tails = subject.plan.fleet.tails if subject.plan.fleet else None
    pairs = [("TTFT", limits.ttft_s, service.ttft_s), ("TPOT", limits.tpot_s, service.tpot_s)]
    if tails is not None:
        pairs += [("TTFT of 95 %", limits.ttft_p95_s, tails.ttft_p95_s)]
        pairs += [("TPOT of 95 %", limits.tpot_p95_s, tails.tpot_p95_s)]
    return [
        f"limit on {name}: {seconds_text(limit)}, {seconds_text(limit - value)} to spare"
        for name, limit, value in pairs
        if limit is not None
    ]


def explain_proof(subject: Subject) -> Explanation:
    """Why the plan is called optimal."""
    proof = subject.plan.proof
    dismissed = proof.candidates - proof.solved
    sentences = (
        f"{proof.status} for {proof.objective}: the plan reaches {proof.value}, no other can be below {proof.bound}",
        f"{proof.candidates} candidates (mesh x batch): {proof.solved} solved, "
        f"{dismissed} dismissed because their lower bound is no better",
        *([near_text(proof, proof.near)] if proof.near else []),
        f"what to expect: {subject.plan.accuracy}",
    )
    return Explanation("proof", sentences)
