"""Strategy names derived from rule tables, for people and for pins; nothing is priced by them."""

from planner.problem.rules import (
    Axes,
    GenerateRules,
    PrefillRules,
    Rules,
    common,
    copied_kv,
    exchanged_batch,
    scattered_batch,
    without,
)

REPLICATED = "replicated"
MEGATRON = "1d"
TWO_D = "2d"
D_MODEL = "d_model"
GATHERED = "weight_gathered"
SEQUENCE = "sequence_parallel"
EXPERT_PARALLEL = "expert_parallel"


def on(axes: Axes) -> str:
    """Axes as they are written in a label."""
    return axes[0] if len(axes) == 1 else "(" + ",".join(axes) + ")"


def stationary(d_model: Axes, width: Axes) -> str:
    """The name of a weight-stationary layout: 1D cuts heads or d_ff, 2D cuts d_model as well."""
    if d_model and width:
        return TWO_D
    if d_model:
        return D_MODEL
    return MEGATRON if width else REPLICATED


def kv_cache_label(rules: GenerateRules) -> str:
    """How the KV cache is cut: by heads, batch, tokens, any of them together (heads_x_batch), or replicated."""
    cuts = {"heads": rules.kv_heads, "batch": rules.rows + rules.batch, "tokens": rules.kv_tokens}
    return "_x_".join(name for name, axes in cuts.items() if axes) or REPLICATED


def prefill_label(stored_d: Axes, stored_width: Axes, d_model: Axes, width: Axes, tokens: Axes) -> str:
    """The name of a block's prefill layout, given how its weights are stored."""
    if without(stored_d + stored_width, d_model + width):
        return GATHERED
    if common(tokens, width):
        return SEQUENCE
    return stationary(d_model, width)


def attention_label(rules: GenerateRules) -> str:
    """The name of the attention projections' layout in generate."""
    return stationary(rules.d_model, rules.q_heads)


def mlp_label(rules: GenerateRules) -> str:
    """The name of the MLP's layout in generate."""
    return stationary(rules.d_model, rules.d_ff)


def prefill_attention_label(stored: GenerateRules, rules: PrefillRules) -> str:
    """The name of the attention projections' layout in prefill."""
    return prefill_label(stored.d_model, stored.q_heads, rules.d_model, rules.q_heads, rules.tokens)


def prefill_mlp_label(stored: GenerateRules, rules: PrefillRules) -> str:
    """The name of the MLP's layout in prefill."""
    return prefill_label(stored.d_model, stored.d_ff, rules.d_model, rules.d_ff, rules.tokens)


def described(label: str, **axes: Axes) -> str:
    """A label with the axes behind it: `2d: d_model on x, d_ff on y`."""
    parts = [f"{name} on {on(names)}" for name, names in axes.items() if names]
    return f"{label}: {', '.join(parts)}" if parts else label


def experts_label(experts: Axes, expert_ff: Axes, d_model: Axes) -> str:
    """The name of the experts' layout: whole experts apart, their columns, or d_model."""
    return EXPERT_PARALLEL if experts else stationary(d_model, expert_ff)


def prefill_experts_label(stored: GenerateRules, rules: PrefillRules) -> str:
    """The name of the experts' layout in prefill."""
    kept = rules.d_model + rules.expert_ff + rules.experts
    if without(stored.d_model + stored.expert_ff + stored.experts, kept):
        return GATHERED
    if rules.experts:
        return EXPERT_PARALLEL
    return prefill_label(stored.d_model, stored.expert_ff, rules.d_model, rules.expert_ff, rules.tokens)


def generate_strategy(rules: GenerateRules, blocks: tuple[str, ...]) -> dict[str, str]:
    """The strategy of each part of a model with these blocks in generate, in words."""
    found = {
        "attention": described(attention_label(rules), rows=rules.rows, d_model=rules.d_model, q_heads=rules.q_heads),
        "kv_cache": described(
            kv_cache_label(rules),
            kv_heads=rules.kv_heads,
            rows=rules.rows,
            batch=scattered_batch(rules),
            batch_by_all_to_all=exchanged_batch(rules),
            tokens=rules.kv_tokens,
            copies=copied_kv(rules),
        ),
        "mlp": described(mlp_label(rules), rows=rules.rows, d_model=rules.d_model, d_ff=rules.d_ff),
        "experts": described(
            experts_label(rules.experts, rules.expert_ff, rules.d_model),
            experts=rules.experts,
            rows=rules.rows,
            d_model=rules.d_model,
            expert_ff=rules.expert_ff,
        ),
        "vocab": described("vocab" if rules.vocab else REPLICATED, vocab=rules.vocab),
    }
    return {part: text for part, text in found.items() if part in (*blocks, "kv_cache")}


def prefill_strategy(tables: Rules, blocks: tuple[str, ...]) -> dict[str, str]:
    """The strategy of each part of a model with these blocks in prefill, in words."""
    rules, (attention, mlp, experts) = tables.prefill, map(tables.read, ("attention", "mlp", "experts"))
    kept = rules.d_model + rules.expert_ff + rules.experts
    found = {
        "attention": described(
            prefill_attention_label(attention, rules),
            tokens=rules.tokens,
            weights_gathered=without(attention.d_model + attention.q_heads, rules.d_model + rules.q_heads),
            d_model=rules.d_model,
            q_heads=rules.q_heads,
        ),
        "kv_cache": described("heads" if rules.kv_heads else REPLICATED, kv_heads=rules.kv_heads),
        "mlp": described(
            prefill_mlp_label(mlp, rules),
            tokens=rules.tokens,
            weights_gathered=without(mlp.d_model + mlp.d_ff, rules.d_model + rules.d_ff),
            d_model=rules.d_model,
            d_ff=rules.d_ff,
        ),
        "experts": described(
            prefill_experts_label(experts, rules),
            experts=rules.experts,
            tokens=rules.tokens,
            weights_gathered=without(experts.d_model + experts.expert_ff + experts.experts, kept),
            d_model=rules.d_model,
            expert_ff=rules.expert_ff,
        ),
        "vocab": described("vocab" if rules.vocab else REPLICATED, vocab=rules.vocab),
    }
    told = {part: f"{text}, from a copy" if part in tables.copies else text for part, text in found.items()}
    return {part: text for part, text in told.items() if part in (*blocks, "kv_cache")}
