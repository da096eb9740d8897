"""What each block of a step costs on one chip: rooflines by plan address, from the cost models.

Every matmul is charged for the rows and columns that one chip really computes, padding and copies included; every
collective of `planned.py` is charged to the part of the step that waits for it, less what local work of its block
hides. The constants are those of the software stack: the same formulas that `cost_models.step` is scored by.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cost_models.roofline import Roofline
from planner.problem.attending import generate_attention_parts, prefill_attention_parts
from planner.problem.chunks import steps_of
from planner.problem.drafts import Drafts, rows_of
from planner.problem.machine import Machine
from planner.problem.planned import (
    generate_attention,
    generate_mlp,
    generate_vocab,
    insertion,
    prefill_attention,
    prefill_mlp,
    prefill_vocab,
)
from planner.problem.primitives import Collective, repeated
from planner.problem.routed import expert_columns, generate_experts, prefill_experts, routed
from planner.problem.rules import Axes, GenerateRules, PrefillRules, Rules, common, padded_width, without

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
    "attention.gather_w_latent": "attention.qkv",
    "attention.gather_w_latent_scale": "attention.qkv",
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
    "experts.norm": "experts.hidden",
    "experts.tokens": "experts.hidden",
    "experts.rows": "experts.hidden",
    "experts.router": "experts.hidden",
    "experts.gather_w_router": "experts.hidden",
    "experts.dispatch": "experts.hidden",
    "experts.gather_w_in": "experts.hidden",
    "experts.gather_w_in_scale": "experts.hidden",
    "experts.hidden": "experts.hidden",
    "experts.hidden_rows": "experts.out",
    "experts.gather_w_down": "experts.out",
    "experts.gather_w_down_scale": "experts.out",
    "experts.combine": "experts.out",
    "experts.out": "experts.out",
    "logits.last": "logits",
    "logits.norm": "logits",
    "logits.residual": "logits",
    "logits.rows": "logits",
    "sampling.candidates": "sampling",
    "sampling.tokens": "sampling",
    "pipeline.rows": "pipeline",
    "insert.kv_prompt": "insert",
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


def in_steps(step: Work, count: int) -> Work:
    """A step that runs `count` times."""
    if count == 1:
        return step
    local = {part: cost * count for part, cost in step.local.items()}
    return Work(step.phase, local, repeated(step.planned, count), step.hides)


def generate_attention_work(
    rules: GenerateRules, batch: int, context: float, machine: Machine, queries: int = 1
) -> Work:
    """Attention in one generate step of `batch` sequences whose mean length is `context`, each with so many queries."""
    parts = generate_attention_parts(rules, batch, context, machine, queries)
    return Work("generate", parts, generate_attention(rules, batch * queries, machine.program))


def prefill_attention_work(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    machine: Machine,
    prompts: int = 1,
    chunk: int | None = None,
) -> Work:
    """Attention in the prefill of `prompts` of `tokens` each, all chunks together."""
    count, step = steps_of(tokens, chunk)
    planned = repeated(prefill_attention(stored, rules, step, machine.program, prompts), count)
    return Work("prefill", prefill_attention_parts(stored, rules, tokens, machine, prompts, chunk), planned)


def insertion_work(stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine, prompts: int = 1) -> Work:
    """What brings `prompts` of `tokens` each to where they are inserted, once they are read; nothing hides it."""
    return Work("prefill", {}, insertion(stored, rules, tokens, machine.program, prompts), hides=False)


def generate_mlp_work(rules: GenerateRules, batch: int, machine: Machine) -> Work:
    """The MLPs in one generate step."""
    return Work(
        "generate", mlp_parts(rules, rules.rows, rules, batch, machine), generate_mlp(rules, batch, machine.program)
    )


def prefill_mlp_work(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    machine: Machine,
    prompts: int = 1,
    chunk: int | None = None,
) -> Work:
    """The MLPs in the prefill of `prompts` of `tokens` each, all chunks together."""
    count, step = steps_of(tokens, chunk)
    parts = mlp_parts(stored, rules.tokens, rules, prompts * step, machine)
    return in_steps(Work("prefill", parts, prefill_mlp(stored, rules, step, machine.program, prompts)), count)


def mlp_parts(
    stored: GenerateRules, cut: Axes, rules: GenerateRules | PrefillRules, rows: int, machine: Machine
) -> Parts:
    """The MLPs' work for `rows` of the residual stream that are cut over `cut`, in all layers."""
    sizes, ways = machine.sizes, machine.ways
    own = rows / ways(cut)
    gathered = own * ways(common(cut, rules.d_ff))
    inner = sizes.d_model / ways(rules.d_model)
    parts = dict.fromkeys(("mlp.hidden", "mlp.out", "mlp.elementwise"), NOTHING)
    for each in sizes.mlps:
        columns = padded_width(each.d_ff, ways(stored.d_ff)) / ways(rules.d_ff)
        around = machine.elementwise(own, inner, each.layers) + machine.elementwise(gathered, columns, each.layers)
        parts["mlp.hidden"] += machine.matmul(gathered, inner, sizes.inputs * columns, each.layers)
        parts["mlp.out"] += machine.matmul(gathered, columns, inner, each.layers)
        parts["mlp.elementwise"] += around
    return parts


