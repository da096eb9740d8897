"""The collectives that a pair of rule tables implies, by plan address: priced, planned, rendered and audited from here.

Conventions: `x` is the residual stream, [rows, d_model]; rows are sequences in generate and prompt tokens in prefill.
Gathers and reduce-scatters go axis by axis (gathers minor axis first, scatters major axis first, so that blocks stay
contiguous); all-reduces and all-to-alls take all their axes in one operation. `bytes` is per chip, of the larger of
operand and result. Entries over no axes are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

from planner.problem.rules import (
    Axes,
    GenerateRules,
    PrefillRules,
    Rules,
    Ways,
    common,
    exchanged_batch,
    prompt_axes,
    scattered_batch,
    without,
)
from planner.problem.sizes import CANDIDATES, Sizes

CollectiveKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]

FLOAT32 = 4
CANDIDATE_BYTES = 8
TOKEN_BYTES = 4
ONE_GATHER_CHIPS = 16


class Collective(NamedTuple):
    """One planned collective: executed `repeats` times a step."""

    address: str
    kind: CollectiveKind
    axes: Axes
    bytes: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Program:
    """What the collectives of a step depend on besides the rule tables."""

    sizes: Sizes
    ways: Ways
    min_scatter_rows: int
    """A reduce-scatter whose shard has fewer rows compiles to an all-reduce on TPU, and is planned as one."""


def gathers(address: str, axes: Axes, gathered_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """All-gathers over `axes`, minor first, until every chip holds `gathered_bytes`."""
    remaining = ways(axes)
    if remaining == 1:
        return ()
    found = []
    for axis in reversed(ways.cutting(axes)):
        remaining //= ways((axis,))
        found.append(Collective(address, "all_gather", (axis,), ceil(gathered_bytes / remaining), repeats))
    return found


def all_reduce(address: str, axes: Axes, operand_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """One all-reduce over all of `axes`, or nothing."""
    axes = ways.cutting(axes)
    return (Collective(address, "all_reduce", axes, ceil(operand_bytes), repeats),) if axes else ()


def all_to_all(address: str, axes: Axes, operand_bytes: float, repeats: int, ways: Ways) -> Sequence[Collective]:
    """One all-to-all over all of `axes`, or nothing."""
    axes = ways.cutting(axes)
    return (Collective(address, "all_to_all", axes, ceil(operand_bytes), repeats),) if axes else ()


def row_reduction(
    address: str, scatter: Axes, rest: Axes, rows: int, row_bytes: float, repeats: int, program: Program
) -> Sequence[Collective]:
    """Sum partial rows over `scatter` and `rest`, leaving each chip its block of rows along `scatter`.

    Scatters go axis by axis, major first, while the shard stays large enough for the compiler; the axes after that
    are summed whole in one all-reduce, together with `rest`, and cut by rank.
    """
    if not scatter:
        return all_reduce(address, rest, rows * row_bytes, repeats, program.ways)
    scattered, found = scatter_prefix(scatter, rows, program), []
    for axis in program.ways.cutting(scattered):
        found.append(Collective(address, "reduce_scatter", (axis,), ceil(rows * row_bytes), repeats))
        rows //= program.ways((axis,))
    found += all_reduce(address, without(scatter, scattered) + rest, rows * row_bytes, repeats, program.ways)
    return found


def scatter_prefix(axes: Axes, rows: int, program: Program) -> Axes:
    """The leading axes over which rows can be scattered one after the other and stay reduce-scatters when compiled."""
    for index, axis in enumerate(axes):
        ways = program.ways((axis,))
        if rows % ways or rows // ways < program.min_scatter_rows:
            return axes[:index]
        rows //= ways
    return axes


def hidden(phase: str, rules: GenerateRules | PrefillRules, rows: int, program: Program) -> Iterator[Collective]:
    """Partial sums of gate and up over the d_model axes: scattered by rows and gathered again, or reduced whole."""
    sizes, ways = program.sizes, program.ways
    width = sizes.padded_d_ff(ways(rules.d_ff)) // ways(rules.d_ff) * sizes.activation_bytes
    if scatter_prefix(rules.d_model, rows, program) == rules.d_model:
        yield from row_reduction(f"{phase}.mlp.hidden", rules.d_model, (), rows, 2 * width, sizes.layers, program)
        yield from gathers(f"{phase}.mlp.hidden_rows", rules.d_model, rows * width, sizes.layers, ways)
    else:
        yield from all_reduce(f"{phase}.mlp.hidden", rules.d_model, rows * 2 * width, sizes.layers, ways)


def generate_attention(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of attention in one generate step of `batch` sequences."""
    sizes, ways, layers = program.sizes, program.ways, program.sizes.layers
    batch //= ways(rules.rows)
    heads = sizes.heads(rules, ways)
    scattered, exchanged = scattered_batch(rules), exchanged_batch(rules)
    rest = without(rules.d_model, scattered)
    head_bytes = sizes.head_dim * sizes.activation_bytes
    yield from all_reduce("generate.attention.norm", rules.d_model, batch * FLOAT32, layers, ways)
    q_bytes, kv_bytes = heads.q_local * head_bytes, 2 * heads.kv_local * head_bytes
    if exchanged:
        kv_rows = batch // ways(exchanged)
        yield from row_reduction("generate.attention.q", scattered, rest, batch, q_bytes, layers, program)
        yield from row_reduction("generate.attention.kv", scattered, rest, kv_rows, kv_bytes, layers, program)
    else:
        yield from row_reduction("generate.attention.qkv", scattered, rest, batch, q_bytes + kv_bytes, layers, program)
    rows = batch // ways(scattered)
    yield from all_to_all("generate.attention.q_to_batch", exchanged, rows * q_bytes, layers, ways)
    yield from token_merge(rules, rows, program)
    yield from all_to_all("generate.attention.o_to_heads", exchanged, rows * q_bytes, layers, ways)
    yield from gathers("generate.attention.o_rows", scattered, batch * q_bytes, layers, ways)
    yield from all_reduce("generate.attention.out", rules.q_heads, residual_bytes(batch, rules, program), layers, ways)


