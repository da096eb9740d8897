"""What users of the service see, and the proof, with the formulas filled in."""

from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadow_numbers, shadow_sentences
from planner.plan.schema import Plan, Service
from planner.plan.show import near_text
from planner.plan.units import digits, seconds_text
from planner.problem.chunks import steps_of
from planner.problem.problem import LimitName, Place

TIMES: tuple[LimitName, ...] = ("ttft", "tpot")


def explain_service(subject: Subject) -> Explanation:
    """TTFT, TPOT, throughput and cost, as sums of the two steps."""
    plan, service = subject.plan, subject.plan.service
    prefill, generate = seconds_text(plan.prefill.step_s), seconds_text(plan.generate.step_s)
    output, prompts = subject.spec.workload.output_tokens.mean, plan.prefill.prompts
    active = f"{plan.generate.batch - (prompts - 1) / 2:g}"
    others = f"the other {prompts - 1} prompts of the prefill arriving + " if prompts > 1 else ""
    reads = f"{active} prefills" if prompts == 1 else f"{active}/{prompts} prefills"
    between, slot = between_chunks(plan), f"{output} output tokens"
    steps = f" + {between} steps of {generate} between its chunks" if between else ""
    shared = slot if not between else f"{slot} and {between} steps between chunks"
    given = "" if not between else f", of which {output} of {output + between} steps give it a token"
    stall = [] if service.stall_s is None else [f"prefill stops generation for {seconds_text(service.stall_s)} at most"]
    held = "" if prompts == 1 else f" ({(prompts - 1) / 2:g} slots wait for others on average)"
    chips = subject.machine.slice.chips
    sentences = (
        f"TTFT {seconds_text(service.ttft_s)} = {others}one step in progress {generate} + the prefill {prefill}{steps}",
        f"TPOT {seconds_text(service.tpot_s)} = a step {generate} + {reads} of {prefill} "
        f"shared by {shared}: prefills stop generation",
        *stall,
        f"{digits(service.tokens_per_s)} tokens/s = {active} sequences / TPOT{held}{given}",
        f"{digits(service.chip_seconds_per_million_tokens)} chip-seconds per million output tokens "
        f"= {chips} chips x 1e6 / tokens/s",
        *limit_sentences(subject),
        *shadow_sentences(subject.shadows, TIMES),
    )
    return Explanation("service", sentences, {**present(service), **shadow_numbers(subject.shadows, TIMES)})


def between_chunks(plan: Plan) -> int:
    """Generate steps that run between the chunks of a prefill."""
    steps = steps_of(plan.prefill.tokens, plan.prefill.chunk)
    return Place.of(0, plan.prefill.prompts, plan.generate.batch, steps.number).between


def present(service: Service) -> dict[str, float]:
    """The numbers of the service that there are: money only with a price."""
    return {name: value for name, value in dict(service).items() if value is not None}


def limit_sentences(subject: Subject) -> list[str]:
    """Each limit of the spec, and the room left to it."""
    limits, service = subject.spec.limits, subject.plan.service
    pairs = (("TTFT", limits.ttft_s, service.ttft_s), ("TPOT", limits.tpot_s, service.tpot_s))
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
