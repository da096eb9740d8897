"""How many slices serve the workload, why so many, and what the queueing estimate says of their load."""

from planner.explain.explanation import Explanation, Subject
from planner.plan.records import Fleet, Transfer
from planner.plan.units import bytes_text, digits, percent_text, seconds_text


def explain_fleet(subject: Subject, fleet: Fleet) -> Explanation:
    """The slices of a plan, their load and its tails."""
    rate = subject.spec.workload.requests_per_s
    served = "arrive at random" if rate is not None else "are served, by clients that come back at once"
    sentences = [
        f"{fleet.mode}: {slices_text(subject, fleet)}, {fleet.chips} chips",
        f"{digits(fleet.requests_per_s)} requests a second {served}",
        slots_sentence(subject, fleet),
        f"prefill: {percent_text(fleet.prefill_utilization)} of the time of the slices that read prompts",
    ]
    sentences += [transfer_sentence(fleet.transfer)] if fleet.transfer else []
    if fleet.tails is not None:
        ttft, tpot = seconds_text(fleet.tails.ttft_p95_s), seconds_text(fleet.tails.tpot_p95_s)
        sentences.append(f"95 % of requests stay within a TTFT of {ttft} and a TPOT of {tpot} (estimate)")
    numbers = {"requests_per_s": fleet.requests_per_s, "slices": float(fleet.slices), "chips": float(fleet.chips)}
    numbers |= {"slot_utilization": fleet.slot_utilization, "prefill_utilization": fleet.prefill_utilization}
    return Explanation("fleet", tuple(sentences), numbers)


def slices_text(subject: Subject, fleet: Fleet) -> str:
    """The slices by what they do: `2 slices 2x4 that read prompts, 3 slices 4x4 that generate`."""
    plan = subject.plan
    if plan.pool is None:
        return f"{counted(fleet.slices)} {plan.slice} that {'does' if fleet.slices == 1 else 'do'} both in turns"
    reading = fleet.prefill_slices or 0
    return (
        f"{counted(reading)} {plan.pool.slice} that {'reads' if reading == 1 else 'read'} prompts, "
        f"{counted(fleet.slices)} {plan.slice} that {'generates' if fleet.slices == 1 else 'generate'}"
    )


def counted(slices: int) -> str:
    """`1 slice`, `2 slices`."""
    return f"{slices} slice{'' if slices == 1 else 's'}"


def slots_sentence(subject: Subject, fleet: Fleet) -> str:
    """How full the slots are."""
    batch, taken = subject.plan.generate.batch, percent_text(fleet.slot_utilization)
    enough = ", so that 99 % of requests find one free" if subject.spec.workload.requests_per_s is not None else ""
    return f"slots: {taken} of the {batch} of a slice are taken on average{enough}"


def transfer_sentence(transfer: Transfer) -> str:
    """How prompts are handed over."""
    over = "links between neighbouring slices" if transfer.link == "ici" else "the network between slices"
    return (
        f"a prompt's keys and values are handed over in {seconds_text(transfer.seconds)}: "
        f"{bytes_text(transfer.bytes)} over {over} ({transfer.link.upper()})"
    )