def token_merge(rules: GenerateRules, rows: int, program: Program) -> Iterator[Collective]:
    """Attention over a cache whose tokens are cut: queries to every part, then the merge of the partial softmaxes.

    Each part has its largest score m, sum of exponents l and output o. The largest m is found first, then l and o are
    scaled to it and summed, in float32, each chip keeping its own heads where enough of them are left to scatter.
    """
    sizes, ways, layers, axes = program.sizes, program.ways, program.sizes.layers, rules.kv_tokens
    heads = sizes.heads(rules, ways).q_local
    whole = rows * heads * ways(axes)
    yield from gathers(
        "generate.attention.q_to_tokens", axes, whole * sizes.head_dim * sizes.activation_bytes, layers, ways
    )
    yield from all_reduce("generate.attention.softmax", axes, whole * FLOAT32, layers, ways)
    head_bytes = rows * (sizes.head_dim + 1) * FLOAT32
    yield from row_reduction(
        "generate.attention.o_from_tokens", axes, (), heads * ways(axes), head_bytes, layers, program
    )


def residual_bytes(rows: int, rules: GenerateRules | PrefillRules, program: Program) -> float:
    """Bytes of `rows` of the residual stream on one chip, its d_model cut by the rules."""
    return rows * program.sizes.d_model / program.ways(rules.d_model) * program.sizes.activation_bytes


