"""What users of the service see, and how many slices serve them: means and tails, from the two step times."""

from planner.plan import records, schema
from planner.plan.chosen import Chosen
from planner.problem.arrivals import Arrivals
from planner.problem.build import arrivals_of
from planner.problem.drafts import tokens_per_step
from planner.problem.problem import NS, Place, steps_of_request
from planner.spec import Spec

SECONDS_PER_HOUR = 3600
CLOSE = 1e-6


def service_of(
    spec: Spec, chosen: Chosen, prefill_s: float, generate_s: float, transfer: records.Transfer | None
) -> schema.Service:
    """Means that users see, by the formulas of `Problem.goal_weights`, `arrivals` and `demand`."""
    output, arrivals = spec.workload.output_tokens.mean, arrivals_of(spec)
    if arrivals is None and chosen.reader is None:
        return turns(spec, chosen, prefill_s, generate_s)
    token_s = generate_s / float(tokens_per_step(chosen.drafts))
    fleet = fleet_of(spec, chosen, prefill_s, generate_s, transfer)
    assert fleet is not None, "there is a rate, or prefill has slices of its own"
    tpot_s = token_s / (1 - fleet.prefill_utilization) if chosen.reader is None else token_s
    return service(
        spec, first_token_s(spec, chosen, fleet.requests_per_s, prefill_s, generate_s, transfer), tpot_s,
        output * fleet.requests_per_s, fleet.chips,
    )  # fmt: skip


def turns(spec: Spec, chosen: Chosen, prefill_s: float, generate_s: float) -> schema.Service:
    """A slice that takes turns, all its slots taken by clients that come back at once."""
    output, batch, prompts = spec.workload.output_tokens.mean, chosen.batch, chosen.prompts
    waiting = (prompts - 1) / 2
    between = Place.of(0, prompts, batch, chosen.steps.number).between
    steps = float(steps_of_request(output, tokens_per_step(chosen.drafts)))
    request_s = prefill_s / prompts + (steps + between) * generate_s / (batch - waiting)
    ttft_s = waiting * request_s + (1 + between) * generate_s + prefill_s
    tpot_s = ((batch - waiting) * prefill_s / prompts + steps * generate_s) / output
    found = service(spec, ttft_s, tpot_s, output / request_s, chosen.machine.slice.chips)
    return found if chosen.chunk is None else found.model_copy(update={"stall_s": chosen.stall_s()})


def service(spec: Spec, ttft_s: float, tpot_s: float, tokens_per_s: float, chips: int) -> schema.Service:
    """The record of a service, with its price."""
    chip_seconds, price = 1e6 * chips / tokens_per_s, spec.hardware.price_per_chip_hour
    return schema.Service(
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        tokens_per_s=tokens_per_s,
        chip_seconds_per_million_tokens=chip_seconds,
        money_per_million_tokens=None if price is None else price * chip_seconds / SECONDS_PER_HOUR,
    )


def fleet_of(
    spec: Spec, chosen: Chosen, prefill_s: float, generate_s: float, transfer: records.Transfer | None
) -> records.Fleet | None:
    """The slices that serve, where there is a request rate or prefill has slices of its own."""
    arrivals, reader = arrivals_of(spec), chosen.reader
    if arrivals is None and reader is None:
        return None
    reads, steps = chosen.reads, spec.workload.output_tokens.mean / float(tokens_per_step(chosen.drafts))
    rate = closed_rate(spec, chosen, prefill_s, generate_s, transfer) if arrivals is None else float(arrivals.per_s)
    read_busy = rate / reads.slices * prefill_s / reads.stages / reads.prompts
    if arrivals is not None:
        read_busy *= float(place_of(reads).reading.mean)
    active = chosen.batch - (chosen.prompts - 1) / 2
    step_s = generate_s if reader else generate_s / (1 - read_busy)
    chips = chosen.slices * chosen.machine.slice.chips
    return records.Fleet(
        mode="interleaved" if reader is None else "disaggregated",
        requests_per_s=rate,
        slices=chosen.slices,
        prefill_slices=None if reader is None else reader.slices,
        chips=chips if reader is None else chips + reader.slices * reader.machine.slice.chips,
        slot_utilization=rate / chosen.slices * steps * step_s / active,
        prefill_utilization=read_busy,
        transfer=transfer,
        tails=None if arrivals is None else tails_of(spec, chosen, arrivals, prefill_s, generate_s, transfer),
    )


def closed_rate(
    spec: Spec, chosen: Chosen, prefill_s: float, generate_s: float, transfer: records.Transfer | None
) -> float:
    """Requests a second that prefill slices and generate slices serve when clients come back at once."""
    sent_s, reads = transfer.seconds if transfer else 0.0, chosen.reads
    steps = spec.workload.output_tokens.mean / float(tokens_per_step(chosen.drafts))
    made_s = max(steps * generate_s / chosen.batch, sent_s)
    return min(reads.slices / max(prefill_s / reads.stages / reads.prompts, sent_s), chosen.slices / made_s)


def first_token_s(
    spec: Spec,
    chosen: Chosen,
    rate: float,
    prefill_s: float,
    generate_s: float,
    transfer: records.Transfer | None,
) -> float:
    """Mean seconds to the first token."""
    reads, arrivals = chosen.reads, arrivals_of(spec)
    sent_s = reads.prompts * transfer.seconds if transfer else 0.0
    if arrivals is None:
        return (reads.prompts - 1) / 2 / rate + prefill_s + sent_s + generate_s
    read_s = prefill_s / reads.stages
    waits_s = arrivals.to_first_token_ns(read_s * NS, place_of(reads)) / NS
    return waits_s + (prefill_s - read_s) * float(place_of(reads).reading.mean) + sent_s + generate_s


def tails_of(
    spec: Spec,
    chosen: Chosen,
    arrivals: Arrivals,
    prefill_s: float,
    generate_s: float,
    transfer: records.Transfer | None,
) -> records.Tails:
    """What 95 % of requests stay within."""
    reads = chosen.reads
    sent_s = reads.prompts * transfer.seconds if transfer else 0.0
    read_s = prefill_s / reads.stages
    later_s = (prefill_s - read_s) * float(place_of(reads).reading.p95) + sent_s + generate_s
    ttft_s = arrivals.to_first_token_p95_ns(read_s * NS, place_of(reads)) / NS + later_s
    if chosen.reader is not None:
        return records.Tails(ttft_p95_s=ttft_s, tpot_p95_s=generate_s / float(tokens_per_step(chosen.drafts)))
    token_s = generate_s / float(tokens_per_step(chosen.drafts))
    tpot_s = interrupted_s(token_s, prefill_s, arrivals, place_of(reads))
    return records.Tails(ttft_p95_s=ttft_s, tpot_p95_s=tpot_s)


def interrupted_s(token_s: float, prefill_s: float, arrivals: Arrivals, at: Place) -> float:
    """The least TPOT in which all prefills fit that come meanwhile with a chance of 95 %."""
    reads_s, tpot_s = prefill_s * float(at.reading.mean), token_s
    while (longer_s := token_s + arrivals.interruptions_p95(tpot_s * NS, at) * reads_s) > tpot_s * (1 + CLOSE):
        tpot_s = longer_s
    return longer_s


def place_of(chosen: Chosen) -> Place:
    """What the times of the slices are weighed by."""
    chips, tokens = chosen.machine.slice.chips, tokens_per_step(chosen.drafts)
    alone = Place.of(chips, chosen.prompts, chosen.batch, chosen.steps.number, tokens)
    return alone._replace(slices=chosen.slices, reading=chosen.load.reading(chosen.prompts))
