"""A serving system from the times of its steps: rates, servers of each kind, money.

Sequences in flight B, chips N, prompt and output tokens P and G. Steady state, every slot taken; queues and the spread
of lengths are the simulator's (scaling-book, applied-inference.md).
"""

from cost_models.chips import Chip
from cost_models.counting import flops_per_token

SECONDS_PER_HOUR = 3600


def prefill_s(
    prompt_tokens: float, active_parameters: float, chips: float, mfu: float, dtype: str, chip: Chip
) -> float:
    """Seconds of prefill at a fraction `mfu` of the peak, attention scores left out.

    T = 2 * P_act * S / (N * C * MFU)     (scaling-book, applied-inference.md § prefill; there with an MFU of 0.4)
    """
    return flops_per_token(active_parameters) * prompt_tokens / (chips * chip.flops_per_s(dtype) * mfu)


def mfu(flops: float, chip_seconds: float, dtype: str, chip: Chip) -> float:
    """Fraction of the peak that `flops` in `chip_seconds` are (scaling-book, transformers.md § Question 7)."""
    return flops / (chip_seconds * chip.flops_per_s(dtype))


def tokens_per_s(sequences: float, step_s: float, chips: float = 1) -> float:
    """Tokens per second of a generate step, by chip when `chips` are given: B / (T * N)."""
    return sequences / (step_s * chips)


def queries_per_s(sequences: float, step_s: float, output_tokens: float, chips: float = 1) -> float:
    """Answers per second, by chip when `chips` are given: B / (T * G * N) (scaling-book, applied-inference.md)."""
    return tokens_per_s(sequences, step_s, chips) / output_tokens


def sequences_finished_per_step(sequences: float, output_tokens: float) -> float:
    """Slots that fall free in a step, each to be filled by a prefill: B / G."""
    return sequences / output_tokens


def tokens_evicted_per_step(sequences: float, prompt_tokens: float, output_tokens: float) -> float:
    """Tokens whose KV cache is given up in a step, and so whose cache has to come in: B * (P + G) / G."""
    return sequences_finished_per_step(sequences, output_tokens) * (prompt_tokens + output_tokens)


def prefill_servers_per_generate_server(
    prefill_s: float, sequences: float, step_s: float, output_tokens: float
) -> float:
    """Prefill servers that keep one generate server full: T_prefill * B / (T_step * G) (applied-inference.md)."""
    return prefill_s * queries_per_s(sequences, step_s, output_tokens)


def chip_seconds_per_token(sequences: float, step_s: float, chips: float) -> float:
    """Chips busy for one token of output, in seconds: N * T / B (Pope et al. 2022, § 4.4)."""
    return chips * step_s / sequences


def usd(chip_seconds: float, usd_per_chip_hour: float) -> float:
    """Money for `chip_seconds` at a price by chip and hour."""
    return chip_seconds / SECONDS_PER_HOUR * usd_per_chip_hour


def flops_per_usd(dtype: str, chip: Chip) -> float:
    """Peak operations for one dollar at the catalogue's price (scaling-book, applied-inference.md)."""
    return chip.flops_per_s(dtype) / usd(1, chip.known("price_usd_per_chip_hour"))


def time_per_output_token_s(step_s: float, tokens_per_step: float = 1) -> float:
    """Seconds between tokens of one answer; more than one token may come of a speculative step."""
    return step_s / tokens_per_step