def generate_mlp(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of the MLP in one generate step."""
    layers, ways = program.sizes.layers, program.ways
    over = common(rules.rows, rules.d_ff)
    own = batch // ways(rules.rows)
    rows = own * ways(over)
    yield from all_reduce("generate.mlp.norm", rules.d_model, own * FLOAT32, layers, ways)
    yield from gathers("generate.mlp.rows", over, residual_bytes(rows, rules, program), layers, ways)
    yield from hidden("generate", rules, rows, program)
    rest, row_bytes = without(rules.d_ff, over), residual_bytes(1, rules, program)
    yield from row_reduction("generate.mlp.out", over, rest, rows, row_bytes, layers, program)


def generate_vocab(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of the embedding look-up, the logits and sampling in one generate step."""
    sizes, ways = program.sizes, program.ways
    over = common(rules.rows, rules.vocab)
    own = batch // ways(rules.rows)
    rows, row_bytes = own * ways(over), sizes.d_model * sizes.activation_bytes
    rest = without(rules.vocab, over)
    yield from row_reduction("generate.embedding.lookup", over, rest, rows, row_bytes, 1, program)
    yield from all_reduce("generate.logits.norm", rules.d_model, own * FLOAT32, 1, ways)
    yield from gathers("generate.logits.residual", rules.d_model, own * row_bytes, 1, ways)
    yield from gathers("generate.logits.rows", over, rows * row_bytes, 1, ways)
    yield from candidates("generate", rules.vocab, rows, program)
    yield from gathers("generate.sampling.tokens", without(rules.rows, over), batch * TOKEN_BYTES, 1, ways)


def candidates(phase: str, vocab: Axes, rows: int, program: Program) -> Iterator[Collective]:
    """The best candidates of every part of the vocabulary, brought together: in one gather while chips are few."""
    sizes, ways = program.sizes, program.ways
    offered = min(CANDIDATES, sizes.padded_vocab(ways(vocab)) // ways(vocab))
    gathered = ways(vocab) * rows * offered * CANDIDATE_BYTES
    if ways(vocab) > ONE_GATHER_CHIPS:
        yield from gathers(f"{phase}.sampling.candidates", vocab, gathered, 1, ways)
    elif ways(vocab) > 1:
        yield Collective(f"{phase}.sampling.candidates", "all_gather", ways.cutting(vocab), gathered, 1)


def prefill_attention(
    stored: GenerateRules, rules: PrefillRules, tokens: int, program: Program, prompts: int = 1
) -> Iterator[Collective]:
    """Collectives of attention in the prefill of `prompts` of `tokens` each."""
    sizes, ways, layers = program.sizes, program.ways, program.sizes.layers
    sequence = common(rules.tokens, rules.q_heads)
    own = without(rules.tokens, sequence)
    heads = sizes.heads(stored, ways)
    q_heads = heads.q_padded // ways(rules.q_heads)
    kv_heads = heads.kv_padded // ways(rules.kv_heads)
    head_bytes = sizes.head_dim * sizes.activation_bytes
    whole, apart = prompts * tokens, prompt_axes(own, prompts, ways)
    rows = whole // ways(own)
    yield from all_reduce("prefill.attention.norm", rules.d_model, whole // ways(rules.tokens) * FLOAT32, layers, ways)
    yield from gathers("prefill.attention.tokens", sequence, residual_bytes(rows, rules, program), layers, ways)
    yield from attention_weights(stored, rules, q_heads, kv_heads, program)
    yield from row_reduction("prefill.attention.q", rules.d_model, (), rows, q_heads * head_bytes, layers, program)
    kv_bytes = 2 * kv_heads * head_bytes
    yield from all_reduce("prefill.attention.kv", rules.d_model, rows * kv_bytes, layers, ways)
    kv_tokens = whole // ways(apart)
    yield from gathers("prefill.attention.kv_tokens", without(own, apart), kv_tokens * kv_bytes, layers, ways)
    yield from gathers("prefill.attention.o_tokens", rules.d_model, rows * q_heads * head_bytes, layers, ways)
    out_bytes = residual_bytes(1, rules, program)
    rest = without(rules.q_heads, sequence)
    yield from row_reduction("prefill.attention.out", sequence, rest, rows, out_bytes, layers, program)


def attention_weights(
    stored: GenerateRules, rules: PrefillRules, q_heads: int, kv_heads: int, program: Program
) -> Iterator[Collective]:
    """Gathers of the attention weights over the axes that prefill does not compute on, d_model axes first."""
    sizes, ways = program.sizes, program.ways
    over_d = without(stored.d_model, rules.d_model)
    over_q, over_kv = without(stored.q_heads, rules.q_heads), without(stored.kv_heads, rules.kv_heads)
    width = sizes.d_model / ways(rules.d_model)
    for name, heads, axes in (("w_q", q_heads, over_q), ("w_kv", 2 * kv_heads, over_kv), ("w_o", q_heads, over_q)):
        weight = heads * sizes.head_dim * width * sizes.weight_bytes
        yield from gathers(f"prefill.attention.gather_{name}", axes + over_d, weight, sizes.layers, ways)
        scale_axes, scales = (over_d, width) if name == "w_o" else (axes, heads * sizes.head_dim)
        yield from scale_gathers(f"prefill.attention.gather_{name}_scale", scale_axes, scales, program)


def scale_gathers(address: str, axes: Axes, scales: float, program: Program) -> Iterator[Collective]:
    """Gathers of the scales of a quantised weight; nothing when weights are not quantised."""
    if program.sizes.scale_bytes:
        scale_bytes = scales * program.sizes.scale_bytes
        yield from gathers(address, axes, scale_bytes, program.sizes.layers, program.ways)


def prefill_mlp(
    stored: GenerateRules, rules: PrefillRules, tokens: int, program: Program, prompts: int = 1
) -> Iterator[Collective]:
    """Collectives of the MLP in the prefill of `prompts` of `tokens` each."""
    ways, layers = program.ways, program.sizes.layers
    sequence = common(rules.tokens, rules.d_ff)
    whole = prompts * tokens
    rows = whole // ways(without(rules.tokens, sequence))
    yield from all_reduce("prefill.mlp.norm", rules.d_model, whole // ways(rules.tokens) * FLOAT32, layers, ways)
    yield from gathers("prefill.mlp.tokens", sequence, residual_bytes(rows, rules, program), layers, ways)
    yield from mlp_weights(stored, rules, program)
    yield from hidden("prefill", rules, rows, program)
    out_bytes = residual_bytes(1, rules, program)
    rest = without(rules.d_ff, sequence)
    yield from row_reduction("prefill.mlp.out", sequence, rest, rows, out_bytes, layers, program)


def mlp_weights(stored: GenerateRules, rules: PrefillRules, program: Program) -> Iterator[Collective]:
    """Gathers of the MLP weights over the axes that prefill does not compute on."""
    sizes, ways = program.sizes, program.ways
    over_d, over_f = without(stored.d_model, rules.d_model), without(stored.d_ff, rules.d_ff)
    width = sizes.d_model / ways(rules.d_model)
    d_ff = sizes.padded_d_ff(ways(stored.d_ff)) // ways(rules.d_ff)
    for name, columns, scale_axes, scales in (
        ("w_in", 2 * d_ff, over_f, 2 * d_ff),
        ("w_down", d_ff, over_d, width),
    ):
        weight = columns * width * sizes.weight_bytes
        yield from gathers(f"prefill.mlp.gather_{name}", over_f + over_d, weight, sizes.layers, ways)
        yield from scale_gathers(f"prefill.mlp.gather_{name}_scale", scale_axes, scales, program)


def prefill_vocab(rules: PrefillRules, tokens: int, program: Program, prompts: int = 1) -> Iterator[Collective]:
    """Collectives of the embedding look-up of `prompts` of `tokens` each, and of the logits of their last tokens."""
    sizes, ways = program.sizes, program.ways
    rows, row_bytes = prompts * tokens, sizes.d_model * sizes.activation_bytes
    for axis in rules.tokens:
        if axis in rules.vocab:
            yield from row_reduction("prefill.embedding.lookup", (axis,), (), rows, row_bytes, 1, program)
        rows //= ways((axis,))
    rest = without(rules.vocab, rules.tokens)
    yield from all_reduce("prefill.embedding.lookup", rest, rows * row_bytes, 1, ways)
    yield from all_reduce("prefill.logits.last", rules.tokens, residual_bytes(prompts, rules, program), 1, ways)
    yield from all_reduce("prefill.logits.norm", rules.d_model, prompts * FLOAT32, 1, ways)
    yield from gathers("prefill.logits.residual", rules.d_model, prompts * row_bytes, 1, ways)
    yield from candidates("prefill", rules.vocab, prompts, program)


def generate_step(rules: GenerateRules, batch: int, program: Program) -> list[Collective]:
    """Collectives of one generate step of `batch` sequences, in the order of the step."""
    first, last = split_vocab(generate_vocab(rules, batch, program))
    attention, mlp = generate_attention(rules, batch, program), generate_mlp(rules, batch, program)
    return [*first, *attention, *mlp, *last]


def prefill_step(rules: Rules, tokens: int, program: Program, prompts: int = 1) -> list[Collective]:
    """Collectives of the prefill of `prompts` of `tokens` each, in the order of the step."""
    first, last = split_vocab(prefill_vocab(rules.prefill, tokens, program, prompts))
    attention = prefill_attention(rules.generate, rules.prefill, tokens, program, prompts)
    return [*first, *attention, *prefill_mlp(rules.generate, rules.prefill, tokens, program, prompts), *last]


def split_vocab(found: Iterable[Collective]) -> tuple[list[Collective], list[Collective]]:
    """The collectives of the embedding, and those after the last layer."""
    everything = list(found)
    first = [collective for collective in everything if ".embedding." in collective.address]
    return first, [collective for collective in everything if collective not in first]
