"""What serving a share of random arrivals asks of a slice: the rows say what the queueing formulas say, never less."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from cost_models.lengths import Reading, fitted
from cost_models.queueing import (
    gathering_p95,
    interruptions_p95,
    mean_wait_s,
    most_slot_utilization,
    p95_of_sum,
    p95_wait_s,
)
from planner.problem.arrivals import NS, Arrivals
from planner.problem.problem import Limits, Place

ROUNDING = 2e-3


@dataclass(frozen=True)
class Setting:
    """A slice's share of some arrivals, and its limits."""

    arrivals: Arrivals
    limits: Limits
    output: int
    at: Place

    def keeps(self, prefill_ns: float, generate_ns: float, slack: float = 0.0) -> bool:
        """Whether the formulas hold, each written out again, with their bounds loosened by `slack`."""
        at, out, more, limits = self.at, self.output, 1 + slack, self.limits
        token_ns = generate_ns / float(at.tokens_per_step)
        per_ns = float(self.arrivals.per_s) / NS / at.slices
        whole_ns = prefill_ns * float(at.reading.mean)
        reading = per_ns * whole_ns / at.prompts
        active = at.batch - (at.prompts - 1) / 2
        if reading > float(self.arrivals.most_busy) * more:
            return False
        if reading + per_ns * out * token_ns / active > most_slot_utilization(at.batch) * more:
            return False
        filling, full = ((at.prompts - 1) / 2, gathering_p95(at.prompts))
        between = NS / float(self.arrivals.per_s)
        queue = per_ns / at.prompts, whole_ns, 1.0, at.reading.spread
        mean = filling * between + generate_ns + whole_ns + mean_wait_s(*queue)
        parts = [(filling * between, full * between), (whole_ns, prefill_ns * float(at.reading.p95))]
        tail = generate_ns + p95_of_sum([*parts, (mean_wait_s(*queue), p95_wait_s(*queue))])
        kept = [(limits.ttft, mean), (limits.ttft_p95, tail), (limits.tpot, token_ns / (1 - reading))]
        if limits.tpot_p95 is not None:
            rate, spread = per_ns / at.prompts, 1.0 + at.reading.spread
            most = interruptions_p95(rate * limits.tpot_p95, self.arrivals.outputs, spread)
            kept.append((limits.tpot_p95, token_ns + most * whole_ns))
        return all(limit is None or value <= limit * more for limit, value in kept)

    def rows_keep(self, prefill_ns: int, generate_ns: int) -> bool:
        """Whether the solver's rows hold."""
        rows = self.arrivals.whole_rows(self.limits, Fraction(self.output), self.at)
        return all(a * prefill_ns + b * generate_ns <= c for a, b, c in rows)


def nanoseconds(low: float, high: float) -> st.SearchStrategy[int]:
    return st.floats(low, high).map(lambda ms: int(ms * 1e6))


@st.composite
def settings_of(draw) -> Setting:
    limit, output = st.none() | nanoseconds(5, 5000), draw(st.sampled_from([1, 32, 256]))
    rate, prompts = draw(st.sampled_from([0.1, 1.5, 10, 40])), draw(st.sampled_from([1, 1, 2, 8]))
    reading = Reading(Fraction(draw(st.integers(600, 2000)), 1024), Fraction(2), draw(st.sampled_from([0.0, 0.5, 2.0])))
    return Setting(
        Arrivals(Fraction(str(rate)), Fraction(9, 10), fitted(output, output * draw(st.sampled_from([1, 1.5, 3])))),
        Limits(ttft=draw(limit), ttft_p95=draw(limit), tpot=draw(limit), tpot_p95=draw(limit)),
        output,
        Place(
            4,
            prompts,
            draw(st.sampled_from([8, 32, 256])),
            tokens_per_step=draw(st.sampled_from([Fraction(1), Fraction(1), Fraction(5, 2)])),
            slices=draw(st.sampled_from([1, 2, 5, 30])),
            reading=reading,
        ),
    )


@given(settings_of(), nanoseconds(0.1, 2000), nanoseconds(0.1, 200))
def test_times_that_the_rows_allow_keep_every_formula(setting: Setting, prefill_ns: int, generate_ns: int):
    assume(setting.rows_keep(prefill_ns, generate_ns))
    assert setting.keeps(prefill_ns, generate_ns, slack=1e-9)


@given(settings_of(), nanoseconds(0.1, 2000), nanoseconds(0.1, 200))
def test_times_that_the_rows_rule_out_break_a_formula_or_nearly(setting: Setting, prefill_ns: int, generate_ns: int):
    assume(not setting.rows_keep(prefill_ns, generate_ns))
    assert not setting.keeps(int(prefill_ns * 1.06), int(generate_ns * 1.06), slack=-ROUNDING)


@given(settings_of(), nanoseconds(0.1, 2000), nanoseconds(0.1, 200), st.integers(1, 9))
def test_what_a_share_allows_a_smaller_share_allows(setting: Setting, prefill_ns: int, generate_ns: int, more: int):
    assume(setting.rows_keep(prefill_ns, generate_ns))
    at = setting.at._replace(slices=setting.at.slices + more)
    assert Setting(setting.arrivals, setting.limits, setting.output, at).rows_keep(prefill_ns, generate_ns)
