"""What the generate step of a package does, derived from its rule table."""

from dataclasses import dataclass

from planner.plan.schema import GenerateRules, Plan
from planner.render.axes import Axes, shared, without
from planner.render.reductions import Reduction, hidden_reduction, milliseconds, reduction
from planner.render.shapes import Shape


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


def generate_view(plan: Plan, shape: Shape) -> GenerateView:
    """The view of the generate step of `plan`."""
    rules, planned = plan.generate.rules, plan.generate.collectives
    rows = shared(rules.batch, rules.d_model)
    exchanged = shared(rules.batch, rules.q_heads)
    copied = without(rules.q_heads, rules.kv_heads + exchanged)
    return GenerateView(
        rules=rules,
        step_ms=milliseconds(plan.generate.step_s),
        binds=plan.generate.binds,
        scattered_slots=rows,
        exchanged_slots=exchanged,
        qkv=reduction(planned, "generate.attention.qkv", rules.d_model, rows),
        q=reduction(planned, "generate.attention.q", rules.d_model, rows),
        kv=reduction(planned, "generate.attention.kv", rules.d_model, rows),
        hidden=hidden_reduction(planned, "generate.mlp.hidden", rules.d_model),
        drops_head_padding=bool(exchanged) and not copied and shape.pads_heads_within_shards,
    )
