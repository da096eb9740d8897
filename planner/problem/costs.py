"""What each block of a step costs on one chip: rooflines by plan address, from the cost models.

Every matmul is charged for the rows and columns that one chip really computes, padding and copies included; every
collective of `planned.py` is charged to the part of the step that waits for it, less what local work of its block
hides. The constants are those of the software stack: the same formulas that `cost_models.step` is scored by.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
from planner.problem.rules import Axes, GenerateRules, PrefillRules, common, exchanged_batch, prompt_axes, without

Parts = dict[str, Roofline]

NOTHING = Roofline()

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
    "attention.q_to_tokens": "attention.kv_cache",
    "attention.softmax": "attention.kv_cache",
    "attention.o_from_tokens": "attention.kv_cache",
    "attention.o_to_heads": "attention.kv_cache",
    "attention.o_rows": "attention.kv_cache",
    "attention.kv_tokens": "attention.kv_cache",
    "attention.o_tokens": "attention.kv_cache",
    "attention.gather_w_o": "attention.out",
    "attention.gather_w_o_scale": "attention.out",
    "attention.out": "attention.out",
    "mlp.norm": "mlp.hidden",
    "mlp.tokens": "mlp.hidden",
    "mlp.rows": "mlp.hidden",
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
    "logits.rows": "logits",
    "sampling.candidates": "sampling",
    "sampling.tokens": "sampling",
}


@dataclass(frozen=True, slots=True)
class Work:
    """One block of a step: local work by part, and the collectives that parts wait for. `hides`: behind local work."""

    phase: str
    local: Parts
    planned: Iterable[Collective]
    hides: bool = True


def parts_of(work: Work, machine: Machine) -> Parts:
    """Rooflines by plan address, each with the exposed time of the collectives it waits for."""
    waiting_s = dict.fromkeys(work.local, 0.0)
    for collective in work.planned:
        part = PART_OF[collective.address.partition(".")[2]]
        waiting_s[part] = waiting_s.get(part, 0.0) + collective.repeats * machine.seconds(collective)
    fraction = exposed_fraction(work, local_s(work, machine), sum(waiting_s.values()), machine)
    return {
        f"{work.phase}.{part}": with_ici(work.local.get(part, NOTHING), seconds * fraction)
        for part, seconds in waiting_s.items()
    }


def seconds_of(work: Work, machine: Machine) -> float:
    """Seconds of a block: the sum of its parts, found without telling them apart."""
    talking_s = sum([each.repeats * machine.seconds(each) for each in work.planned])
    own_s = local_s(work, machine)
    return own_s + talking_s * exposed_fraction(work, own_s, talking_s, machine)


def exposed_fraction(work: Work, own_s: float, talking_s: float, machine: Machine) -> float:
    """The part of a block's collectives that `own_s` of local work does not hide."""
    return machine.stack.exposed_fraction(own_s, talking_s) if work.hides else 1.0


def local_s(work: Work, machine: Machine) -> float:
    """Seconds of a block without its collectives."""
    return sum([machine.total_s(cost) for cost in work.local.values()])


def with_ici(cost: Roofline, ici_s: float) -> Roofline:
    """A part with another time of its collectives."""
    return Roofline(cost.compute_s, cost.hbm_s, ici_s, cost.fixed_s)


def generate_attention_work(rules: GenerateRules, batch: int, context: float, machine: Machine) -> Work:
    """Attention in one generate step of `batch` sequences whose mean length is `context`."""
    sizes, ways = machine.sizes, machine.ways
    heads, rows = sizes.heads(rules, ways), batch / ways(rules.rows)
    inner, width = sizes.d_model / ways(rules.d_model), heads.q_local * sizes.head_dim
    kv_rows = rows / ways(exchanged_batch(rules))
    parts = {
        "attention.qkv": machine.matmul(rows, inner, width)
        + machine.matmul(kv_rows, inner, 2 * heads.kv_local * sizes.head_dim),
        "attention.kv_cache": generate_scores_cost(rules, rows, context, machine) * sizes.layers,
        "attention.out": machine.matmul(rows, width, inner),
        "attention.elementwise": machine.elementwise(rows, inner + width),
    }
    return Work("generate", parts, generate_attention(rules, batch, machine.program))


def generate_scores_cost(rules: GenerateRules, rows: float, context: float, machine: Machine) -> Roofline:
    """Attention of one layer over the part of the cache that a chip holds."""
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(rules, ways)
    return generate_scores(
        rows / ways(rules.batch),
        context / ways(rules.kv_tokens),
        heads.q_local * ways(exchanged_batch(rules) + rules.kv_tokens),
        heads.kv_local,
        sizes.head_dim,
        activation_bytes_per_element=sizes.activation_bytes,
        kv_bytes_per_element=sizes.kv_read_bytes,
        compute_dtype=sizes.compute_dtype,
        chip=machine.chip,
        stack=machine.stack,
    )


