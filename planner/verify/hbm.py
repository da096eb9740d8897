"""HBM bytes of a compiled step against the plan's prediction, by plan address, and against the least there can be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.verify.build import Program
from planner.verify.expected import Expected, by_part
from planner.verify.hlo import Module
from planner.verify.traffic import COLLECTIVES, ELSEWHERE, hbm_bytes

MORE = 1.25
"""More than its prediction by this factor is too much for a part: what is read twice is."""
SLACK = 0.01
"""A part may exceed its own prediction by this share of the step: activations are priced with others."""
MORE_IN_ALL = 1.10
"""More than the whole prediction by this factor is too much for a step."""
UNPRICED = (ELSEWHERE, COLLECTIVES)
"""What has no address, and what collectives read and write, which is in the price of their time."""
TOTAL = "total"


@dataclass(frozen=True)
class HbmRow:
    """Bytes that a part of a step moves in HBM, as predicted and as compiled.

    `more` than predicted is no fault of a prefill, whose rows of activations are not priced to the last copy.
    """

    address: str
    planned: int
    found: int
    verdict: Literal["within", "more", "over"]


@dataclass(frozen=True)
class Traffic:
    """HBM bytes of one run of a step by part, the total last; `least` is every weight and every page of the KV once."""

    rows: tuple[HbmRow, ...]
    least: int

    @property
    def over_least(self) -> float:
        """How many times the least the step moves."""
        return self.rows[-1].found / self.least if self.least else 0.0


def traffic_of(module: Module, program: Program, expected: Expected) -> Traffic | None:
    """The HBM bytes of a step, of all chunks together; None for one that the plan does not price."""
    planned, runs = expected.hbm_bytes(program.step), expected.runs(program.step)
    if not planned:
        return None
    found = {part: size * runs for part, size in by_part(hbm_bytes(module, expected.pages(program.step))).items()}
    judged = rows_of(planned, found, "more" if program.step.phase == "prefill" else "over")
    return Traffic(tuple(judged), runs * least_bytes(module, program, expected))


def rows_of(planned: Mapping[str, int], found: Mapping[str, int], beyond: Literal["more", "over"]) -> Iterator[HbmRow]:
    """Each part that moves something, in the plan's order, then the total; collectives are in neither's verdict.

    `beyond` is what is said of a part that moves too much.
    """
    whole = sum(planned.values())
    for address in {**planned, **found}:
        one, other = planned.get(address, 0), found.get(address, 0)
        if one or other:
            much = address not in UNPRICED and other > MORE * one + SLACK * whole
            yield HbmRow(address, one, other, beyond if much else "within")
    total = sum(found.values())
    judged = total - found.get(COLLECTIVES, 0)
    yield HbmRow(TOTAL, whole, total, beyond if judged > MORE_IN_ALL * whole else "within")


def least_bytes(module: Module, program: Program, expected: Expected) -> int:
    """Bytes of all weights but an embedding of which rows are looked up, and of the keys and values of a step."""
    held = {each.scope: each.shapes[0] for each in module.parameters.values()}
    looked_up = {"weights.embedding"} if "weights.lm_head" in held else set()
    weights = sum(shape.bytes for name, shape in held.items() if name.startswith("weights.") and name not in looked_up)
    if program.step.phase == "prefill":
        return weights + (program.memory.results if program.memory else 0)
    pages = expected.pages(program.step).read * expected.chosen.machine.sizes.layers
    return weights + sum(
        round(shape.bytes / shape.dims[0] * pages) for name, shape in held.items() if name.startswith("cache")
    )
