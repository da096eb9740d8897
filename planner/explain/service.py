"""What users of the service see, and the proof, with the formulas filled in."""

from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadow_numbers, shadow_sentences
from planner.plan.machine import place_of
from planner.plan.schema import Plan, Service
from planner.plan.show import near_text
from planner.plan.units import digits, percent_text, seconds_text
from planner.problem.problem import LimitName, Place, steps_of_request

TIMES: tuple[LimitName, ...] = ("ttft", "tpot")


def explain_service(subject: Subject) -> Explanation:
    """TTFT, TPOT, throughput and cost, as sums of the two steps."""
    plan, service = subject.plan, subject.plan.service
    if plan.fleet is not None:
        sentences = (*fleet_sentences(subject), *limit_sentences(subject))
        return Explanation("service", sentences, present(service))
    sentences = (
        ttft_sentence(plan),
        tpot_sentence(subject),
        *stall_sentences(service),
        throughput_sentence(subject),
        f"{digits(service.chip_seconds_per_million_tokens)} chip-seconds per million output tokens "
        f"= {subject.machine.slice.chips} chips x 1e6 / tokens/s",
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


def ttft_sentence(plan: Plan) -> str:
    """What a prompt waits for, and its own prefill."""
    prefill, generate = seconds_text(plan.prefill.step_s), seconds_text(plan.generate.step_s)
    between = place_of(plan).between
    prompts = plan.prefill.prompts
    others = f"the other {prompts - 1} prompts of the prefill arriving + " if prompts > 1 else ""
    chunks = f" + {between} steps of {generate} between its chunks" if between else ""
    ttft = seconds_text(plan.service.ttft_s)
    return f"TTFT {ttft} = {others}one step in progress {generate} + the prefill {prefill}{chunks}"


def tpot_sentence(subject: Subject) -> str:
    """A step and a share of the prefills that stop it, over the tokens that the step adds."""
    plan, (at, steps, active) = subject.plan, served(subject)
    prompts, output = plan.prefill.prompts, subject.spec.workload.output_tokens.mean
    reads = f"{active:g} prefills" if prompts == 1 else f"{active:g}/{prompts} prefills"
    shared = f"{output} output tokens" if at.tokens_per_step == 1 else f"the {digits(steps)} steps of a request"
    generate, prefill = seconds_text(plan.generate.step_s), seconds_text(plan.prefill.step_s)
    step = f"a step {generate} + {reads} of {prefill} shared by {shared}"
    if at.tokens_per_step != 1:
        step = f"({step}) / {digits(float(at.tokens_per_step))} tokens a step"
    return f"TPOT {seconds_text(plan.service.tpot_s)} = {step}: prefills stop generation"


def throughput_sentence(subject: Subject) -> str:
    """Tokens of all sequences together."""
    plan, (at, steps, active) = subject.plan, served(subject)
    waiting = (at.prompts - 1) / 2
    held = f" ({waiting:g} slots wait for others on average)" if waiting else ""
    told = f"{digits(plan.service.tokens_per_s)} tokens/s = {active:g} sequences / TPOT{held}"
    if not at.between:
        return told
    return f"{told}, less what slots lose to {at.between} steps between chunks beside {digits(steps)} of a request"


def stall_sentences(service: Service) -> list[str]:
    """How long prefill stops generation, where it is told."""
    told = service.stall_s
    return [] if told is None else [f"prefill stops generation for {seconds_text(told)} at most"]


def served(subject: Subject) -> tuple[Place, float, float]:
    """What times are weighed by, the generate steps that make the tokens of a request, and the sequences generated."""
    at = place_of(subject.plan)
    steps = steps_of_request(subject.spec.workload.output_tokens.mean, at.tokens_per_step)
    return at, float(steps), at.batch - (at.prompts - 1) / 2


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
