"""A time that keeps its parts: computing, reading HBM, talking over ICI, and fixed overheads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Overlap = Literal["everything", "compute_and_hbm", "nothing"]
"""Which parts of one region run at the same time.

`everything`: compute, HBM and ICI, the book's lower bound. `compute_and_hbm`: the matrix unit works while the next
weights arrive, but a collective waits for its operand and is waited for, as in compiled decode steps. `nothing`: the
upper bound, at most three times the lower one.
"""

Part = Literal["compute", "hbm", "ici", "fixed"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds that one region of a program needs of each resource.

    Adding two merges them into one region, whose parts may hide behind each other throughout. Regions that run one
    after the other without such freedom take the sum of their totals instead: see `sequence_s`.
    """

    compute_s: float = 0.0
    hbm_s: float = 0.0
    ici_s: float = 0.0
    fixed_s: float = 0.0

    def __add__(self, other: "Roofline") -> "Roofline":
        return Roofline(
            self.compute_s + other.compute_s,
            self.hbm_s + other.hbm_s,
            self.ici_s + other.ici_s,
            self.fixed_s + other.fixed_s,
        )

    def __mul__(self, count: float) -> "Roofline":
        """The same region run `count` times."""
        return Roofline(self.compute_s * count, self.hbm_s * count, self.ici_s * count, self.fixed_s * count)

    __rmul__ = __mul__

    def total_s(self, overlap: Overlap = "compute_and_hbm") -> float:
        """Seconds of the region when the parts that `overlap` names run at once and the others in turn.

        everything        max(T_math, T_hbm, T_ici) + T_fixed     (scaling-book, roofline.md § Where Does the Time Go)
        compute_and_hbm   max(T_math, T_hbm) + T_ici + T_fixed
        nothing           T_math + T_hbm + T_ici + T_fixed
        """
        if overlap == "compute_and_hbm":
            return max(self.compute_s, self.hbm_s) + self.ici_s + self.fixed_s
        if overlap == "everything":
            return max(self.compute_s, self.hbm_s, self.ici_s) + self.fixed_s
        return self.compute_s + self.hbm_s + self.ici_s + self.fixed_s

    @property
    def binds(self) -> Part:
        """The largest part; of equal ones the first in the order compute, hbm, ici, fixed."""
        parts: tuple[tuple[Part, float], ...] = (
            ("compute", self.compute_s),
            ("hbm", self.hbm_s),
            ("ici", self.ici_s),
            ("fixed", self.fixed_s),
        )
        return max(parts, key=lambda part: part[1])[0]


def sequence_s(regions: Iterable[Roofline], overlap: Overlap = "compute_and_hbm") -> float:
    """Seconds of regions that run one after the other, such as attention and then the matmuls of a layer."""
    return sum(region.total_s(overlap) for region in regions)
