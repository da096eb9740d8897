"""What attention costs on one chip: projections and scores, of heads or of latents, layers with windows and without.

Latents are absorbed in generate: queries meet the cache as latents, and w_kv turns queries and outputs instead of keys
and values. In prefill keys and values of the chip's heads are made of the latents of all tokens that it attends to.
"""

from typing import Any, NamedTuple

from cost_models.attention import generate_attention, prefill_attention
from cost_models.mla import absorbed_attention, expanded_attention
from cost_models.roofline import Roofline
from planner.problem.chunks import Steps, steps_of
from planner.problem.machine import Machine
from planner.problem.rules import (
    GenerateRules,
    PrefillRules,
    exchanged_batch,
    prompt_axes,
    scattered_batch,
    without,
)


def generate_attention_parts(
    rules: GenerateRules, batch: int, context: float, machine: Machine, queries: int = 1
) -> dict[str, Roofline]:
    """Attention in one generate step of `batch` sequences whose mean length is `context`, without collectives.

    Each sequence has so many `queries`, which read its cache together.
    """
    sizes, ways = machine.sizes, machine.ways
    heads, rows = sizes.heads(rules, ways), batch * queries / ways(rules.rows)
    inner, width = sizes.d_model / ways(rules.d_model), heads.q_local * sizes.out_dim
    kv_rows = rows / ways(exchanged_batch(rules))
    apart = rows / ways(scattered_batch(rules))
    return {
        "attention.qkv": machine.matmul(rows, inner, sizes.q_made(heads.q_local))
        + machine.matmul(kv_rows, inner, sizes.kv_made(heads.kv_local))
        + of_latents(apart, apart, heads.q_local, machine),
        "attention.kv_cache": generate_scores(rules, rows, context, machine, queries),
        "attention.out": machine.matmul(rows, width, inner),
        "attention.elementwise": machine.elementwise(rows, inner + width) + latents_between(apart, apart, machine),
    }


def of_latents(rows: float, kv_rows: float, q_heads: float, machine: Machine) -> Roofline:
    """What `q_heads` heads make of latents: queries of `rows`, keys and values of `kv_rows`."""
    latent = machine.sizes.latent
    if latent is None:
        return Roofline()
    made = machine.matmul(kv_rows, latent.latent_dim, q_heads * latent.made_dim)
    if latent.query_latent_dim:
        made += machine.matmul(rows, latent.query_latent_dim, q_heads * latent.query_head_dim)
    return made


def latents_between(rows: float, kv_rows: float, machine: Machine) -> Roofline:
    """What happens to latents of `rows` and `kv_rows` outside matmuls."""
    latent = machine.sizes.latent
    if latent is None:
        return Roofline()
    return machine.elementwise(rows, latent.query_latent_dim) + machine.elementwise(kv_rows, latent.latent_dim)


def common(machine: Machine) -> dict[str, Any]:
    """What every formula of attention is told of the chip."""
    return {
        "activation_bytes_per_element": machine.sizes.activation_bytes,
        "compute_dtype": machine.sizes.compute_dtype,
        "chip": machine.chip,
        "stack": machine.stack,
    }


def generate_scores(rules: GenerateRules, rows: float, context: float, machine: Machine, queries: int = 1) -> Roofline:
    """Attention of all layers over the part of the cache that a chip holds; each sequence has so many of the rows."""
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(rules, ways)
    read = sizes.kv_read_bytes(heads.kv_local, bool(rules.kv_tokens))
    told = {**common(machine), "kv_bytes_per_element": read, "query_tokens": queries}
    sequences, q_heads = (
        rows / queries / ways(rules.batch),
        heads.q_local * ways(exchanged_batch(rules) + rules.kv_tokens),
    )
    found = Roofline()
    for kind in sizes.kinds:
        tokens = kind.context(context) / ways(rules.kv_tokens)
        if sizes.latent:
            one = absorbed_attention(sequences, tokens, q_heads, sizes.latent, **told)
        else:
            one = generate_attention(sequences, tokens, q_heads, heads.kv_local, sizes.head_dim, **told)
        found += one * kind.layers
    return found