def generate_mlp_work(rules: GenerateRules, batch: int, machine: Machine) -> Work:
    """The MLP in one generate step."""
    sizes, ways = machine.sizes, machine.ways
    own = batch / ways(rules.rows)
    rows = own * ways(common(rules.rows, rules.d_ff))
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(rules.d_ff)) / ways(rules.d_ff)
    parts = {
        "mlp.hidden": machine.matmul(rows, inner, 2 * d_ff),
        "mlp.out": machine.matmul(rows, d_ff, inner),
        "mlp.elementwise": machine.elementwise(own, inner) + machine.elementwise(rows, d_ff),
    }
    return Work("generate", parts, generate_mlp(rules, batch, machine.program))


def vocab_parts(vocab: Axes, looked_up: float, rows: float, machine: Machine) -> Parts:
    """Embedding look-up, logits of `rows` tokens, and the step's fixed cost, without collectives."""
    sizes = machine.sizes
    share = sizes.padded_vocab(machine.ways(vocab)) / machine.ways(vocab)
    head = machine.matmul_once(rows, sizes.d_model, share)
    written = rows * share * LOGIT_BYTES / machine.chip.hbm_bytes_per_s
    read = looked_up * sizes.d_model * (sizes.weight_bytes + sizes.activation_bytes) / machine.chip.hbm_bytes_per_s
    return {
        "embedding": Roofline(hbm_s=read),
        "logits": head + Roofline(hbm_s=written),
        "step": Roofline(fixed_s=machine.stack.step_s + sizes.layers * machine.stack.layer_s),
    }


def generate_vocab_work(rules: GenerateRules, batch: int, machine: Machine) -> Work:
    """Embedding, logits and sampling in one generate step."""
    rows = batch / machine.ways(without(rules.rows, rules.vocab))
    parts = vocab_parts(rules.vocab, rows, rows, machine)
    return Work("generate", parts, generate_vocab(rules, batch, machine.program), hides=False)


def prefill_attention_work(
    stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine, prompts: int = 1
) -> Work:
    """Attention in the prefill of `prompts` of `tokens` each."""
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(stored, ways)
    q_heads, kv_heads = heads.q_padded / ways(rules.q_heads), heads.kv_padded / ways(rules.kv_heads)
    inner = sizes.d_model / ways(rules.d_model)
    whole = prompts * tokens
    rows = whole / ways(without(rules.tokens, rules.q_heads))
    scores = prefill_scores_cost(rules, q_heads, kv_heads, tokens, prompts, machine)
    parts = {
        "attention.qkv": machine.matmul(rows, inner, (q_heads + 2 * kv_heads) * sizes.head_dim),
        "attention.kv_cache": scores * sizes.layers,
        "attention.out": machine.matmul(rows, q_heads * sizes.head_dim, inner),
        "attention.elementwise": machine.elementwise(whole / ways(rules.tokens), inner)
        + machine.elementwise(rows, q_heads * sizes.head_dim),
    }
    return Work("prefill", parts, prefill_attention(stored, rules, tokens, machine.program, prompts))


def prefill_scores_cost(
    rules: PrefillRules, q_heads: float, kv_heads: float, tokens: int, prompts: int, machine: Machine
) -> Roofline:
    """Attention of one layer of a chip with these heads; token axes cut whole prompts first, then tokens of each."""
    sizes, ways = machine.sizes, machine.ways
    own = without(rules.tokens, rules.q_heads)
    apart = prompt_axes(own, prompts, ways)
    return prefill_scores(
        tokens / ways(without(own, apart)) / ways(rules.d_model),
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
        sequences=prompts / ways(apart),
    )


def prefill_mlp_work(
    stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine, prompts: int = 1
) -> Work:
    """The MLP in the prefill of `prompts` of `tokens` each."""
    sizes, ways = machine.sizes, machine.ways
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(stored.d_ff)) / ways(rules.d_ff)
    whole = prompts * tokens
    rows = whole / ways(without(rules.tokens, common(rules.tokens, rules.d_ff)))
    parts = {
        "mlp.hidden": machine.matmul(rows, inner, 2 * d_ff),
        "mlp.out": machine.matmul(rows, d_ff, inner),
        "mlp.elementwise": machine.elementwise(whole / ways(rules.tokens), inner) + machine.elementwise(rows, d_ff),
    }
    return Work("prefill", parts, prefill_mlp(stored, rules, tokens, machine.program, prompts))


def prefill_vocab_work(rules: PrefillRules, tokens: int, machine: Machine, prompts: int = 1) -> Work:
    """Embedding of `prompts` of `tokens` each, logits of their last tokens, sampling."""
    parts = vocab_parts(rules.vocab, prompts * tokens, prompts, machine)
    return Work("prefill", parts, prefill_vocab(rules, tokens, machine.program, prompts), hides=False)


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
