"""The chips and links that a step runs on, and what single operations cost there."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from cost_models import collectives
from cost_models.chips import Chip
from cost_models.matmul import elementwise, matmul
from cost_models.meshes import Mesh
from cost_models.roofline import Overlap, Roofline
from cost_models.stacks import Stack
from cost_models.torus import Slice, merge_axes
from planner.problem.primitives import Collective, Program
from planner.problem.rules import Axes, Ways
from planner.problem.sizes import Sizes

TPU_SCATTER_ROWS = 8


CollectiveKey: TypeAlias = tuple[str, Axes, int]
MatmulKey: TypeAlias = tuple[float, float, float, int, float]
ElementwiseKey: TypeAlias = tuple[float, float, int]


@dataclass(frozen=True)
class Machine:
    """The chips and links that a step runs on: one mesh of one slice, and the software stack's constants."""

    chip: Chip
    stack: Stack
    slice: Slice
    mesh: Mesh
    sizes: Sizes
    apart: bool = False
    """Whether prefill and generate have slices of their own."""
    remembered: dict[object, dict[str, Roofline]] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Parts of steps that many layouts have in common, by what one chip does."""
    _seconds: dict[CollectiveKey, float] = field(default_factory=dict, init=False, compare=False, repr=False)
    _matmuls: dict[MatmulKey, Roofline] = field(default_factory=dict, init=False, compare=False, repr=False)
    _elementwise: dict[ElementwiseKey, Roofline] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def ways(self) -> Ways:
        """How many ways mesh axes cut an array."""
        return Ways({axis.name: axis.size for axis in self.mesh})

    @cached_property
    def program(self) -> Program:
        """What the collectives of a step depend on besides rule tables."""
        return Program(self.sizes, self.ways, TPU_SCATTER_ROWS if self.chip.kind == "tpu" else 1, self.apart)

    def seconds(self, planned: Collective) -> float:
        """Seconds of one execution of a planned collective."""
        key = planned.kind, planned.axes, planned.bytes
        if key not in self._seconds:
            axes = merge_axes([axis for axis in self.mesh if axis.name in planned.axes], self.slice)
            whole = planned.bytes * self.ways(planned.axes) if planned.kind == "all_to_all" else planned.bytes
            cost = getattr(collectives, f"{planned.kind}_s")
            self._seconds[key] = cost(whole, axes, self.chip, self.stack)
        return self._seconds[key]

    def matmul(
        self, rows: float, inner: float, outer: float, layers: int | None = None, experts: float = 1
    ) -> Roofline:
        """A weight matmul `[rows, inner] x [inner, outer]` on one chip, in every layer or in `layers` of them.

        The rows are spread over `experts` such weights. There are few shapes, asked for often.
        """
        key = rows, inner, outer, self.sizes.layers if layers is None else layers, experts
        if key not in self._matmuls:
            once = self.matmul_once(rows, inner, outer, self.stack.weight_passes, experts)
            self._matmuls[key] = once * key[3]
        return self._matmuls[key]

    def matmul_once(self, rows: float, inner: float, outer: float, passes: float = 1, experts: float = 1) -> Roofline:
        """One weight matmul on one chip, its weights carried `passes` times."""
        return matmul(
            rows,
            inner,
            outer,
            weight_bytes_per_element=self.sizes.weight_bytes * passes,
            activation_bytes_per_element=self.sizes.activation_bytes,
            compute_dtype=self.sizes.compute_dtype,
            chip=self.chip,
            stack=self.stack,
            experts=experts,
        )

    def elementwise(self, rows: float, width: float, layers: int | None = None) -> Roofline:
        """What happens to `rows` activations of `width` outside matmuls, in every layer or in `layers` of them."""
        key = rows, width, self.sizes.layers if layers is None else layers
        if key not in self._elementwise:
            once = elementwise(rows, width, self.sizes.activation_bytes, self.chip, self.stack)
            self._elementwise[key] = once * key[2]
        return self._elementwise[key]

    @cached_property
    def overlap(self) -> Overlap:
        """What still overlaps in a part: collectives are counted without what local work hides of them."""
        return "nothing" if self.stack.overlap == "nothing" else "compute_and_hbm"

    def total_s(self, cost: Roofline) -> float:
        """Seconds of a roofline of one part."""
        return cost.total_s(self.overlap)
