"""What the prefill step of a package does, derived from its rule table."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan.schema import GenerateRules, Plan, PrefillRules
from planner.render.axes import Axes, shared, ways, without
from planner.render.reductions import Reduction, hidden_reduction, milliseconds
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
    prompts: int
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


def prefill_view(plan: Plan, shape: Shape, sizes: Mapping[str, int], int8: bool) -> PrefillView:
    """The view of the prefill step of `plan`."""
    rules, stored = plan.prefill.rules, plan.generate.rules
    kept = without(rules.q_heads, rules.kv_heads)
    local_kv_heads = shape.kv_heads_stored // ways(stored.kv_heads, sizes)
    return PrefillView(
        rules=rules,
        prompts=plan.prefill.prompts,
        step_ms=milliseconds(plan.prefill.step_s),
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
        hidden=hidden_reduction(plan.prefill.collectives, "prefill.mlp.hidden", rules.d_model),
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