def prefill_attention_parts(
    stored: GenerateRules,
    rules: PrefillRules,
    tokens: int,
    machine: Machine,
    prompts: int = 1,
    chunk: int | None = None,
) -> dict[str, Roofline]:
    """Attention in the prefill of `prompts` of `tokens` each, all chunks together, without collectives.

    Latents are cached, so each chunk makes the keys and values of its prefix again. Few layouts differ in what one chip
    does, so it is remembered.
    """
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(stored, ways)
    own = without(rules.tokens, rules.q_heads)
    share = Share(
        steps_of(tokens, chunk),
        prompts,
        heads.q_padded / ways(rules.q_heads),
        heads.kv_padded / ways(rules.kv_heads),
        ways(rules.d_model),
        ways(rules.tokens),
        ways(own),
        ways(prompt_axes(own, prompts, ways)),
    )
    if share not in machine.remembered:
        machine.remembered[share] = parts_of_share(share, machine)
    return machine.remembered[share]


class Share(NamedTuple):
    """What one chip has of a prefill of attention: heads, and the ways that cut the rest. `own`: the ways that cut
    queries, of which the first, `apart`, cut whole prompts."""

    steps: Steps
    prompts: int
    q_heads: float
    kv_heads: float
    d_model: int
    residual: int
    own: int
    apart: int


def parts_of_share(share: Share, machine: Machine) -> dict[str, Roofline]:
    """The parts of a prefill of attention on a chip that has this share."""
    sizes, steps, q_heads = machine.sizes, share.steps, share.q_heads
    inner, width = sizes.d_model / share.d_model, q_heads * sizes.out_dim
    whole = share.prompts * steps.tokens
    rows, apart = whole / share.own, whole / share.own / share.d_model
    made = machine.matmul(rows, inner, sizes.q_made(q_heads) + sizes.kv_made(share.kv_heads))
    made += of_latents(apart, share.prompts * steps.mean_read / share.apart, q_heads, machine)
    around = machine.elementwise(whole / share.residual, inner) + machine.elementwise(rows, width)
    around += latents_between(apart, whole / share.apart, machine)
    found = {
        "attention.qkv": made,
        "attention.kv_cache": prefill_scores(share, machine),
        "attention.out": machine.matmul(rows, width, inner),
        "attention.elementwise": around,
    }
    return found if steps.number == 1 else in_chunks(found, steps.number)


def in_chunks(step: dict[str, Roofline], number: int) -> dict[str, Roofline]:
    """A step that runs so often; the scores are those of all chunks already."""
    return {part: cost if part == "attention.kv_cache" else cost * number for part, cost in step.items()}


def prefill_scores(share: Share, machine: Machine) -> Roofline:
    """Attention of all layers and steps of a chip.

    Token axes cut whole prompts first, then the tokens of a step. Keys and values count as wide as activations.
    """
    sizes, steps = machine.sizes, share.steps
    queries = steps.tokens / (share.own // share.apart) / share.d_model
    told = {
        **common(machine),
        "causal": machine.stack.masked_pairs == "skipped",
        "sequences": share.prompts / share.apart,
    }
    if sizes.latent:
        return expanded_attention(queries, steps.mean_read, share.q_heads, sizes.latent, **told) * (
            steps.number * sizes.layers
        )
    told["kv_bytes_per_element"] = sizes.activation_bytes
    heads, found = (share.q_heads, share.kv_heads, sizes.head_dim), Roofline()
    for kind in sizes.kinds:
        for count, read in steps.alike(queries, kind.window):
            one = prefill_attention(queries, read, *heads, window=kind.window, **told)
            found += one * (count * kind.layers)
    return found
