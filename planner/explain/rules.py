"""What a rule does: how many ways it cuts a logical axis, and what each chip holds of it."""

from planner.explain.explanation import Explanation, Subject
from planner.plan.machine import drafts_of
from planner.plan.placement import cut_by
from planner.plan.schema import CopyRules
from planner.plan.show import cut_text
from planner.plan.units import bytes_text
from planner.problem.chunks import steps_of
from planner.problem.drafts import rows_of
from planner.problem.hbm import block_weights_bytes
from planner.problem.options import STORED_AXES
from planner.problem.rules import padded_width

CUTS = {
    "tokens": "the tokens of the prompts",
    "rows": "the sequences of the residual stream",
    "batch": "the sequences of the KV cache",
    "d_model": "the residual stream and the rows of weights",
    "q_heads": "query heads",
    "kv_heads": "KV heads and the KV cache",
    "kv_tokens": "the tokens of the KV cache",
    "d_ff": "the hidden columns of the MLP",
    "vocab": "rows of the embedding and of the head",
    "expert_ff": "the hidden columns of each expert",
    "experts": "whole experts",
}


def explain_rule(subject: Subject, phase: str, logical: str) -> Explanation:
    """One rule of a phase's table."""
    axes = cut_by(subject.phase(phase).rules, logical)
    ways, size = subject.machine.ways(axes), stored_size(subject, phase, logical)
    if axes:
        text = f"{logical} on {','.join(axes)}: {CUTS[logical]} cut {ways} ways, {size / ways:g} of {size} on each chip"
    else:
        text = f"{logical} replicated: every chip holds all {size} of {CUTS[logical]}"
    return Explanation(f"{phase}.rules.{logical}", (text,), {"ways": float(ways), "size": float(size)})


def explain_copy(subject: Subject, block: str) -> Explanation:
    """The second copy of a block's weights, which prefill reads."""
    stored, sizes, ways = subject.rules.copies[block], subject.machine.sizes, subject.machine.ways
    size = block_weights_bytes(block, stored, sizes, ways)
    cut = cut_text(CopyRules(**{name: getattr(stored, name) for name in STORED_AXES[block]}))
    text = (
        f"prefill reads a second copy of the {block} weights, {cut}: {bytes_text(size)} on each chip, besides the "
        f"{bytes_text(block_weights_bytes(block, subject.rules.generate, sizes, ways))} that generate reads"
    )
    return Explanation(f"prefill.copies.{block}", (text,), {"bytes": float(size)})


def stored_size(subject: Subject, phase: str, logical: str) -> int:
    """The size of a logical axis as stored, padding included."""
    sizes, ways, stored = subject.machine.sizes, subject.machine.ways, subject.rules.generate
    attention, mlp = (subject.rules.read(block) if phase == "prefill" else stored for block in ("attention", "mlp"))
    experts = subject.rules.read("experts") if phase == "prefill" else stored
    heads, prefill = sizes.heads(attention, ways), subject.plan.prefill
    return {
        "tokens": prefill.prompts * steps_of(prefill.tokens, prefill.chunk).tokens,
        "rows": subject.plan.generate.batch * rows_of(drafts_of(subject.plan)),
        "batch": subject.plan.generate.batch,
        "d_model": sizes.d_model,
        "q_heads": heads.q_padded,
        "kv_heads": heads.kv_padded,
        "kv_tokens": subject.plan.generate.context,
        "d_ff": padded_width(sizes.mlps[0].d_ff if sizes.mlps else 0, ways(mlp.d_ff)),
        "vocab": sizes.padded_vocab(ways(stored.vocab)),
        "expert_ff": padded_width(sizes.mixture.d_ff if sizes.mixture else 0, ways(experts.expert_ff)),
        "experts": sizes.mixture.experts if sizes.mixture else 0,
    }[logical]
