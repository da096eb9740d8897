"""What the prefill step of a package does, derived from its rule table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cost_models.chips import chip
from planner.plan.schema import GenerateRules, Plan, PrefillRules
from planner.plan.units import RESOURCES
from planner.problem.rules import Ways, prompt_axes
from planner.render.axes import Axes, axis_sizes, shared, ways, without
from planner.render.model import ModelSizes
from planner.render.reductions import Reduction, hidden_reduction, milliseconds
from planner.render.shapes import Shape
from planner.render.stored import ReadSizes, tables_read

LANES = 128
KERNEL_COMBINED_HEADS = frozenset({2, 4, 8, 16, 32})
"""Keys and values per chip (2 * KV heads) that jax's ragged paged attention accepts of bf16."""
ATTENTION_WEIGHTS = {
    "w_q": {"d_model": 2, "q_heads": 0},
    "w_kv": {"d_model": 2, "kv_heads": 0},
    "w_o": {"d_model": 2, "q_heads": 0},
    "w_q_scale": {"q_heads": 0},
    "w_kv_scale": {"kv_heads": 0},
    "w_o_scale": {"d_model": 0},
}
MLP_WEIGHTS = {
    "w_in": {"d_model": 1, "d_ff": 2},
    "w_down": {"d_model": 1, "d_ff": 0},
    "w_in_scale": {"d_ff": 1},
    "w_down_scale": {"d_model": 0},
}
"""Stored weight -> dimension of each logical axis in one layer's array, in the order in which prefill gathers them."""


@dataclass(frozen=True)
class GatherStep:
    """An all_gather over the axes of `group`, joined on dimension `dim` of one layer's array."""

    group: str
    dim: int


@dataclass(frozen=True)
class WeightGather:
    """How a weight becomes what prefill multiplies; d_model first."""

    weight: str
    steps: tuple[GatherStep, ...]


@dataclass(frozen=True)
class Keeping:
    """How a chip of the cache takes its KV heads from those that prefill hands over to it.

    It keeps the part that is its own along `axes`, after zero heads were added or left out; in slices of their own
    prefill's heads go to the cache's chips `cut` as they are kept, or all of them.
    """

    axes: Axes
    pads: bool
    cuts: bool
    cut: bool


def keeping_of(plan: Plan, shape: Shape) -> Keeping:
    """How the cache of a plan takes KV heads."""
    kept, rules, made = plan.generate.rules.kv_heads, plan.prefill.rules, len(shape.read.kv_heads)
    cut = plan.pool is not None and made == shape.kv_heads_stored
    axes = () if cut else kept if plan.pool else without(kept, rules.kv_heads)
    held = shape.kv_heads_stored // shape.kv_shards
    handed = made if plan.pool else made // ways(rules.kv_heads, axis_sizes(plan, "prefill"))
    wanted = made if cut else held * ways(axes, axis_sizes(plan, "generate"))
    return Keeping(axes, pads=handed < wanted, cuts=handed > wanted, cut=cut)


