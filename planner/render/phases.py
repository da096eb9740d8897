"""What each step of a package does, derived from its rule table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.plan.schema import Collective, GenerateRules, Plan, PrefillRules
from planner.render.axes import Axes, shared, ways, without
from planner.render.shapes import Shape

ATTENTION_WEIGHTS = {
    "w_q": {"d_model": 2, "q_heads": 0},
    "w_kv": {"d_model": 2, "kv_heads": 0},
    "w_o": {"d_model": 2, "q_heads": 0},
    "w_q_scale": {"q_heads": 0},
    "w_kv_scale": {"kv_heads": 0},
    "w_o_scale": {"d_model": 0},
}
MLP_WEIGHTS = {
    "w_in": {"d_model": 0, "d_ff": 2},
    "w_down": {"d_model": 1, "d_ff": 0},
    "w_in_scale": {"d_ff": 1},
    "w_down_scale": {"d_model": 0},
}
"""Stored weight -> dimension of each logical axis in one layer's array, in the order in which prefill gathers them."""


@dataclass(frozen=True)
class Reduction:
    """How partial sums over d_model are added up: rows scattered, or summed everywhere, then cut locally."""

    value: str
    group: str
    scattered: Axes = ()
    summed: Axes = ()
    sliced: Axes = ()

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls of the package's collectives, each of which turns `value` into the next `value`."""
        steps = (("reduce_scatter_rows", "SCATTERED"), ("all_reduce", "SUMMED"), ("own_slice", "SLICED"))
        return tuple(
            f"{call}({self.value}, sharding.{self.group}_{part})" for call, part in steps if getattr(self, part.lower())
        )


@dataclass(frozen=True)
class GenerateView:
    """The generate step: its table, and what follows from it."""

    rules: GenerateRules
    step_ms: str
    binds: str
    scattered_slots: Axes
    exchanged_slots: Axes
    qkv: Reduction
    q: Reduction
    kv: Reduction
    hidden: Reduction
    drops_head_padding: bool


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
class PrefillView:
    """The prefill step: its table, and what follows from it."""

    rules: PrefillRules
    step_ms: str
    binds: str
    tokens: int
    own_tokens: Axes
    attention_tokens: Axes
    attention_summed: Axes
    mlp_tokens: Axes
    mlp_summed: Axes
    gathered_d_model: Axes
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


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def _reduction(planned: tuple[Collective, ...], address: str, d_model: Axes, rows: Axes) -> Reduction:
    """The reduction at `address` over `d_model`, scattering those axes of `rows` for which the plan says so."""
    value = address.rpartition(".")[2]
    group = value.upper() if address.startswith("generate") else f"PREFILL_{value.upper()}"
    kinds = {c.axes: c.kind for c in planned if c.address == address}
    scattered = tuple(axis for axis in rows if kinds.get((axis,)) == "reduce_scatter")
    return Reduction(value, group, scattered, summed=without(d_model, scattered), sliced=without(rows, scattered))


def _hidden_reduction(planned: tuple[Collective, ...], address: str, d_model: Axes) -> Reduction:
    """As `_reduction`, for an MLP's hidden rows, which all chips need again when they are not scattered."""
    return replace(_reduction(planned, address, d_model, d_model), sliced=())


def generate_view(plan: Plan, shape: Shape) -> GenerateView:
    rules, planned = plan.generate.rules, plan.generate.collectives
    rows = shared(rules.batch, rules.d_model)
    exchanged = shared(rules.batch, rules.q_heads)
    copied = without(rules.q_heads, rules.kv_heads + exchanged)
    return GenerateView(
        rules=rules,
        step_ms=_milliseconds(plan.generate.step_s),
        binds=plan.generate.binds,
        scattered_slots=rows,
        exchanged_slots=exchanged,
        qkv=_reduction(planned, "generate.attention.qkv", rules.d_model, rows),
        q=_reduction(planned, "generate.attention.q", rules.d_model, rows),
        kv=_reduction(planned, "generate.attention.kv", rules.d_model, rows),
        hidden=_hidden_reduction(planned, "generate.mlp.hidden", rules.d_model),
        drops_head_padding=bool(exchanged) and not copied and shape.pads_heads_within_shards,
    )


def prefill_view(plan: Plan, shape: Shape, sizes: Mapping[str, int], int8: bool) -> PrefillView:
    rules, stored = plan.prefill.rules, plan.generate.rules
    kept = without(rules.q_heads, rules.kv_heads)
    local_kv_heads = shape.kv_heads_stored // ways(stored.kv_heads, sizes)
    return PrefillView(
        rules=rules,
        step_ms=_milliseconds(plan.prefill.step_s),
        binds=plan.prefill.binds,
        tokens=plan.prefill.tokens,
        own_tokens=without(rules.tokens, rules.q_heads),
        attention_tokens=shared(rules.tokens, rules.q_heads),
        attention_summed=without(rules.q_heads, rules.tokens),
        mlp_tokens=shared(rules.tokens, rules.d_ff),
        mlp_summed=without(rules.d_ff, rules.tokens),
        gathered_d_model=without(stored.d_model, rules.d_model),
        gathered_q_heads=without(stored.q_heads, rules.q_heads),
        gathered_kv_heads=without(stored.kv_heads, rules.kv_heads),
        gathered_d_ff=without(stored.d_ff, rules.d_ff),
        attention_gathers=_gathers(ATTENTION_WEIGHTS, stored, rules, int8),
        mlp_gathers=_gathers(MLP_WEIGHTS, stored, rules, int8),
        hidden=_hidden_reduction(plan.prefill.collectives, "prefill.mlp.hidden", rules.d_model),
        embedding_steps=_embedding_steps(rules),
        embedding_summed=without(rules.vocab, rules.tokens),
        drops_head_padding=not kept and shape.pads_heads_within_shards,
        picks_kv_heads=bool(kept) and local_kv_heads > 1,
    )


def _gathers(
    weights: Mapping[str, Mapping[str, int]], stored: GenerateRules, rules: PrefillRules, int8: bool
) -> tuple[WeightGather, ...]:
    """The gathers of those `weights` (with their scales when `int8`) that are stored on more axes than `rules` use."""
    gathers = []
    for weight, dims in weights.items():
        if weight.endswith("_scale") and not int8:
            continue
        cut = [axis for axis in dims if without(getattr(stored, axis), getattr(rules, axis))]
        if cut:
            steps = tuple(GatherStep(f"GATHERED_{axis.upper()}", dims[axis]) for axis in cut)
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
