"""The scheme of the rendered steps, as conditions on the two rule tables; a plan from the solver meets them all."""

from planner.plan.schema import GenerateRules, Plan
from planner.render.axes import axis_sizes, shared, ways, without
from planner.render.model import ModelSizes, RenderError
from planner.render.stored import tables_read


def check_rules(plan: Plan, model: ModelSizes) -> None:
    """Raise RenderError, naming the field, when the tables of `plan` do not fit the scheme."""
    generate, prefill = plan.generate.rules, plan.prefill.rules
    for phase, rules in (("generate", generate), ("prefill", prefill)):
        sizes = axis_sizes(plan, phase)
        for logical, axes in rules:
            if unknown := without(axes, tuple(sizes)):
                raise RenderError(f"{phase}.{logical} names {unknown[0]}, which is no axis of the mesh {sorted(sizes)}")
    demands = _generate_demands(generate) | _prefill_demands(plan)
    for demand, met in demands.items():
        if not met:
            raise RenderError(f"plan {plan.name}: {demand}")
    sizes = axis_sizes(plan, "generate")
    copied = without(generate.q_heads, generate.kv_heads + generate.batch + generate.kv_tokens)
    if copied and model.kv_heads > ways(generate.kv_heads, sizes):
        raise RenderError(f"plan {plan.name}: KV heads are copied over {copied[0]} though a chip holds several of them")


def _generate_demands(rules: GenerateRules) -> dict[str, bool]:
    """Demand -> whether the table meets it."""
    exchanged = shared(rules.batch, rules.q_heads)
    copied = without(rules.q_heads, rules.kv_heads + exchanged + rules.kv_tokens)
    return {
        "generate.q_heads must be kv_heads, axes that copy KV heads, batch, then kv_tokens axes": rules.q_heads
        == rules.kv_heads + copied + exchanged + rules.kv_tokens,
        "generate.rows must share no axis with batch, d_model or q_heads": not shared(
            rules.rows, rules.batch + rules.d_model + rules.q_heads
        ),
        "generate.kv_tokens must share no axis with batch": not shared(rules.kv_tokens, rules.batch),
        "generate.batch must be d_model axes, then q_heads axes": rules.batch
        == shared(rules.batch, rules.d_model) + exchanged,
        "generate.d_model must share no axis with q_heads or d_ff": not shared(
            rules.d_model, rules.q_heads + rules.d_ff
        ),
    }


def _prefill_demands(plan: Plan) -> dict[str, bool]:
    """Demand -> whether the table meets it, by what is stored for prefill to read."""
    rules, tables = plan.prefill.rules, tables_read(plan)
    stored, kept = tables.attention, rules.q_heads + rules.d_model
    vocab = (plan.prefill.stored or plan.generate.rules).vocab
    return {
        "prefill.d_model must be the leading axes of generate.d_model": rules.d_model
        == stored.d_model[: len(rules.d_model)]
        == tables.mlp.d_model[: len(rules.d_model)],
        "prefill.q_heads must be axes of generate.q_heads": rules.q_heads == shared(stored.q_heads, rules.q_heads),
        "prefill.kv_heads must be generate.kv_heads less what q_heads gathers": rules.kv_heads
        == shared(stored.kv_heads, rules.q_heads),
        "prefill.d_ff must be axes of generate.d_ff": rules.d_ff == shared(tables.mlp.d_ff, rules.d_ff),
        "prefill.vocab must equal generate.vocab": rules.vocab == vocab,
        "prefill.tokens must be axes that q_heads leaves, then axes of q_heads": rules.tokens
        == without(rules.tokens, kept) + shared(rules.tokens, rules.q_heads),
    }
