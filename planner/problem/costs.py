"""What each block of a step costs on one chip: rooflines by plan address, from the cost models.

Every matmul is charged for the rows and columns that one chip really computes, padding and copies included; every
collective of `planned.py` is charged to the part of the step that waits for it, less what local work of its block
hides. The constants are those of the software stack: the same formulas that `cost_models.step` is scored by.
"""

from collections.abc import Iterable
from dataclasses import replace

from cost_models.attention import generate_attention as generate_scores
from cost_models.attention import prefill_attention as prefill_scores
from cost_models.roofline import Roofline
from planner.problem.machine import Machine
from planner.problem.planned import (
    Collective,
    generate_attention,
    generate_mlp,
    generate_vocab,
    prefill_attention,
    prefill_mlp,
    prefill_vocab,
)
from planner.problem.rules import Axes, GenerateRules, PrefillRules, common, exchanged_batch, without

Parts = dict[str, Roofline]

LOGIT_BYTES = 4

PART_OF = {
    "embedding.lookup": "embedding",
    "attention.norm": "attention.qkv",
    "attention.tokens": "attention.qkv",
    "attention.q": "attention.qkv",
    "attention.kv": "attention.qkv",
    "attention.qkv": "attention.qkv",
    "attention.gather_w_q": "attention.qkv",
    "attention.gather_w_q_scale": "attention.qkv",
    "attention.gather_w_kv": "attention.qkv",
    "attention.gather_w_kv_scale": "attention.qkv",
    "attention.q_to_batch": "attention.kv_cache",
    "attention.o_to_heads": "attention.kv_cache",
    "attention.o_rows": "attention.kv_cache",
    "attention.kv_tokens": "attention.kv_cache",
    "attention.o_tokens": "attention.kv_cache",
    "attention.gather_w_o": "attention.out",
    "attention.gather_w_o_scale": "attention.out",
    "attention.out": "attention.out",
    "mlp.norm": "mlp.hidden",
    "mlp.tokens": "mlp.hidden",
    "mlp.gather_w_in": "mlp.hidden",
    "mlp.gather_w_in_scale": "mlp.hidden",
    "mlp.hidden": "mlp.hidden",
    "mlp.hidden_rows": "mlp.out",
    "mlp.gather_w_down": "mlp.out",
    "mlp.gather_w_down_scale": "mlp.out",
    "mlp.out": "mlp.out",
    "logits.last": "logits",
    "logits.norm": "logits",
    "logits.residual": "logits",
    "sampling.candidates": "sampling",
}


def with_collectives(parts: Parts, phase: str, planned: Iterable[Collective], machine: Machine) -> Parts:
    """The parts of a block, prefixed with the phase, each with the time of the collectives it waits for."""
    waiting_s = dict.fromkeys(parts, 0.0)
    for collective in planned:
        part = PART_OF[collective.address[len(phase) + 1 :]]
        waiting_s[part] = waiting_s.get(part, 0.0) + collective.repeats * machine.seconds(collective)
    return {
        f"{phase}.{part}": parts.get(part, Roofline()) + Roofline(ici_s=seconds) for part, seconds in waiting_s.items()
    }


def exposed(parts: Parts, machine: Machine) -> Parts:
    """The parts of a block of the layer, their collectives less what its local work hides."""
    local_s = sum(machine.total_s(replace(cost, ici_s=0.0)) for cost in parts.values())
    talking_s = sum(cost.ici_s for cost in parts.values())
    fraction = machine.stack.exposed_fraction(local_s, talking_s)
    return {address: replace(cost, ici_s=cost.ici_s * fraction) for address, cost in parts.items()}


def generate_attention_parts(rules: GenerateRules, batch: int, context: float, machine: Machine) -> Parts:
    """Attention in one generate step of `batch` sequences whose mean length is `context`."""
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(rules, ways)
    inner = sizes.d_model / ways(rules.d_model)
    kv_rows = batch / ways(exchanged_batch(rules))
    own_q = heads.q_local * ways(exchanged_batch(rules))
    read = generate_scores(
        batch / ways(rules.batch),
        context,
        own_q,
        heads.kv_local,
        sizes.head_dim,
        activation_bytes_per_element=sizes.activation_bytes,
        kv_bytes_per_element=sizes.kv_read_bytes,
        compute_dtype=sizes.compute_dtype,
        chip=machine.chip,
        stack=machine.stack,
    )
    parts = {
        "attention.qkv": machine.matmul(batch, inner, heads.q_local * sizes.head_dim)
        + machine.matmul(kv_rows, inner, 2 * heads.kv_local * sizes.head_dim),
        "attention.kv_cache": read * sizes.layers,
        "attention.out": machine.matmul(batch, heads.q_local * sizes.head_dim, inner),
        "attention.elementwise": machine.elementwise(batch, inner + heads.q_local * sizes.head_dim),
    }
    planned = generate_attention(rules, batch, machine.program)
    return exposed(with_collectives(parts, "generate", planned, machine), machine)