@dataclass(frozen=True)
class PrefillView:
    """The prefill step: its table, and what follows from it.

    `hands_over`: whether slices of their own give prompts that were read together to others, one at a time.
    """

    rules: PrefillRules
    programs: tuple[str, ...]
    reuses: bool
    prompts: int
    step_ms: str
    binds: str
    tokens: int
    chunk: int | None
    own_tokens: Axes
    prompt_axes: Axes
    own_prompts: int
    hands_over: bool
    copied: tuple[str, ...]
    within_kv: Axes
    keeping: Keeping
    layers: Axes
    stages: int
    attention_tokens: Axes
    attention_summed: Axes
    mlp_tokens: Axes
    mlp_summed: Axes
    gathered_attention_d_model: Axes
    gathered_mlp_d_model: Axes
    gathered_q_heads: Axes
    gathered_kv_heads: Axes
    gathered_d_ff: Axes
    attention_gathers: tuple[WeightGather, ...]
    mlp_gathers: tuple[WeightGather, ...]
    hidden: Reduction
    embedding_steps: tuple[str, ...]
    embedding_summed: Axes
    drops_head_padding: bool
    picks_kv_heads: bool
    kernel: str
    """The kernel by which a TPU attends: splash over whole prompts, ragged over parts of prompts, or none."""

    @property
    def selects_prompts(self) -> bool:
        """Whether attention has to tell several prompts apart, or to find one among several."""
        return self.own_prompts > 1

    @property
    def prompts_of_a_chip(self) -> str:
        """The prompts whose keys and values a chip has, as the package counts them."""
        return "config.prompts" + (" // collectives.ways(sharding.PROMPTS)" if self.prompt_axes else "")

    @property
    def prompt_tokens(self) -> Axes:
        """Token axes on which attention keeps its own queries, but for those that cut whole prompts."""
        return without(self.own_tokens, self.prompt_axes)

    @property
    def gathered_with_keys(self) -> str:
        """The group over which the keys and values of a chip's own prompts are gathered."""
        if not self.prompt_tokens:
            return ""
        return "PROMPT_TOKENS" if self.prompt_axes else "OWN_TOKENS"

    @property
    def attend(self) -> str:
        """The function of attention.py that attends."""
        return f"{self.plainly}_on_platform" if self.kernel else self.plainly

    @property
    def plainly(self) -> str:
        """The function of attention.py that attends without a kernel."""
        return "chunk_attention" if self.chunk else "causal_attention"

    @property
    def attended(self) -> str:
        """What it is told of its queries."""
        return "places.queries" + (", places.prompts, tokens=places.tokens" if self.selects_prompts else "")

    @property
    def chunk_takes_config(self) -> bool:
        """Whether attention of a chunk must know the model's sizes."""
        return self.picks_kv_heads or self.selects_prompts

    @property
    def what(self) -> str:
        """What a step reads, in words."""
        return "one prompt" if self.prompts == 1 else f"{self.prompts} prompts together"


def prefill_view(plan: Plan, shape: Shape, model: ModelSizes) -> PrefillView:
    """The view of the prefill step of `plan`."""
    rules, prompts, tables, read = plan.prefill.rules, plan.prefill.prompts, tables_read(plan), shape.read
    sizes, stored = axis_sizes(plan, "prefill"), tables.attention
    keeping = keeping_of(plan, shape)
    int8 = model.weights_dtype == "int8"
    own = without(rules.tokens, rules.q_heads)
    apart = prompt_axes(own, prompts, Ways(dict(sizes)))
    kept = without(rules.q_heads, rules.kv_heads)
    local_kv_heads = len(read.kv_heads) // read.kv_shards
    apart_d = tables.attention.d_model != tables.mlp.d_model
    attention_d, mlp_d = ("ATTENTION_D_MODEL", "MLP_D_MODEL") if apart_d else ("D_MODEL", "D_MODEL")
    picks = bool(kept) and local_kv_heads > 1
    kv_heads = len(read.kv_heads) // ways(rules.kv_heads, sizes)
    q_heads = read.q_heads_stored // ways(rules.q_heads, sizes)
    seen = q_heads if picks else kv_heads
    return PrefillView(
        rules=rules,
        programs=tuple(_programs(plan)),
        reuses=reuses_prefixes(plan, keeping),
        step_ms=milliseconds(plan.prefill.step_s),
        binds=RESOURCES[plan.prefill.binds],
        tokens=plan.prefill.tokens,
        prompts=prompts,
        chunk=plan.prefill.chunk,
        own_tokens=own,
        prompt_axes=apart,
        own_prompts=prompts // ways(apart, sizes),
        hands_over=plan.pool is not None and prompts > 1,
        copied=tuple(sorted(plan.prefill.copies or ())),
        within_kv=without(stored.q_heads, stored.kv_heads),
        keeping=keeping,
        layers=(plan.prefill.stages.axis,) if plan.prefill.stages else (),
        stages=plan.prefill.stages.count if plan.prefill.stages else 1,
        attention_tokens=shared(rules.tokens, rules.q_heads),
        attention_summed=without(rules.q_heads, rules.tokens),
        mlp_tokens=shared(rules.tokens, rules.d_ff),
        mlp_summed=without(rules.d_ff, rules.tokens),
        gathered_attention_d_model=without(stored.d_model, rules.d_model),
        gathered_mlp_d_model=without(tables.mlp.d_model, rules.d_model),
        gathered_q_heads=without(stored.q_heads, rules.q_heads),
        gathered_kv_heads=without(stored.kv_heads, rules.kv_heads),
        gathered_d_ff=without(tables.mlp.d_ff, rules.d_ff),
        attention_gathers=_gathers(ATTENTION_WEIGHTS, stored, rules, int8, attention_d),
        mlp_gathers=_gathers(MLP_WEIGHTS, tables.mlp, rules, int8, mlp_d),
        hidden=hidden_reduction(plan.prefill.collectives, "prefill.mlp.hidden", rules.d_model),
        embedding_steps=_embedding_steps(rules),
        embedding_summed=without(rules.vocab, rules.tokens),
        drops_head_padding=not kept and pads_within_shards(read, shape),
        picks_kv_heads=picks,
        kernel=kernel_of(plan, model, picks, seen, ways(own + rules.d_model, sizes)),
    )


