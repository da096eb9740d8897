"""Mixtures of experts: parameters stored and used, experts that a batch touches, rooflines, dispatch over ICI.

Experts E, of which each token uses k and all tokens use the shared ones; B tokens of a step; m matmuls of D x F each.
A router without bias is assumed: every token draws its k experts alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cost_models.chips import Chip
from cost_models.collectives import all_to_all_s
from cost_models.counting import mlp_parameters
from cost_models.matmul import compute_s, hbm_s
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links


@dataclass(frozen=True, slots=True)
class Mixture:
    """The MLPs of a model: sparse layers of E experts and shared ones, after dense first layers. Weights by part."""

    layers: int
    d_model: int
    d_ff: int
    experts: int
    experts_per_token: int
    shared_d_ff: int = 0
    """Width of all shared experts together."""
    dense_layers: int = 0
    dense_d_ff: int = 0
    gated: bool = True

    @property
    def stored_parameters(self) -> int:
        """Weights of all MLPs, routers included: those that HBM holds."""
        return self._parameters(self.experts)

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets: k experts of E, the shared ones, whole routers and dense layers."""
        return self._parameters(self.experts_per_token)

    def _parameters(self, experts: int) -> int:
        sparse = mlp_parameters(self.d_model, self.d_ff, gated=self.gated, experts=experts)
        sparse += mlp_parameters(self.d_model, self.shared_d_ff, gated=self.gated)
        sparse += self.d_model * self.experts
        dense = mlp_parameters(self.d_model, self.dense_d_ff, gated=self.gated)
        return (self.layers - self.dense_layers) * sparse + self.dense_layers * dense


def experts_touched(tokens: float, experts: int, experts_per_token: int) -> float:
    """Expected distinct experts that `tokens` B use, and whose weights a step reads.

    E * (1 - (1 - k / E)^B): a token's k experts differ; E * (1 - (1 - 1 / E)^(B * k)) when drawn apart     (derived)
    """
    return experts * -math.expm1(tokens * _log_miss(experts, experts_per_token))


def busiest_experts(tokens: float, experts: int, experts_per_token: int, chips: int) -> float:
    """Expected experts that the busiest of `chips` reads, E / n on each: the largest of n counts, not their mean.

    Each of E / n experts is touched with the chance of `experts_touched`; a step waits for the chip with most (derived)
    """
    local = experts // chips
    touched = experts_touched(tokens, experts, experts_per_token)
    at_least = max(touched / chips, min(local, math.ceil(experts_per_token / chips) if tokens >= 1 else 0))
    return max(at_least, _expected_largest(local, touched / experts, chips))


def imbalance(tokens: float, experts_per_token: int, chips: int) -> float:
    """Expected rows of the busiest of `chips` over the mean, B * k rows thrown at n chips: from 1, balanced, to n."""
    rows = math.ceil(tokens * experts_per_token)
    if rows == 0 or chips == 1:
        return 1.0
    mean = rows / chips
    return max(_expected_largest(rows, 1 / chips, chips), math.ceil(mean)) / mean


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

    Rows come in and go out D wide, and the output of every other matmul, F wide, is written and read.

    T_math = 2 * (B * k / n) * m * D * F / C, times `imbalance`
    T_hbm  = (touched * m * D * F * b_w + b_a * (B * k / n) * (2 * D + (2 * m - 2) * F)) / W_hbm     (inference.md § 5)
    """
    rows = tokens * experts_per_token / chips
    touched = experts_touched(tokens, experts, experts_per_token) / chips
    if not balanced:
        rows *= imbalance(tokens, experts_per_token, chips)
        touched = busiest_experts(tokens, experts, experts_per_token, chips)
    matmuls = 3 if gated else 2
    parameters = matmuls * d_model * d_ff
    activations = activation_bytes_per_element * rows * (2 * d_model + (2 * matmuls - 2) * d_ff)
    moved_bytes = touched * parameters * weight_bytes_per_element + activations
    return Roofline(compute_s(2 * rows * parameters, compute_dtype, chip, stack), hbm_s(moved_bytes, chip, stack))


def ragged_fraction(experts_per_token: int, ways: int) -> float:
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


def _expected_largest(trials: int, chance: float, counts: int) -> float:
    """Expected largest of `counts` independent binomial counts: sum over j of 1 - P(X <= j)^n.

    Terms more than 8 deviations from the mean are 1 below it and 0 above, to double precision.
    """
    if not 0 < chance < 1:
        return trials * chance
    reach = 8 * math.sqrt(trials * chance * (1 - chance)) + 12
    first = max(0, math.floor(trials * chance - reach))
    log_odds = math.log(chance) - math.log1p(-chance)
    log_term = math.lgamma(trials + 1) + trials * math.log1p(-chance)
    below, largest = 0.0, float(first)
    for count in range(first, min(trials, math.ceil(trials * chance + reach))):
        below += math.exp(log_term + count * log_odds - math.lgamma(count + 1) - math.lgamma(trials - count + 1))
        largest += 1 - min(below, 1.0) ** counts
    return largest