def generate_mlp_parts(rules: GenerateRules, batch: int, machine: Machine) -> Parts:
    """The MLP in one generate step."""
    sizes, ways = machine.sizes, machine.ways
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(rules.d_ff)) / ways(rules.d_ff)
    parts = {
        "mlp.hidden": machine.matmul(batch, inner, 2 * d_ff),
        "mlp.out": machine.matmul(batch, d_ff, inner),
        "mlp.elementwise": machine.elementwise(batch, inner + d_ff),
    }
    return exposed(with_collectives(parts, "generate", generate_mlp(rules, batch, machine.program), machine), machine)


def vocab_parts(vocab: Axes, looked_up: float, rows: int, machine: Machine) -> Parts:
    """Embedding look-up, logits of `rows` tokens, and the step's fixed cost, without collectives."""
    sizes = machine.sizes
    share = sizes.padded_vocab(machine.ways(vocab)) / machine.ways(vocab)
    head = machine.matmul_once(rows, sizes.d_model, share)
    written = rows * share * LOGIT_BYTES / machine.chip.hbm_bytes_per_s
    read = looked_up * sizes.d_model * (sizes.weight_bytes + sizes.activation_bytes) / machine.chip.hbm_bytes_per_s
    return {
        "embedding": Roofline(0.0, read, 0.0, 0.0),
        "logits": head + Roofline(0.0, written, 0.0, 0.0),
        "step": Roofline(fixed_s=machine.stack.step_s + sizes.layers * machine.stack.layer_s),
    }


def generate_vocab_parts(rules: GenerateRules, batch: int, machine: Machine) -> Parts:
    """Embedding, logits and sampling in one generate step."""
    parts = vocab_parts(rules.vocab, batch, batch, machine)
    return with_collectives(parts, "generate", generate_vocab(rules, batch, machine.program), machine)


def prefill_attention_parts(stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """Attention in the prefill of one prompt of `tokens`."""
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(stored, ways)
    q_heads, kv_heads = heads.q_padded / ways(rules.q_heads), heads.kv_padded / ways(rules.kv_heads)
    inner = sizes.d_model / ways(rules.d_model)
    rows = tokens / ways(without(rules.tokens, rules.q_heads))
    scores = prefill_scores(
        rows / ways(rules.d_model),
        tokens,
        q_heads,
        kv_heads,
        sizes.head_dim,
        activation_bytes_per_element=sizes.activation_bytes,
        kv_bytes_per_element=sizes.activation_bytes,
        compute_dtype=sizes.compute_dtype,
        chip=machine.chip,
        stack=machine.stack,
        causal=machine.stack.masked_pairs == "skipped",
    )
    parts = {
        "attention.qkv": machine.matmul(rows, inner, (q_heads + 2 * kv_heads) * sizes.head_dim),
        "attention.kv_cache": scores * sizes.layers,
        "attention.out": machine.matmul(rows, q_heads * sizes.head_dim, inner),
        "attention.elementwise": machine.elementwise(tokens / ways(rules.tokens), inner)
        + machine.elementwise(rows, q_heads * sizes.head_dim),
    }
    planned = prefill_attention(stored, rules, tokens, machine.program)
    return exposed(with_collectives(parts, "prefill", planned, machine), machine)


def prefill_mlp_parts(stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """The MLP in the prefill of one prompt."""
    sizes, ways = machine.sizes, machine.ways
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(stored.d_ff)) / ways(rules.d_ff)
    rows = tokens / ways(without(rules.tokens, common(rules.tokens, rules.d_ff)))
    parts = {
        "mlp.hidden": machine.matmul(rows, inner, 2 * d_ff),
        "mlp.out": machine.matmul(rows, d_ff, inner),
        "mlp.elementwise": machine.elementwise(tokens / ways(rules.tokens), inner) + machine.elementwise(rows, d_ff),
    }
    planned = prefill_mlp(stored, rules, tokens, machine.program)
    return exposed(with_collectives(parts, "prefill", planned, machine), machine)


def prefill_vocab_parts(rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """Embedding of a prompt, logits of its last token, sampling."""
    parts = vocab_parts(rules.vocab, tokens, 1, machine)
    return with_collectives(parts, "prefill", prefill_vocab(rules, tokens, machine.program), machine)


def binds(parts: Parts, machine: Machine) -> str:
    """What takes most of a step, after what overlaps is hidden: compute, hbm, ici or fixed."""
    return sum((shown(cost, machine) for cost in parts.values()), Roofline()).binds


def shown(cost: Roofline, machine: Machine) -> Roofline:
    """A part without what hides behind its larger half, so that its resources add up to its seconds."""
    if machine.overlap == "nothing":
        return cost
    if cost.compute_s > cost.hbm_s:
        return replace(cost, hbm_s=0.0)
    return replace(cost, compute_s=0.0)


def total_s(parts: Parts, machine: Machine) -> float:
    """Seconds of all parts, one after the other."""
    return sum(machine.total_s(cost) for cost in parts.values())
