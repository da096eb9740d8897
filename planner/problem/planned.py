"""The collectives that a pair of rule tables implies, by plan address: priced, planned, rendered and audited from here.

Conventions: `x` is the residual stream, [rows, d_model]; rows are sequences in generate and prompt tokens in prefill.
Single collectives are those of `primitives.py`; those of a mixture's experts are in `routed.py`.
"""

from collections.abc import Iterable, Iterator

from planner.problem.chunks import steps_of
from planner.problem.primitives import (
    FLOAT32,
    Collective,
    Program,
    all_reduce,
    all_to_all,
    gathers,
    hidden,
    repeated,
    residual_bytes,
    row_reduction,
    scale_gathers,
)
from planner.problem.routed import generate_experts, prefill_experts
from planner.problem.rules import (
    Axes,
    GenerateRules,
    PrefillRules,
    Rules,
    common,
    exchanged_batch,
    padded_width,
    prompt_axes,
    scattered_batch,
    without,
)
from planner.problem.sizes import CANDIDATES, TOLD

CANDIDATE_BYTES = 8
TOKEN_BYTES = 4 * (2 + 2 * TOLD)
"""A token, its log probability, and those of the likeliest ones."""
ONE_GATHER_CHIPS = 16
INSERTION = "prefill.insert."
"""How addresses of collectives begin that are not of the program that reads prompts, but of the one after it."""


