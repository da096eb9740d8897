"""What the generate step of a package does, derived from its rule table."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan.kv_layout import kv_layout_of
from planner.plan.records import KvLayout
from planner.plan.schema import GenerateRules, Plan
from planner.plan.units import RESOURCES
from planner.render.axes import Axes, shared, ways, without
from planner.render.reductions import Reduction, hidden_reduction, milliseconds, named, reduction
from planner.render.shapes import Shape


@dataclass(frozen=True)
class GenerateView:
    """The generate step: its table, and what follows from it."""

    rules: GenerateRules
    step_ms: str
    binds: str
    scattered_slots: Axes
    exchanged_slots: Axes
    cached_slots: Axes
    """Axes that cut the slots of the KV cache."""
    token_parts: int
    """Chips that share a sequence's tokens."""
    mlp_rows: Axes
    vocab_rows: Axes
    late_rows: Axes
    """Axes of the rows whose tokens are brought together last."""
    qkv: Reduction
    q: Reduction
    kv: Reduction
    merged: Reduction
    hidden: Reduction
    mlp_out: Reduction
    lookup: Reduction
    drops_head_padding: bool
    kv_layout: KvLayout


def generate_view(plan: Plan, shape: Shape, sizes: Mapping[str, int]) -> GenerateView:
    """The view of the generate step of `plan`."""
    rules, planned = plan.generate.rules, plan.generate.collectives
    rows = shared(rules.batch, rules.d_model)
    exchanged = shared(rules.batch, rules.q_heads)
    copied = without(rules.q_heads, rules.kv_heads + exchanged + rules.kv_tokens)
    mlp_rows, vocab_rows = shared(rules.rows, rules.d_ff), shared(rules.rows, rules.vocab)
    layout = kv_layout_of(plan)
    assert layout is not None, "packages are rendered for plain caches only"
    merged = reduction(planned, "generate.attention.o_from_tokens", rules.kv_tokens, rules.kv_tokens)
    mlp_out = reduction(planned, "generate.mlp.out", rules.d_ff, mlp_rows)
    lookup = reduction(planned, "generate.embedding.lookup", rules.vocab, vocab_rows)
    return GenerateView(
        rules=rules,
        step_ms=milliseconds(plan.generate.step_s),
        binds=RESOURCES[plan.generate.binds],
        scattered_slots=rows,
        exchanged_slots=exchanged,
        qkv=reduction(planned, "generate.attention.qkv", rules.d_model, rows),
        q=reduction(planned, "generate.attention.q", rules.d_model, rows),
        kv=reduction(planned, "generate.attention.kv", rules.d_model, rows),
        cached_slots=rules.rows + rules.batch,
        token_parts=ways(rules.kv_tokens, sizes),
        mlp_rows=mlp_rows,
        vocab_rows=vocab_rows,
        late_rows=without(rules.rows, vocab_rows),
        merged=named(merged, "parts", "MERGED"),
        hidden=hidden_reduction(planned, "generate.mlp.hidden", rules.d_model),
        mlp_out=named(mlp_out, "out", "MLP_OUT"),
        lookup=named(lookup, "x", "LOOKUP"),
        drops_head_padding=bool(exchanged + rules.kv_tokens) and not copied and shape.pads_heads_within_shards,
        kv_layout=layout,
    )
