"""Dimensions that are stored wider than they are, and what the zeros take."""

from collections.abc import Container, Iterator
from dataclasses import replace

from planner.plan import records
from planner.plan.chosen import Chosen
from planner.plan.moves import CUT_BY
from planner.problem.rules import GenerateRules, padded_width


def padding_of(chosen: Chosen) -> list[records.Padding]:
    """Dimensions that are stored wider than they are, with the bytes per chip that the zeros take; those of a second
    copy as `prefill.d_ff`."""
    found = list(paddings(chosen, chosen.rules.generate))
    for block, stored in chosen.rules.copies.items():
        # A copy has no cache of its own.
        found += paddings(replace(chosen, batch=0), stored, PADDED[block], "prefill.")
    return found


PADDED = {"attention": ("q_heads", "kv_heads"), "mlp": ("d_ff", "shared_d_ff"), "experts": ("expert_ff",)}
"""The dimensions of a block's weights that may be padded."""


def paddings(
    chosen: Chosen, stored: GenerateRules, names: Container[str] | None = None, before: str = ""
) -> Iterator[records.Padding]:
    """The padded dimensions, all or those with these names, of weights that are stored so and of the cache of the
    batch."""
    ways = chosen.machine.ways
    for name, (size, padded) in padded_sizes(chosen, stored).items():
        if padded != size and (names is None or name in names):
            cut = ways(getattr(stored, CUT_BY.get(name, name), ()))
            zeros = unit_bytes(name, chosen, stored) * (padded - size) / cut
            yield records.Padding(dimension=before + name, size=size, padded=padded, bytes_per_chip=round(zeros))


def padded_sizes(chosen: Chosen, stored: GenerateRules) -> dict[str, tuple[int, int]]:
    """Dimensions that may be padded: their size, and how it is stored."""
    ways, sizes = chosen.machine.ways, chosen.machine.sizes
    heads = sizes.heads(stored, ways)
    form = sizes.kv_form(heads.kv_local, bool(stored.kv_tokens))
    if sizes.latent:
        found = {"latent": (sizes.cached_dim, sizes.stored_token(1)), "q_heads": (sizes.q_heads, heads.q_padded)}
    else:
        found = {
            "head_dim": (sizes.head_dim, sizes.head_dim if form.flat else sizes.stored_head_dim),
            "q_heads": (sizes.q_heads, heads.q_padded),
            "kv_heads": (sizes.kv_heads, heads.kv_padded),
        }
    found |= {each.dimension: (each.d_ff, padded_width(each.d_ff, ways(stored.d_ff))) for each in sizes.mlps}
    if sizes.mixture:
        width = sizes.mixture.d_ff
        found["expert_ff"] = width, padded_width(width, ways(stored.expert_ff))
    return {**found, "vocab": (sizes.vocab, sizes.padded_vocab(ways(stored.vocab)))}


def unit_bytes(dimension: str, chosen: Chosen, stored: GenerateRules) -> float:
    """Bytes of one head, lane, column or row on the chip that holds it: weights of all layers, and the KV cache."""
    sizes, ways = chosen.machine.sizes, chosen.machine.ways
    part = sizes.d_model / ways(stored.d_model)
    width = part * sizes.weight_bytes
    slots = chosen.batch / ways(stored.rows + stored.batch)
    cached = slots * sizes.attended(chosen.load.max_context) * sizes.kv_bytes
    match dimension:
        case "head_dim":
            return 2 * cached * sizes.heads(stored, ways).kv_local
        case "latent":
            return cached
        case "vocab":
            return (1 if sizes.tied else 2) * sizes.d_model * sizes.weight_bytes
        case "d_ff" | "shared_d_ff":
            layers = next(each.layers for each in sizes.mlps if each.dimension == dimension)
            return layers * (sizes.inputs + 1) * width
        case "expert_ff":
            held = sizes.experts.experts / ways(stored.experts)
            return sizes.sparse_layers * held * (sizes.inputs + 1) * width
        case "q_heads":
            elements = sum(each.elements(1, 0, part) for each in sizes.matrices if each.heads == "q")
            return sizes.layers * elements * sizes.weight_bytes
        case _:
            return sizes.head_dim * (sizes.layers * 2 * width + 2 * cached)
