"""What each block of a step costs on one chip: rooflines by plan address, from the cost models.

Every matmul is charged for the rows and columns that one chip really computes, padding and copies included; every
collective of `planned.py` is charged to the part of the step that waits for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from cost_models import collectives
from cost_models.attention import generate_attention as generate_scores
from cost_models.attention import prefill_attention as prefill_scores
from cost_models.chips import Chip
from cost_models.matmul import matmul
from cost_models.roofline import Roofline
from cost_models.stacks import Stack
from cost_models.torus import Slice, merge_axes
from planner.problem.meshes import Mesh
from planner.problem.planned import (
    Collective,
    Program,
    generate_attention,
    generate_mlp,
    generate_vocab,
    prefill_attention,
    prefill_mlp,
    prefill_vocab,
)
from planner.problem.rules import (
    Axes,
    GenerateRules,
    PrefillRules,
    Ways,
    common,
    exchanged_batch,
    without,
)
from planner.problem.sizes import Sizes

Parts = dict[str, Roofline]

LOGIT_BYTES = 4
TPU_SCATTER_ROWS = 8

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


@dataclass(frozen=True)
class Machine:
    """The chips and links that a step runs on: one mesh of one slice, and the software stack's constants."""

    chip: Chip
    stack: Stack
    slice: Slice
    mesh: Mesh
    sizes: Sizes
    _seconds: dict[tuple[str, Axes, int], float] = field(default_factory=dict)

    @cached_property
    def ways(self) -> Ways:
        """How many ways mesh axes cut an array."""
        return Ways({axis.name: axis.size for axis in self.mesh})

    @cached_property
    def program(self) -> Program:
        """What the collectives of a step depend on besides rule tables."""
        return Program(self.sizes, self.ways, TPU_SCATTER_ROWS if self.chip.kind == "tpu" else 1)

    def seconds(self, planned: Collective) -> float:
        """Seconds of one execution of a planned collective."""
        key = planned.kind, planned.axes, planned.bytes
        if key not in self._seconds:
            axes = merge_axes([axis for axis in self.mesh if axis.name in planned.axes], self.slice)
            whole = planned.bytes * self.ways(planned.axes) if planned.kind == "all_to_all" else planned.bytes
            cost = getattr(collectives, f"{planned.kind}_s")
            self._seconds[key] = cost(whole, axes, self.chip, self.stack)
        return self._seconds[key]

    def matmul(self, rows: float, inner: float, outer: float) -> Roofline:
        """A weight matmul `[rows, inner] x [inner, outer]` on one chip, in every layer."""
        once = matmul(
            rows,
            inner,
            outer,
            weight_bytes_per_element=self.sizes.weight_bytes,
            activation_bytes_per_element=self.sizes.activation_bytes,
            compute_dtype=self.sizes.compute_dtype,
            chip=self.chip,
            stack=self.stack,
        )
        return once * self.sizes.layers

    def total_s(self, cost: Roofline) -> float:
        """Seconds of a roofline under the stack's overlap."""
        return cost.total_s(self.stack.overlap)


def with_collectives(parts: Parts, phase: str, planned: Iterable[Collective], machine: Machine) -> Parts:
    """The parts of a block, prefixed with the phase, each with the time of the collectives it waits for."""
    waiting_s = dict.fromkeys(parts, 0.0)
    for collective in planned:
        part = PART_OF[collective.address[len(phase) + 1 :]]
        waiting_s[part] = waiting_s.get(part, 0.0) + collective.repeats * machine.seconds(collective)
    return {
        f"{phase}.{part}": parts[part] + Roofline(ici_s=seconds) if part in parts else Roofline(ici_s=seconds)
        for part, seconds in waiting_s.items()
    }


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
    }
    return with_collectives(parts, "generate", generate_attention(rules, batch, machine.program), machine)


def generate_mlp_parts(rules: GenerateRules, batch: int, machine: Machine) -> Parts:
    """The MLP in one generate step."""
    sizes, ways = machine.sizes, machine.ways
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(rules.d_ff)) / ways(rules.d_ff)
    parts = {"mlp.hidden": machine.matmul(batch, inner, 2 * d_ff), "mlp.out": machine.matmul(batch, d_ff, inner)}
    return with_collectives(parts, "generate", generate_mlp(rules, batch, machine.program), machine)


def vocab_parts(vocab: Axes, looked_up: float, rows: int, machine: Machine) -> Parts:
    """Embedding look-up, logits of `rows` tokens, and the step's fixed cost, without collectives."""
    sizes = machine.sizes
    share = sizes.padded_vocab(machine.ways(vocab)) / machine.ways(vocab)
    head = machine.matmul(rows, sizes.d_model, share) * (1 / sizes.layers)
    written = rows * share * LOGIT_BYTES / machine.chip.hbm_bytes_per_s
    read = looked_up * sizes.d_model * (sizes.weight_bytes + sizes.activation_bytes) / machine.chip.hbm_bytes_per_s
    return {
        "embedding": Roofline(0.0, read, 0.0, 0.0),
        "logits": head + Roofline(0.0, written, 0.0, 0.0),
        "step": Roofline(0.0, 0.0, 0.0, machine.stack.step_s),
    }


def generate_vocab_parts(rules: GenerateRules, batch: int, machine: Machine) -> Parts:
    """Embedding, logits and sampling in one generate step."""
    parts = vocab_parts(rules.vocab, batch, batch, machine)
    return with_collectives(parts, "generate", generate_vocab(rules, batch, machine.program), machine)


def prefill_attention_parts(stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """Attention in the prefill of one prompt of `tokens`; the rendered code visits every key, masked or not."""
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
        causal=False,
    )
    parts = {
        "attention.qkv": machine.matmul(rows, inner, (q_heads + 2 * kv_heads) * sizes.head_dim),
        "attention.kv_cache": scores * sizes.layers,
        "attention.out": machine.matmul(rows, q_heads * sizes.head_dim, inner),
    }
    return with_collectives(parts, "prefill", prefill_attention(stored, rules, tokens, machine.program), machine)


def prefill_mlp_parts(stored: GenerateRules, rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """The MLP in the prefill of one prompt."""
    sizes, ways = machine.sizes, machine.ways
    inner = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(stored.d_ff)) / ways(rules.d_ff)
    rows = tokens / ways(without(rules.tokens, common(rules.tokens, rules.d_ff)))
    parts = {"mlp.hidden": machine.matmul(rows, inner, 2 * d_ff), "mlp.out": machine.matmul(rows, d_ff, inner)}
    return with_collectives(parts, "prefill", prefill_mlp(stored, rules, tokens, machine.program), machine)


def prefill_vocab_parts(rules: PrefillRules, tokens: int, machine: Machine) -> Parts:
    """Embedding of a prompt, logits of its last token, sampling."""
    parts = vocab_parts(rules.vocab, tokens, 1, machine)
    return with_collectives(parts, "prefill", prefill_vocab(rules, tokens, machine.program), machine)


def binds(parts: Parts, machine: Machine) -> str:
    """What takes most of a step, after what overlaps is hidden: compute, hbm, ici or fixed."""
    total = Roofline()
    for cost in parts.values():
        hidden = min(cost.compute_s, cost.hbm_s)
        shown = Roofline(
            cost.compute_s if cost.compute_s > hidden else 0.0,
            cost.hbm_s if cost.compute_s <= hidden else 0.0,
            cost.ici_s,
            cost.fixed_s,
        )
        total = total + shown
    return total.binds


def total_s(parts: Parts, machine: Machine) -> float:
    """Seconds of all parts, one after the other."""
    return sum(machine.total_s(cost) for cost in parts.values())
