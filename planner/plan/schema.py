"""The plan file: what was decided for each phase, what it is predicted to cost, and the proof that came with it.

The field order here is the order in the file. Sizes are bytes, times are seconds, unless a name says otherwise.
"""

from collections.abc import Generator
from typing import Any, ClassVar, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from planner.plan.records import Fleet, Hbm, KvLayout, Mesh, Padding, Pool, Record
from planner.spec.base import Dtype

FORMAT_VERSION = "1.0"

CollectiveKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute"]


class RuleTable(Record):
    """Logical axis -> mesh axes. The axes of experts are told only where they are cut: most models have none."""

    _untold: ClassVar[frozenset[str]] = frozenset({"expert_ff", "experts"})

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The logical axes that are told, with their mesh axes."""
        yield from ((name, axes) for name, axes in super().__iter__() if axes or name not in self._untold)

    @model_serializer(mode="wrap")
    def _told(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: axes for name, axes in write(self).items() if axes or name not in self._untold}


class GenerateRules(RuleTable):
    """Mesh axes of each logical axis in generate, major to minor; empty means replicated.

    Weights are stored this way.
    """

    rows: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    d_model: tuple[str, ...] = ()
    q_heads: tuple[str, ...] = ()
    kv_heads: tuple[str, ...] = ()
    kv_tokens: tuple[str, ...] = ()
    d_ff: tuple[str, ...] = ()
    vocab: tuple[str, ...] = ()
    expert_ff: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()


class PrefillRules(RuleTable):
    """Mesh axes of each logical axis in prefill, major to minor; empty means replicated.

    A weight that is stored on more axes is gathered over the rest before use.
    """

    tokens: tuple[str, ...] = ()
    d_model: tuple[str, ...] = ()
    q_heads: tuple[str, ...] = ()
    kv_heads: tuple[str, ...] = ()
    d_ff: tuple[str, ...] = ()
    vocab: tuple[str, ...] = ()
    expert_ff: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()


class CopyRules(Record):
    """How the second copy of a block's weights is stored: mesh axes of each logical axis that cuts them, major to
    minor; those that the block lacks are left out."""

    d_model: tuple[str, ...] = ()
    q_heads: tuple[str, ...] | None = None
    kv_heads: tuple[str, ...] | None = None
    d_ff: tuple[str, ...] | None = None
    expert_ff: tuple[str, ...] | None = None
    experts: tuple[str, ...] | None = None

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The logical axes that the block has, with their mesh axes."""
        yield from ((name, axes) for name, axes in super().__iter__() if axes is not None)

    @model_serializer(mode="wrap")
    def _told(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: axes for name, axes in write(self).items() if axes is not None}


CopiedBlock = Literal["attention", "mlp", "experts"]
COPIED: tuple[CopiedBlock, ...] = ("attention", "mlp", "experts")
Copies = dict[CopiedBlock, CopyRules]


class Strategy(Record):
    """Names derived from the rule table, for people; nothing computes with them. Blocks that a model lacks are left
    out."""

    attention: str
    kv_cache: str
    mlp: str | None = None
    experts: str | None = None
    vocab: str

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The blocks that the model has, with their strategies."""
        yield from ((block, text) for block, text in super().__iter__() if text is not None)


class Roofline(Record):
    """Seconds of one address in one step of its phase: the parts, and their total under the stack's overlap."""

    address: str
    compute_s: float
    hbm_s: float
    ici_s: float
    fixed_s: float
    """Launches and the like, which no byte and no operation explains."""
    total_s: float
    """What overlaps counted once."""
    binds: Literal["compute", "hbm", "ici", "fixed"]


class Collective(Record):
    """One planned collective: `count` executions a step, `bytes` per chip of the larger of operand and result."""

    address: str
    kind: CollectiveKind
    axes: tuple[str, ...]
    """Mesh axes over which it runs."""
    bytes: int
    count: int
    seconds: float
    """Of all executions of a step."""


class RunnerUp(Record):
    """The best plan whose table of this phase differs: its strategy, and its price against the chosen one."""

    rules: GenerateRules | PrefillRules
    strategy: Strategy
    step_s: float
    objective_ratio: float
    """Its objective over that of the plan."""


class Stages(Record):
    """Pipeline stages of prefill: the mesh axis along which layers are cut. Each reads its own prompts meanwhile."""

    axis: str
    count: int


class Prefill(Record):
    """How prompts are read: `prompts` together, padded to the smallest bucket that holds them; `tokens` is the planned
    one. A longer bucket than `chunk` is read so many tokens at a time; the step, its parts and collectives are those of
    all chunks. `copies`: the blocks of whose weights it reads a second copy, stored another way than generate's."""

    rules: PrefillRules
    stored: GenerateRules | None = None
    """How weights are stored on the slices that prefill has to itself."""
    copies: Copies | None = None
    stages: Stages | None = None
    """Told where layers are cut into pipeline stages."""
    strategy: Strategy
    prompts: int = 1
    chunk: int | None = None
    tokens: int
    buckets: tuple[int, ...]
    """Lengths that prompts are padded to; each is a program of its own."""
    step_s: float
    """To read `prompts` prompts of `tokens` each, all chunks."""
    binds: str
    """What most of the step waits for."""
    parts: tuple[Roofline, ...]
    """Where the step's time goes, by address."""
    collectives: tuple[Collective, ...]
    runner_up: RunnerUp | None = None


