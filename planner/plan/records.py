"""What a plan says about chips: their mesh, what their HBM holds, and how many slices of them serve.

The field order here is the order in the file. Sizes are bytes, times are seconds, unless a name says otherwise.
"""

from collections.abc import Generator
from math import prod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Record(BaseModel):
    """A frozen piece of a plan; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MeshAxis(Record):
    """One named axis of the device mesh: a whole torus axis, or a piece of one.

    Neighbours along a piece are `stride` chips apart on their torus axis; only a whole axis can wrap.
    """

    name: str
    size: int
    """Chips along it."""
    torus_axis: str
    """The side of the slice that it lies on: x, y or z."""
    stride: int = 1
    wraps: bool = False
    """Whether its ends are linked."""


class Mesh(Record):
    """Mesh axes, major first, and the torus coordinates of the chips in C order over those axes."""

    axes: tuple[MeshAxis, ...]
    chips: tuple[tuple[int, ...], ...]


class Padding(Record):
    """A dimension that was padded so that it divides: from, to, and the bytes per chip that cost."""

    dimension: str
    """By its name in the model section, of the phase where a phase is told."""
    size: int
    padded: int
    bytes_per_chip: int


class Hbm(Record):
    """Bytes per chip by item. `available` is the capacity less the reserve; `free` is what the plan leaves. `copies`:
    second copies of weights; None for none."""

    weights: int
    copies: int | None = None
    kv_cache: int
    activations: int
    """The most that a step holds at once."""
    logits: int
    total: int
    """All items above."""
    reserve: int
    """Kept back for the compiler and the runtime: `hardware.reserve` of the capacity."""
    capacity: int
    available: int
    free: int

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The items that there are, with their bytes."""
        yield from ((name, size) for name, size in super().__iter__() if size is not None)

    @model_serializer(mode="wrap")
    def _told(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: size for name, size in write(self).items() if size is not None}


class Pool(Record):
    """The slices that prefill has to itself in disaggregated serving: their topology, mesh, padding, HBM per chip."""

    slice: str
    mesh: Mesh
    padding: tuple[Padding, ...]
    hbm: Hbm


class KvLayout(Record):
    """How one chip keeps its part of the KV cache: pages of one layer, the scratch page among them, in this `order` of
    dimensions, keys and values of a head side by side. `stored`: the last dimensions, padding included. Where values
    are quantised, `scales` is the dtype of those of each token and head.

    `kernel` reads so many pages and queries at a time, in `vmem_bytes` at most; without one, plain JAX does. `pinned`:
    row-major, where a TPU would choose another order.
    """

    order: tuple[str, ...]
    pages_per_layer: int
    page_tokens: int
    kv_heads: int
    head_dim: int
    stored: tuple[int, ...]
    scales: Literal["float32"] | None = None
    kernel: Literal["ragged_paged_attention", "paged_decode"] | None = None
    pages_per_block: int | None = None
    queries_per_block: int | None = None
    vmem_bytes: int | None = None
    pinned: bool = False

    @property
    def flat(self) -> bool:
        """Whether the heads of a token are one dimension."""
        return len(self.stored) == 1

    @property
    def scaled(self) -> bool:
        """Whether values are quantised."""
        return self.scales is not None

    @property
    def padded(self) -> bool:
        """Whether a token takes more than its heads do."""
        return prod(self.stored) != 2 * self.kv_heads * self.head_dim


class Transfer(Record):
    """The hand-over of a prompt's keys and values from a prefill slice to a generate slice: bytes, and over what."""

    link: Literal["ici", "dcn"]
    bytes: int
    seconds: float


class Tails(Record):
    """What 95 % of requests stay within, by the queueing estimate in docs/explanation/queues.md."""

    ttft_p95_s: float
    tpot_p95_s: float


class Fleet(Record):
    """How many slices serve the workload. Interleaved: `slices` do both phases. Disaggregated: they generate, and
    `prefill_slices` read prompts.

    `requests_per_s` is what arrives, or what the fleet serves where the spec has no rate. Utilisations are parts of
    one: of the slots of the generate slices, and of the time of the slices that read prompts.
    """

    mode: Literal["interleaved", "disaggregated"]
    requests_per_s: float
    slices: int
    prefill_slices: int | None = None
    chips: int
    """Of all slices."""
    slot_utilization: float
    prefill_utilization: float
    transfer: Transfer | None = None
    """Told where phases have slices of their own."""
    tails: Tails | None = None
    """Told where there is a request rate."""
