"""Single collectives over mesh axes, and how a reduction of rows is made of them.

Gathers and reduce-scatters go axis by axis (gathers minor axis first, scatters major axis first, so that blocks stay
contiguous); all-reduces and all-to-alls take all their axes in one operation. `bytes` is per chip, of the larger of
operand and result. Entries over no axes are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, NamedTuple

from planner.problem.rules import Axes, GenerateRules, PrefillRules, Ways, without
from planner.problem.sizes import Sizes

CollectiveKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute"]

FLOAT32 = 4


class Collective(NamedTuple):
    """One planned collective: executed `repeats` times a step."""

    address: str
    kind: CollectiveKind
    axes: Axes
    bytes: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Program:
    """What the collectives of a step depend on besides the rule tables."""

    sizes: Sizes
    ways: Ways
    min_scatter_rows: int
    """A reduce-scatter whose shard has fewer rows compiles to an all-reduce on TPU, and is planned as one."""
    apart: bool = False
    """Whether prefill has slices of its own, which hand prompts over to others."""
    gathered: dict[tuple[GenerateRules, PrefillRules], tuple[Collective, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The gathers of attention's weights, which no number of tokens changes, by the tables that they follow from."""


def repeated(found: Iterable[Collective], count: int) -> Iterable[Collective]:
    """The collectives of a step that runs `count` times."""
    if count == 1:
        return found
    return (each._replace(repeats=each.repeats * count) for each in found)


def gathers(address: str, axes: Axes, gathered_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """All-gathers over `axes`, minor first, until every chip holds `gathered_bytes`."""
    remaining = ways(axes)
    if remaining == 1:
        return ()
    found = []
    for axis in reversed(ways.cutting(axes)):
        remaining //= ways((axis,))
        found.append(Collective(address, "all_gather", (axis,), ceil(gathered_bytes / remaining), repeats))
    return found


def all_reduce(address: str, axes: Axes, operand_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """One all-reduce over all of `axes`, or nothing."""
    axes = ways.cutting(axes)
    return (Collective(address, "all_reduce", axes, ceil(operand_bytes), repeats),) if axes else ()


def all_to_all(address: str, axes: Axes, operand_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """One all-to-all over all of `axes`, or nothing."""
    axes = ways.cutting(axes)
    return (Collective(address, "all_to_all", axes, ceil(operand_bytes), repeats),) if axes else ()


def row_reduction(
    address: str, scatter: Axes, rest: Axes, rows: int, row_bytes: float, repeats: int, program: Program
) -> Sequence[Collective]:
    """Sum partial rows over `scatter` and `rest`, leaving each chip its block of rows along `scatter`.

    Scatters go axis by axis, major first, while the shard stays large enough for the compiler; the axes after that
    are summed whole in one all-reduce, together with `rest`, and cut by rank.
    """
    if not scatter:
        return all_reduce(address, rest, rows * row_bytes, repeats, program.ways)
    scattered, found = scatter_prefix(scatter, rows, program), []
    for axis in program.ways.cutting(scattered):
        found.append(Collective(address, "reduce_scatter", (axis,), ceil(rows * row_bytes), repeats))
        rows //= program.ways((axis,))
    found += all_reduce(address, without(scatter, scattered) + rest, rows * row_bytes, repeats, program.ways)
    return found


def scatter_prefix(axes: Axes, rows: int, program: Program) -> Axes:
    """The leading axes over which rows can be scattered one after the other and stay reduce-scatters when compiled."""
    for index, axis in enumerate(axes):
        ways = program.ways((axis,))
        if rows % ways or rows // ways < program.min_scatter_rows:
            return axes[:index]
        rows //= ways
    return axes


def hidden(
    block: str, d_model: Axes, rows: int, columns: float, repeats: int, program: Program
) -> Iterator[Collective]:
    """Partial sums of what an MLP makes of `columns` hidden ones over the d_model axes: scattered by rows and gathered
    again, or reduced whole. `block` is its address: `generate.mlp`."""
    sizes, ways = program.sizes, program.ways
    width = columns * sizes.activation_bytes
    made = sizes.inputs * width
    if scatter_prefix(d_model, rows, program) == d_model:
        yield from row_reduction(f"{block}.hidden", d_model, (), rows, made, repeats, program)
        yield from gathers(f"{block}.hidden_rows", d_model, rows * width, repeats, ways)
    else:
        yield from all_reduce(f"{block}.hidden", d_model, rows * made, repeats, ways)


def residual_bytes(rows: int, rules: GenerateRules | PrefillRules, program: Program) -> float:
    """Bytes of `rows` of the residual stream on one chip, its d_model cut by the rules."""
    return rows * program.sizes.d_model / program.ways(rules.d_model) * program.sizes.activation_bytes


def scale_gathers(address: str, axes: Axes, scales: float, repeats: int, program: Program) -> Iterator[Collective]:
    """Gathers of the scales of a quantised weight; nothing when weights are not quantised."""
    if program.sizes.scale_bytes:
        scale_bytes = scales * program.sizes.scale_bytes
        yield from gathers(address, axes, scale_bytes, repeats, program.ways)