class Speculation(Record):
    """What a generate step verifies: drafts of every sequence, made in `draft_s` seconds before it.

    On average it adds `tokens_per_step` to a sequence.
    """

    drafted_tokens: int
    acceptance: float
    tokens_per_step: float
    draft_s: float


class Generate(Record):
    """How tokens are made: `batch` slots, each step adds one token to every slot, or several with speculation."""

    rules: GenerateRules
    strategy: Strategy
    batch: int
    """Slots: sequences that a step goes on with."""
    context: int
    """The most tokens that a slot can hold."""
    page_tokens: int
    """Tokens of a page of the KV cache."""
    kv_layout: KvLayout | None = None
    """None for caches of latents and of windows, and in plans that were made before it was recorded."""
    speculation: Speculation | None = None
    """Told where steps verify drafts."""
    step_s: float
    """With every slot in use, at the mean context of the workload."""
    binds: str
    """What most of the step waits for."""
    parts: tuple[Roofline, ...]
    """Where the step's time goes, by address."""
    collectives: tuple[Collective, ...]
    runner_up: RunnerUp | None = None


class Service(Record):
    """What users of the service see, by the formulas in docs/explanation: means, not tails."""

    ttft_s: float
    """Time to the first token."""
    tpot_s: float
    """Time per token after the first, prefills in between included."""
    tokens_per_s: float
    """Output tokens of all slices."""
    chip_seconds_per_million_tokens: float
    """Of output tokens."""
    money_per_million_tokens: float | None = None
    """In the currency of `hardware.price_per_chip_hour`."""
    stall_s: float | None = None
    """How long prefill stops generation at most: the last chunk of the planned bucket. Told where there are chunks."""

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The numbers of every plan, and the stall of one that has chunks."""
        yield from ((name, value) for name, value in super().__iter__() if name != "stall_s" or value is not None)


class Dtypes(Record):
    """The dtypes that were taken where the spec leaves a choice."""

    weights: Dtype
    kv_cache: Dtype


class Near(Record):
    """Nearness to an earlier plan: the tolerance that was asked for, and the least change that it allows.

    `batch` is the earlier plan's, which could be chosen beside the spec's own; `moved_bytes` is the most weights that a
    chip must receive, summed over the blocks.
    """

    plan: str
    batch: int
    within: float
    moved_bytes: int
    changed: tuple[str, ...]


class Proof(Record):
    """The solver's word: status, the objective it reached, the bound it proved, and how much it looked at.

    Value and bound are nanoseconds of a request, chip-nanoseconds for a cost, rounded up.
    OPTIMAL: value and bound are equal. NEAR: no plan is below the bound, and the value is within the tolerance of it.
    """

    status: Literal["OPTIMAL", "NEAR"]
    objective: str
    """`cost`, `throughput` or `latency`, as the spec says."""
    value: int
    bound: int
    candidates: int
    """Meshes and batches that there are."""
    solved: int
    """Of these, how many the solver looked at; the rest were bounded away."""
    near: Near | None = None

    @property
    def earlier_batch(self) -> int | None:
        """The batch that could be chosen beside the spec's own, if the plan is near an earlier one."""
        return self.near.batch if self.near else None

    @property
    def above(self) -> float:
        """How far the value lies above the bound, as a fraction."""
        return (self.value - self.bound) / self.bound if self.bound else 0.0


class Plan(Record):
    """Everything that was decided. Same spec, same bytes."""

    format_version: str
    name: str
    spec: dict[str, object]
    """The resolved spec: every default and every size filled in."""
    dtypes: Dtypes | None = None
    """Told where the spec has a list of dtypes."""
    chip: str
    """By its name in the chip catalogue."""
    slice: str
    """The topology, such as 4x4."""
    mesh: Mesh
    prefill: Prefill
    generate: Generate
    padding: tuple[Padding, ...]
    """Empty where every dimension divides."""
    hbm: Hbm
    pool: Pool | None = None
    """Where prefill runs in disaggregated serving; slice, mesh, padding and hbm are then of the generate slices."""
    fleet: Fleet | None = None
    """Told where there is a request rate, or serving is disaggregated."""
    service: Service
    proof: Proof
    accuracy: str
    """What to expect of the predicted times, in words."""

    def at(self, phase: str) -> "Plan":
        """The plan with slice, mesh, padding and HBM of the slices that a phase runs on."""
        if self.pool is None or phase not in ("prefill", "hand_over"):
            return self
        return self.model_copy(update=dict(self.pool))

    @property
    def chips(self) -> int:
        """Chips of all slices."""
        return self.fleet.chips if self.fleet else len(self.mesh.chips)