def generate_experts_work(rules: GenerateRules, batch: int, machine: Machine) -> Work:
    """The experts in one generate step."""
    parts = experts_parts(rules, rules.rows, rules, batch, machine)
    return Work("generate", parts, generate_experts(rules, batch, machine.program))


def prefill_experts_work(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    machine: Machine,
    prompts: int = 1,
    chunk: int | None = None,
) -> Work:
    """The experts in the prefill of `prompts` of `tokens` each, all chunks together."""
    count, step = steps_of(tokens, chunk)
    parts = experts_parts(stored, rules.tokens, rules, prompts * step, machine)
    return in_steps(Work("prefill", parts, prefill_experts(stored, rules, step, machine.program, prompts)), count)


def experts_parts(
    stored: GenerateRules, cut: Axes, rules: GenerateRules | PrefillRules, rows: int, machine: Machine
) -> Parts:
    """The work of the busiest chip's experts and of its router, in all sparse layers."""
    sizes, ways, layers = machine.sizes, machine.ways, machine.sizes.sparse_layers
    has = routed(cut, rules, rows, sizes, ways)
    inner, columns = sizes.d_model / ways(rules.d_model), expert_columns(stored, rules, sizes, ways)
    around = machine.elementwise(has.own, inner, layers) + machine.elementwise(has.rows, columns, layers)
    made = machine.matmul(has.rows, inner, sizes.inputs * columns, layers, has.read)
    return {
        "experts.hidden": machine.matmul(has.gathered, inner, sizes.experts.experts, layers) + made,
        "experts.out": machine.matmul(has.rows, columns, inner, layers, has.read),
        "experts.elementwise": around,
    }


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


def generate_vocab_work(rules: GenerateRules, batch: int, machine: Machine, drafts: Drafts | None = None) -> Work:
    """Embedding, logits and sampling in one generate step, and the drafts that are made before it."""
    rows = batch * rows_of(drafts)
    own = rows / machine.ways(without(rules.rows, rules.vocab))
    parts = vocab_parts(rules.vocab, own, own, machine)
    if drafts:
        parts["draft"] = Roofline(fixed_s=drafts.seconds)
    return Work("generate", parts, generate_vocab(rules, rows, machine.program), hides=False)


def prefill_vocab_work(
    rules: PrefillRules, tokens: int, machine: Machine, prompts: int = 1, chunk: int | None = None
) -> Work:
    """Embedding of `prompts` of `tokens` each, logits of the last token of every step, sampling."""
    count, step = steps_of(tokens, chunk)
    parts = vocab_parts(rules.vocab, prompts * step, prompts, machine)
    planned = prefill_vocab(rules, step, machine.program, prompts)
    return in_steps(Work("prefill", parts, planned, hides=False), count)


def generate_works(
    rules: GenerateRules, batch: int, context: float, machine: Machine, drafts: Drafts | None = None
) -> list[Work]:
    """The blocks of one generate step of `batch` sequences whose mean length is `context`."""
    return [generate_work(name, rules, batch, context, machine, drafts) for name in machine.sizes.blocks]


def generate_work(
    name: str, rules: GenerateRules, batch: int, context: float, machine: Machine, drafts: Drafts | None = None
) -> Work:
    """One block of a generate step; with drafts it verifies those of every sequence besides its last token."""
    queries = rows_of(drafts)
    match name:
        case "attention":
            return generate_attention_work(rules, batch, context, machine, queries)
        case "mlp":
            return generate_mlp_work(rules, batch * queries, machine)
        case "experts":
            return generate_experts_work(rules, batch * queries, machine)
        case _:
            return generate_vocab_work(rules, batch, machine, drafts)


def prefill_works(rules: Rules, tokens: int, machine: Machine, prompts: int, chunk: int | None = None) -> list[Work]:
    """The blocks of the prefill of `prompts` of `tokens` each, all chunks together, and their insertion."""
    found = {
        "attention": lambda: prefill_attention_work(
            rules.read("attention"), rules.prefill, tokens, machine, prompts, chunk
        ),
        "mlp": lambda: prefill_mlp_work(rules.read("mlp"), rules.prefill, tokens, machine, prompts, chunk),
        "experts": lambda: prefill_experts_work(rules.read("experts"), rules.prefill, tokens, machine, prompts, chunk),
        "vocab": lambda: prefill_vocab_work(rules.prefill, tokens, machine, prompts, chunk),
    }
    inserted = insertion_work(rules.read("attention"), rules.prefill, tokens, machine, prompts)
    return [*(found[name]() for name in machine.sizes.blocks), inserted]


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