def generate_attention(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of attention in one generate step of `batch` sequences."""
    sizes, ways, layers = program.sizes, program.ways, program.sizes.layers
    batch //= ways(rules.rows)
    heads = sizes.heads(rules, ways)
    scattered, exchanged = scattered_batch(rules), exchanged_batch(rules)
    rest = without(rules.d_model, scattered)
    element = sizes.activation_bytes
    yield from all_reduce("generate.attention.norm", rules.d_model, batch * FLOAT32, layers, ways)
    q_bytes, kv_bytes = sizes.q_made(heads.q_local) * element, sizes.kv_made(heads.kv_local) * element
    if exchanged:
        kv_rows = batch // ways(exchanged)
        yield from row_reduction("generate.attention.q", scattered, rest, batch, q_bytes, layers, program)
        yield from row_reduction("generate.attention.kv", scattered, rest, kv_rows, kv_bytes, layers, program)
    else:
        yield from row_reduction("generate.attention.qkv", scattered, rest, batch, q_bytes + kv_bytes, layers, program)
    rows = batch // ways(scattered)
    asked_bytes, answered_bytes = (heads.q_local * each * element for each in (sizes.asked_dim, sizes.answered_dim))
    yield from all_to_all("generate.attention.q_to_batch", exchanged, rows * asked_bytes, layers, ways)
    yield from token_merge(rules, rows, program)
    yield from all_to_all("generate.attention.o_to_heads", exchanged, rows * answered_bytes, layers, ways)
    o_bytes = heads.q_local * sizes.out_dim * element
    yield from gathers("generate.attention.o_rows", scattered, batch * o_bytes, layers, ways)
    yield from all_reduce("generate.attention.out", rules.q_heads, residual_bytes(batch, rules, program), layers, ways)


def token_merge(rules: GenerateRules, rows: int, program: Program) -> Iterator[Collective]:
    """Attention over a cache whose tokens are cut: queries to every part, then the merge of the partial softmaxes.

    Each part has its output o and the log-sum-exp of its scores. Those of all parts are gathered, so that each chip
    weighs its o before they are summed, in float32, each chip keeping its own heads where enough of them are left to
    scatter. Sums that travelled beside o would leave rows of no whole lanes, which no TPU scatters as they are.
    """
    sizes, ways, layers, axes = program.sizes, program.ways, program.sizes.layers, rules.kv_tokens
    heads = sizes.heads(rules, ways).q_local
    whole = rows * heads * ways(axes)
    yield from gathers(
        "generate.attention.q_to_tokens", axes, whole * sizes.asked_dim * sizes.activation_bytes, layers, ways
    )
    yield from gathers("generate.attention.softmax", axes, ways(axes) * whole * FLOAT32, layers, ways)
    head_bytes = rows * sizes.answered_dim * FLOAT32
    yield from row_reduction(
        "generate.attention.o_from_tokens", axes, (), heads * ways(axes), head_bytes, layers, program
    )


def generate_mlp(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of the MLPs in one generate step."""
    yield from mlps("generate", rules, rules.rows, rules, batch, program)


def mlps(
    phase: str, stored: GenerateRules, cut: Axes, rules: GenerateRules | PrefillRules, rows: int, program: Program
) -> Iterator[Collective]:
    """Collectives of the MLPs for `rows` of the residual stream that are cut over `cut`, in all layers.

    Shared experts read the norm that their layer's routed ones have made.
    """
    ways = program.ways
    over = common(cut, rules.d_ff)
    own = rows // ways(cut)
    gathered = own * ways(over)
    rest, row_bytes = without(rules.d_ff, over), residual_bytes(1, rules, program)
    for each in program.sizes.mlps:
        columns = padded_width(each.d_ff, ways(stored.d_ff)) / ways(rules.d_ff)
        if each.dimension == "d_ff":
            yield from all_reduce(f"{phase}.mlp.norm", rules.d_model, own * FLOAT32, each.layers, ways)
        together = "rows" if phase == "generate" else "tokens"
        yield from gathers(f"{phase}.mlp.{together}", over, gathered * row_bytes, each.layers, ways)
        if isinstance(rules, PrefillRules):
            yield from mlp_weights(stored, rules, each.layers, columns, program)
        yield from hidden(f"{phase}.mlp", rules.d_model, gathered, columns, each.layers, program)
        yield from row_reduction(f"{phase}.mlp.out", over, rest, gathered, row_bytes, each.layers, program)


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
    offered = min(CANDIDATES, sizes.padded_vocab(ways(vocab)) // ways(vocab)) + 1  # and the sum of all
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
    element = sizes.activation_bytes
    q_bytes, kv_bytes = sizes.q_made(q_heads) * element, sizes.kv_made(kv_heads) * element
    whole = prompts * tokens
    rows = whole // ways(own)
    yield from all_reduce("prefill.attention.norm", rules.d_model, whole // ways(rules.tokens) * FLOAT32, layers, ways)
    yield from gathers("prefill.attention.tokens", sequence, residual_bytes(rows, rules, program), layers, ways)
    if (stored, rules) not in program.gathered:
        program.gathered[stored, rules] = tuple(attention_weights(stored, rules, q_heads, kv_heads, program))
    yield from program.gathered[stored, rules]
    yield from row_reduction("prefill.attention.q", rules.d_model, (), rows, q_bytes, layers, program)
    yield from all_reduce("prefill.attention.kv", rules.d_model, rows * kv_bytes, layers, ways)
    apart = prompt_axes(own, prompts, ways)
    gathered_rows = whole // ways(apart)
    yield from gathers("prefill.attention.kv_tokens", without(own, apart), gathered_rows * kv_bytes, layers, ways)
    o_bytes = q_heads * sizes.out_dim * element
    yield from gathers("prefill.attention.o_tokens", rules.d_model, rows * o_bytes, layers, ways)
    out_bytes = residual_bytes(1, rules, program)
    rest = without(rules.q_heads, sequence)
    yield from row_reduction("prefill.attention.out", sequence, rest, rows, out_bytes, layers, program)


def insertion(
    stored: GenerateRules, rules: PrefillRules, tokens: int, program: Program, prompts: int = 1
) -> Iterator[Collective]:
    """Collectives that bring each of `prompts`, one at a time and layer by layer, from the chips that read it to those
    that take it: its keys and values to all chips of the axes that cut whole prompts.

    Where prefill has slices of its own, each of those chips gets a part of the tokens, and sends it on.
    """
    sizes, ways = program.sizes, program.ways
    apart, kv_heads = inserted(stored, rules, program, prompts)
    if ways(apart) == 1:
        return
    row_bytes = sizes.kv_made(kv_heads) * sizes.prefilled_bytes
    for kind in sizes.kinds:
        rows, count = int(kind.context(tokens)), prompts * kind.layers
        if program.apart:
            yield from row_reduction("prefill.insert.kv_prompt", apart, (), rows, row_bytes, count, program)
        else:
            yield from all_reduce("prefill.insert.kv_prompt", apart, rows * row_bytes, count, ways)


def inserted(stored: GenerateRules, rules: PrefillRules, program: Program, prompts: int) -> tuple[Axes, int]:
    """All that an insertion depends on: the axes that cut whole prompts, and the KV heads on a chip."""
    sizes, ways = program.sizes, program.ways
    apart = prompt_axes(without(rules.tokens, rules.q_heads), prompts, ways)
    return apart, sizes.heads(stored, ways).kv_padded // ways(rules.kv_heads)


def attention_weights(
    stored: GenerateRules, rules: PrefillRules, q_heads: int, kv_heads: int, program: Program
) -> Iterator[Collective]:
    """Gathers of the attention weights over the axes that prefill does not compute on, d_model axes first."""
    sizes, ways = program.sizes, program.ways
    over_d = without(stored.d_model, rules.d_model)
    over = {
        "q": without(stored.q_heads, rules.q_heads),
        "kv": without(stored.kv_heads, rules.kv_heads),
        None: (),
    }
    width = sizes.d_model / ways(rules.d_model)
    for each in sizes.matrices:
        heads, own_d = over[each.heads], over_d if each.whole is None else ()
        weight = each.elements(q_heads, kv_heads, width) * sizes.weight_bytes
        yield from gathers(f"prefill.attention.gather_{each.name}", heads + own_d, weight, sizes.layers, ways)
        scale_axes, scales = own_d if each.out_is_d_model else heads, each.scales(q_heads, kv_heads, width)
        yield from scale_gathers(
            f"prefill.attention.gather_{each.name}_scale", scale_axes, scales, sizes.layers, program
        )


def prefill_mlp(
    stored: GenerateRules, rules: PrefillRules, tokens: int, program: Program, prompts: int = 1
) -> Iterator[Collective]:
    """Collectives of the MLPs in the prefill of `prompts` of `tokens` each."""
    yield from mlps("prefill", stored, rules.tokens, rules, prompts * tokens, program)


def mlp_weights(
    stored: GenerateRules, rules: PrefillRules, layers: int, columns: float, program: Program
) -> Iterator[Collective]:
    """Gathers of the weights of an MLP of so many `columns` over the axes that prefill does not compute on."""
    sizes, ways = program.sizes, program.ways
    over_d, over_f = without(stored.d_model, rules.d_model), without(stored.d_ff, rules.d_ff)
    width, made = sizes.d_model / ways(rules.d_model), sizes.inputs * columns
    for name, cut, scale_axes, scales in (("w_in", made, over_f, made), ("w_down", columns, over_d, width)):
        weight = cut * width * sizes.weight_bytes
        yield from gathers(f"prefill.mlp.gather_{name}", over_f + over_d, weight, layers, ways)
        yield from scale_gathers(f"prefill.mlp.gather_{name}_scale", scale_axes, scales, layers, program)


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
    """Collectives of one generate step of `batch` rows, in the order of the step."""
    first, last = split_vocab(generate_vocab(rules, batch, program))
    attention, mlp = generate_attention(rules, batch, program), generate_mlp(rules, batch, program)
    return [*first, *attention, *mlp, *generate_experts(rules, batch, program), *last]


def prefill_step(
    rules: Rules, tokens: int, program: Program, prompts: int = 1, chunk: int | None = None
) -> list[Collective]:
    """Collectives of the prefill of `prompts` of `tokens` each, all chunks together, in the order of a step, and those
    of their insertion."""
    count, step = steps_of(tokens, chunk)
    first, last = split_vocab(prefill_vocab(rules.prefill, step, program, prompts))
    attention = prefill_attention(rules.read("attention"), rules.prefill, step, program, prompts)
    mlp = prefill_mlp(rules.read("mlp"), rules.prefill, step, program, prompts)
    experts = prefill_experts(rules.read("experts"), rules.prefill, step, program, prompts)
    inserted = insertion(rules.read("attention"), rules.prefill, tokens, program, prompts)
    return [*repeated([*first, *attention, *mlp, *experts, *last], count), *inserted]


def split_vocab(found: Iterable[Collective]) -> tuple[list[Collective], list[Collective]]:
    """The collectives of the embedding, and those after the last layer."""
    everything = list(found)
    first = [collective for collective in everything if ".embedding." in collective.address]
    return first, [collective for collective in everything if collective not in first]
