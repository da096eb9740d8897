"""Mixtures of experts: parameters stored and used, experts that a batch touches, rooflines, dispatch over ICI.

Experts E, of which each token uses k and all tokens use the shared ones; B tokens of a step; m matmuls of D x F each.
A router without bias is assumed: every token draws its k experts alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cost_models.chips import Chip
from cost_models.collectives import all_to_all_s
from cost_models.matmul import matmul
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links

NORMAL_DEVIATION = 50.0
"""Standard deviation of a count from which it is as good as normal."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The sparse layers of a model: E routed experts of width `d_ff`, of which a token uses k, and shared ones."""

    experts: int
    experts_per_token: int
    d_ff: int
    shared_d_ff: int = 0
    """Width of all shared experts together."""
    dense_layers: int = 0
    """First layers whose MLP is dense."""


def experts_touched(tokens: float, experts: int, experts_per_token: int) -> float:
    """Expected distinct experts that `tokens` B use, and whose weights a step reads.

    E * (1 - (1 - k / E)^B): a token's k experts differ; E * (1 - (1 - 1 / E)^(B * k)) when drawn apart     (derived)
    """
    return experts * -math.expm1(tokens * _log_miss(experts, experts_per_token))


def busiest_experts(tokens: float, experts: int, experts_per_token: int, chips: int) -> float:
    """Expected experts that the busiest of `chips` reads, E / n on each: the largest of n counts, not their mean.

    Each of E / n experts is touched with the chance of `experts_touched`; a step waits for the chip with most (derived)
    """
    local = math.ceil(experts / chips)
    touched = experts_touched(tokens, experts, experts_per_token)
    at_least = max(touched / chips, min(local, math.ceil(experts_per_token / chips) if tokens >= 1 else 0))
    return max(at_least, _expected_largest(local, touched / experts, chips))


def imbalance(tokens: float, experts_per_token: int, chips: int) -> float:
    """Expected rows of the busiest of `chips` over the mean, B * k rows thrown at n chips: from 1, balanced, to n."""
    rows = tokens * experts_per_token
    if rows == 0 or chips == 1:
        return 1.0
    mean = rows / chips
    return max(_expected_largest(rows, 1 / chips, chips), mean, min(rows, 1.0)) / mean


def busiest_load(tokens: float, experts: int, experts_per_token: int, chips: int) -> tuple[float, float]:
    """Rows that the busiest of `chips` computes, and experts that it reads, for the `tokens` of all of them."""
    rows = tokens * experts_per_token / chips * imbalance(tokens, experts_per_token, chips)
    return rows, busiest_experts(tokens, experts, experts_per_token, chips)


def expert_matmuls(
    tokens: float,
    d_model: int,
    d_ff: float,
    experts: int,
    experts_per_token: int,
    *,
    weight_bytes_per_element: float,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
    gated: bool = True,
    chips: int = 1,
    balanced: bool = False,
) -> Roofline:
    """Roofline of the busiest of `chips` that share E experts, each shard `d_ff` F wide, for the B `tokens` of all.

    Two matmuls: D into F, twice as wide with a gate, and back.

    T_math = 2 * (B * k / n) * m * D * F / C, times `imbalance`
    T_hbm  = (touched * m * D * F * b_w + b_a * (B * k / n) * (2 * D + m * F)) / W_hbm     (inference.md § 5)
    """
    rows, touched = busiest_load(tokens, experts, experts_per_token, chips)
    if balanced:
        rows = tokens * experts_per_token / chips
        touched = experts_touched(tokens, experts, experts_per_token) / chips
    numerics: dict[str, Any] = {
        "weight_bytes_per_element": weight_bytes_per_element,
        "activation_bytes_per_element": activation_bytes_per_element,
        "compute_dtype": compute_dtype,
        "chip": chip,
        "stack": stack,
        "experts": touched,
    }
    into = matmul(rows, d_model, (1 + gated) * d_ff, **numerics)
    return into + matmul(rows, d_ff, d_model, **numerics)


def ragged_fraction(experts_per_token: float, ways: int) -> float:
    """Part of a full all-to-all that sending each token only to its k experts moves: min(k / Z, 1).

    The bound of scaling-book, gpus.md § AllToAll; `distinct_chips` is the expectation behind it.
    """
    return min(experts_per_token / ways, 1.0)


def distinct_chips(experts_per_token: int, ways: int) -> float:
    """Expected chips of `ways` Z that the k experts of a token lie on: Z * (1 - (1 - 1 / Z)^k) (gpus.md § AllToAll)."""
    return ways * -math.expm1(experts_per_token * math.log1p(-1 / ways)) if ways > 1 else 1.0


def dispatch_s(
    tokens: float,
    d_model: int,
    activation_bytes: float,
    experts_per_token: int,
    axes: Sequence[Links],
    chip: Chip,
    stack: Stack = BOOK,
) -> float:
    """Seconds of the two all-to-alls of a sparse layer over `axes`: tokens to their experts, and back.

    A full all-to-all sends every chip a copy, V = b_a * B * D * Z; the ragged one min(k / Z, 1) of it (gpus.md)
    """
    ways = math.prod(axis.size for axis in axes)
    copies = ways * ragged_fraction(experts_per_token, ways)
    return 2 * all_to_all_s(activation_bytes * tokens * d_model * copies, axes, chip, stack)


def _log_miss(experts: int, experts_per_token: int) -> float:
    """Logarithm of the chance that one token misses a given expert."""
    return math.log1p(-experts_per_token / experts) if experts_per_token < experts else -math.inf


@lru_cache(maxsize=4096)
def _expected_largest(trials: float, chance: float, counts: int) -> float:
    """Expected largest of `counts` independent binomial counts: sum over j of 1 - P(X <= j)^n.

    Terms more than 8 deviations from the mean are 1 below it and 0 above, to double precision. With many deviations
    the counts are normal, and the largest is a fixed number of deviations above their mean.
    """
    if not 0 < chance < 1:
        return trials * chance
    deviation = math.sqrt(trials * chance * (1 - chance))
    if deviation > NORMAL_DEVIATION:
        return trials * chance + deviation * _largest_normal(counts)
    first = max(0, math.floor(trials * chance - 8 * deviation - 12))
    odds = chance / (1 - chance)
    term = math.exp(
        math.lgamma(trials + 1) - math.lgamma(first + 1) - math.lgamma(trials - first + 1)
        + first * math.log(chance) + (trials - first) * math.log1p(-chance)
    )  # fmt: skip
    below, largest = 0.0, float(first)
    for count in range(first, min(math.ceil(trials), math.ceil(trials * chance + 8 * deviation + 12))):
        below += term
        largest += 1 - min(below, 1.0) ** counts
        term *= (trials - count) / (count + 1) * odds
    return largest


@lru_cache(maxsize=4096)
def _largest_normal(counts: int) -> float:
    """Expected largest of `counts` independent standard normal numbers, by the midpoint rule from -8 to 8."""
    middles = ((place + 0.5) / 64 for place in range(-512, 512))
    chances = (((1 + math.erf(middle / math.sqrt(2))) / 2) ** counts for middle in middles)
    return 8 - sum(chances) / 64
