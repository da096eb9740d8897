"""Samples of collectives -> launch, hop and bytes per second, by the planner's own formula.

    T = launch * a + hop * b + c / (bytes per second)

The three coefficients of a sample come from pricing it on a chip on which only one of the three takes time. The fit
makes the errors of the logarithm smallest, and no constant negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, inf, log

import numpy as np
import numpy.typing as npt

from cost_models.chips import Chip
from cost_models.stacks import Stack
from cost_models.torus import MeshAxis, parse_slice
from planner.problem.machine import Machine
from planner.problem.primitives import Collective, CollectiveKind
from planner.problem.sizes import Sizes

Floats = npt.NDArray[np.float64]

ROUNDS = 30
NEAR, LEAST = 0.02, 1e-3
NO_MODEL = Sizes(1, 1, 1, 1, 1, 1, 1, False, 1, 0, 1, 1, "float32")


@dataclass(frozen=True)
class Sample:
    """A measured collective: `bytes` per chip of the larger of operand and result, over a line of `ways` devices."""

    kind: CollectiveKind
    ways: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Links:
    """What the collectives say of the links between devices."""

    launch_s: float
    hop_s: float
    bytes_per_s: float


def predicted_s(sample: Sample, chip: Chip, stack: Stack) -> float:
    """Seconds of a sample's collective by the planner's formula."""
    axis = MeshAxis("y", sample.ways, "y")
    machine = Machine(chip, stack, parse_slice(chip, f"1x{sample.ways}"), (axis,), NO_MODEL)
    return machine.seconds(Collective("measured", sample.kind, ("y",), sample.bytes, 1))


def coefficients(sample: Sample, chip: Chip, stack: Stack) -> tuple[float, float, float]:
    """How many launches, hops and seconds at one byte per second a sample's collective takes."""

    def priced(launch_s: float, hop_s: float, bytes_per_s: float) -> float:
        only = replace(stack, collective_launch_s=launch_s, hop_s=hop_s, latency="sum")
        return predicted_s(sample, replace(chip, ici_bytes_per_s=bytes_per_s), only)

    return priced(1, 0, inf), priced(0, 1, inf), priced(0, 0, 1)


def fit_links(samples: Sequence[Sample], chip: Chip, stack: Stack) -> Links:
    """The constants that come closest to the samples: least absolute logarithms of predicted over measured.

    Weighted least squares, repeated from the catalogue's predictions: the weight log(p / t) / (p - t) turns differences
    of the last predictions p into logarithms, and a division by the root of the logarithm turns their squares into
    absolute values, so that a disturbed sample does not bend the fit.
    """
    rows = np.array([coefficients(sample, chip, stack) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    predicted, found = np.array([predicted_s(sample, chip, stack) for sample in samples]), np.zeros(3)
    for _ in range(ROUNDS):
        weights = logarithmic_weights(predicted, seconds)
        found = least_squares(rows * weights[:, None], seconds * weights)
        predicted = np.maximum(rows @ found, LEAST * seconds)
    launch_s, hop_s, byte_s = map(float, found)
    return Links(launch_s, hop_s, 1 / byte_s if byte_s else inf)


def logarithmic_weights(predicted: Floats, seconds: Floats) -> Floats:
    """Weights under which squared differences are absolute logarithms, where they are larger than NEAR."""
    distance = np.abs(np.log(predicted / seconds))
    apart = distance > NEAR
    slope = np.where(apart, distance / np.where(apart, np.abs(predicted - seconds), 1.0), 1 / seconds)
    weights: Floats = slope / np.sqrt(np.maximum(distance, NEAR))
    return weights


def least_squares(rows: Floats, goal: Floats) -> Floats:
    """The non-negative x that makes |rows * x - goal| smallest: the best over all sets of columns left at zero."""
    columns = range(rows.shape[1])
    best, least = np.zeros(len(columns)), inf
    for size in range(1, len(columns) + 1):
        for chosen in combinations(columns, size):
            own = rows[:, chosen]
            scale = np.abs(own).max(axis=0)
            if not scale.all():
                continue
            found = np.linalg.lstsq(own / scale, goal, rcond=None)[0] / scale
            error = float(np.square(own @ found - goal).sum())
            if (found >= 0).all() and error < least:
                least, best = error, np.zeros(len(columns))
                best[list(chosen)] = found
    return best


def typical_factor(samples: Sequence[Sample], chip: Chip, stack: Stack) -> float:
    """By what factor predictions and samples typically differ: the geometric mean of the ratios, at least 1."""
    ratios = [abs(log(predicted_s(sample, chip, stack) / sample.seconds)) for sample in samples]
    return exp(sum(ratios) / len(ratios))


def with_links(links: Links, chip: Chip, stack: Stack) -> tuple[Chip, Stack]:
    """Chip and stack with fitted constants in place of the catalogue's."""
    fitted = replace(chip, ici_bytes_per_s=links.bytes_per_s, ici_hop_s=links.hop_s)
    return fitted, replace(stack, collective_launch_s=links.launch_s, hop_s=None)