def reuses_prefixes(plan: Plan, keeping: Keeping) -> bool:
    """Whether reading may go on behind pages of the cache: heads must lie in it as prefill has them."""
    copied = plan.prefill.copies and "attention" in plan.prefill.copies
    return bool(plan.prefill.chunk) and not (plan.pool or copied or keeping.pads or keeping.cuts)


def _programs(plan: Plan) -> Iterator[str]:
    """Programs that are compiled for each bucket of prompts."""
    yield "prefill"
    if plan.pool is not None and plan.prefill.prompts > 1:
        yield "hand_over"
    yield "insert"
    if plan.prefill.chunk:
        yield "empty"
    if plan.prefill.stages:
        yield "idle"


def pads_within_shards(read: ReadSizes, shape: Shape) -> bool:
    """Whether a KV shard of what prefill reads holds query heads beyond those of its KV heads."""
    real = len(read.kv_heads) // read.kv_shards * (shape.q_heads // shape.kv_heads)
    return read.q_heads_stored // read.kv_shards != real


def kernel_of(plan: Plan, model: ModelSizes, picks: bool, kv_heads: int, cut: int) -> str:
    """The kernel by which a chip attends over its `kv_heads`, when prompts are `cut` so many ways; "" for none."""
    prompts, chunk = plan.prefill.prompts, plan.prefill.chunk
    if chip(plan.chip).kind != "tpu" or model.activations_dtype != "bf16":
        return ""
    if prompts % cut == 0 and chunk is None:
        return "splash"
    even = prompts % cut == 0 or cut % prompts == 0
    lanes = model.head_dim == LANES or (model.head_dim % LANES == 0 and kv_heads == 1)
    read = chunk is None or (model.kv_dtype in ("bf16", "int8") and not picks)
    return "ragged" if even and lanes and read and 2 * kv_heads in KERNEL_COMBINED_HEADS else ""


def _gathers(
    weights: Mapping[str, Mapping[str, int]], stored: GenerateRules, rules: PrefillRules, int8: bool, d_model: str
) -> tuple[WeightGather, ...]:
    """The gathers of those `weights` (with their scales when `int8`) that are stored on more axes than `rules` use."""
    gathers = []
    for weight, dims in weights.items():
        if weight.endswith("_scale") and not int8:
            continue
        cut = [axis for axis in dims if without(getattr(stored, axis), getattr(rules, axis))]
        if cut:
            groups = {axis: f"GATHERED_{d_model if axis == 'd_model' else axis.upper()}" for axis in cut}
            steps = tuple(GatherStep(groups[axis], dims[axis]) for axis in cut)
            gathers.append(WeightGather(weight, steps))
    return tuple(gathers)


def embedding_runs(rules: PrefillRules) -> list[tuple[bool, Axes]]:
    """Neighbouring token axes of one kind together: (does the vocabulary use them?, axes)."""
    runs: list[tuple[bool, Axes]] = []
    for axis in rules.tokens:
        scatters = axis in rules.vocab
        if runs and runs[-1][0] == scatters:
            runs[-1] = (scatters, (*runs[-1][1], axis))
        else:
            runs.append((scatters, (axis,)))
    return runs


def _embedding_steps(rules: PrefillRules) -> tuple[str, ...]:
    """Calls that bring the looked-up rows `x` into the residual's layout."""
    calls = [
        f"{'reduce_scatter_rows' if scatters else 'own_slice'}(x, sharding.EMBEDDING_TOKENS_{index})"
        for index, (scatters, _) in enumerate(embedding_runs(rules))
    ]
    if without(rules.vocab, rules.tokens):
        calls.append("all_reduce(x, sharding.EMBEDDING_SUMMED)")
    if rules.d_model:
        calls.append("own_slice(x, PREFILL.d_model, dim=1)")
    return tuple(calls)
