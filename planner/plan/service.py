"""What users of the service see, and how many slices serve them: means and tails, from the two step times."""

from typing import NamedTuple

from planner.plan import records, schema
from planner.plan.chosen import Chosen
from planner.problem.arrivals import Arrivals
from planner.problem.build import arrivals_of
from planner.problem.drafts import tokens_per_step
from planner.problem.problem import NS, Place, steps_of_request
from planner.spec import Spec

SECONDS_PER_HOUR = 3600
CLOSE = 1e-6


class Times(NamedTuple):
    """Seconds of the prefill of the planned bucket and of a generate step, and how a prompt is handed over between
    slices, if it is."""

    prefill_s: float
    generate_s: float
    transfer: records.Transfer | None

    @property
    def sent_s(self) -> float:
        """Seconds of the hand-over of a prompt."""
        return self.transfer.seconds if self.transfer else 0.0

    def token_s(self, chosen: Chosen) -> float:
        """Seconds for each token of a sequence, on average over steps that verify drafts."""
        return self.generate_s / float(tokens_per_step(chosen.drafts))


def service_of(spec: Spec, chosen: Chosen, fleet: records.Fleet | None, times: Times) -> schema.Service:
    """Means that users see, by the formulas of `Problem.goal_weights`, `arrivals` and `demand`; `fleet` as `fleet_of`
    has it."""
    if fleet is None:
        return turns(spec, chosen, times)
    tpot_s = times.token_s(chosen)
    if chosen.reader is None:
        tpot_s /= 1 - fleet.prefill_utilization
    ttft_s = first_token_s(spec, chosen, fleet.requests_per_s, times)
    tokens_per_s = spec.workload.output_tokens.mean * fleet.requests_per_s
    return service(spec, ttft_s, tpot_s, tokens_per_s, fleet.chips)


def turns(spec: Spec, chosen: Chosen, times: Times) -> schema.Service:
    """A slice that takes turns, all its slots taken by clients that come back at once."""
    output, batch, prompts = spec.workload.output_tokens.mean, chosen.batch, chosen.prompts
    prefill_s, generate_s, _ = times
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


def fleet_of(spec: Spec, chosen: Chosen, times: Times) -> records.Fleet | None:
    """The slices that serve, where there is a request rate or prefill has slices of its own."""
    arrivals, reader = arrivals_of(spec), chosen.reader
    if arrivals is None and reader is None:
        return None
    rate = closed_rate(spec, chosen, times) if arrivals is None else float(arrivals.per_s)
    read_busy = reading_part(chosen.reads, rate, times.prefill_s, arrivals)
    active = chosen.batch - (chosen.prompts - 1) / 2
    step_s = times.generate_s if reader else times.generate_s / (1 - read_busy)
    chips = chosen.slices * chosen.machine.slice.chips
    return records.Fleet(
        mode="interleaved" if reader is None else "disaggregated",
        requests_per_s=rate,
        slices=chosen.slices,
        prefill_slices=None if reader is None else reader.slices,
        chips=chips if reader is None else chips + reader.slices * reader.machine.slice.chips,
        slot_utilization=rate / chosen.slices * mean_steps(spec, chosen) * step_s / active,
        prefill_utilization=read_busy,
        transfer=times.transfer,
        tails=None if arrivals is None else tails_of(chosen, arrivals, times),
    )


def reading_part(reads: Chosen, rate: float, prefill_s: float, arrivals: Arrivals | None) -> float:
    """The part of their time that slices read prompts for, of a rate of requests a second."""
    planned = rate / reads.slices * prefill_s / reads.stages / reads.prompts
    return planned if arrivals is None else planned * float(place_of(reads).reading.mean)


def mean_steps(spec: Spec, chosen: Chosen) -> float:
    """Generate steps of a mean answer."""
    return spec.workload.output_tokens.mean / float(tokens_per_step(chosen.drafts))


def closed_rate(spec: Spec, chosen: Chosen, times: Times) -> float:
    """Requests a second that prefill slices and generate slices serve when clients come back at once."""
    reads = chosen.reads
    read_s = max(times.prefill_s / reads.stages / reads.prompts, times.sent_s)
    made_s = max(mean_steps(spec, chosen) * times.generate_s / chosen.batch, times.sent_s)
    return min(reads.slices / read_s, chosen.slices / made_s)


def first_token_s(spec: Spec, chosen: Chosen, rate: float, times: Times) -> float:
    """Mean seconds to the first token."""
    reads, arrivals = chosen.reads, arrivals_of(spec)
    prefill_s, sent_s = times.prefill_s, reads.prompts * times.sent_s
    if arrivals is None:
        return (reads.prompts - 1) / 2 / rate + prefill_s + sent_s + times.generate_s
    read_s, at = prefill_s / reads.stages, place_of(reads)
    waits_s = arrivals.to_first_token_ns(read_s * NS, at) / NS
    return waits_s + (prefill_s - read_s) * float(at.reading.mean) + sent_s + times.generate_s


def tails_of(chosen: Chosen, arrivals: Arrivals, times: Times) -> records.Tails:
    """What 95 % of requests stay within."""
    reads, prefill_s = chosen.reads, times.prefill_s
    read_s, at = prefill_s / reads.stages, place_of(reads)
    later_s = (prefill_s - read_s) * float(at.reading.p95) + reads.prompts * times.sent_s + times.generate_s
    ttft_s = arrivals.to_first_token_p95_ns(read_s * NS, at) / NS + later_s
    tpot_s = times.token_s(chosen)
    if chosen.reader is None:
        tpot_s = interrupted_s(tpot_s, prefill_s, arrivals, at)
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
