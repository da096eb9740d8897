"""How the weights that prefill reads are stored: as generate's, as second copies of them, or on slices of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from planner.plan.schema import CopiedBlock, GenerateRules, Plan
from planner.problem.rules import padded_heads, padded_width
from planner.render.axes import Axes, axis_sizes, shared, ways, without
from planner.render.model import ModelSizes, RenderError

MATRICES: Mapping[str, tuple[str, ...]] = {"attention": ("w_q", "w_kv", "w_o"), "mlp": ("w_in", "w_down")}
"""The stored arrays of a block that may have a second copy, without their scales."""


@dataclass(frozen=True)
class ReadTables:
    """The tables by which the attention and the MLP weights that prefill reads are stored."""

    attention: GenerateRules
    mlp: GenerateRules


def tables_read(plan: Plan) -> ReadTables:
    """Those of a plan. Where they are prefill's own, axes over which it gathers KV heads come last, so that what it
    makes is in order."""
    rules, copies = plan.prefill.rules, plan.prefill.copies or {}
    every = plan.prefill.stored or plan.generate.rules
    found: dict[CopiedBlock, GenerateRules] = {}
    for block in ("attention", "mlp"):
        copy = copies.get(block)
        found[block] = GenerateRules(**dict(copy)) if copy else every
    attention = found["attention"]
    if plan.prefill.stored or "attention" in copies:
        kept, rest = shared(attention.kv_heads, rules.q_heads), without(attention.q_heads, attention.kv_heads)
        kv_heads = kept + without(attention.kv_heads, kept)
        attention = attention.model_copy(update={"kv_heads": kv_heads, "q_heads": kv_heads + rest})
    return ReadTables(attention, found["mlp"])


@dataclass(frozen=True)
class ReadSizes:
    """Stored sizes of what prefill reads, where it is not what generate reads; padding is zeros.

    `kv_heads`: the KV head that is stored at each place; those beyond the model's are zeros.
    """

    q_heads_stored: int
    kv_heads: tuple[int, ...]
    kv_shards: int
    d_ff_stored: int
    vocab_stored: int


def read_sizes(plan: Plan, model: ModelSizes, vocab_stored: int) -> ReadSizes:
    """Those of a plan; `vocab_stored` are the rows that generate stores of the vocabulary."""
    tables, rules, sizes = tables_read(plan), plan.prefill.rules, axis_sizes(plan, "prefill")
    shards = ways(tables.attention.kv_heads, sizes)
    heads = padded_heads(model.q_heads, model.kv_heads, shards, ways(tables.attention.q_heads, sizes) // shards)
    order = tuple(range(heads.kv_padded))
    if plan.prefill.stored is None and plan.prefill.copies and "attention" in plan.prefill.copies:
        order = _order(plan, model.kv_heads, heads.kv_padded, rules.kv_heads, sizes)
    return ReadSizes(
        q_heads_stored=heads.q_padded,
        kv_heads=order,
        kv_shards=shards,
        d_ff_stored=padded_width(model.d_ff, ways(tables.mlp.d_ff, sizes)),
        vocab_stored=vocab_stored
        if plan.prefill.stored is None
        else padded_width(model.vocab, ways(rules.vocab, sizes)),
    )


def _order(plan: Plan, kv_heads: int, stored: int, cut: Axes, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The KV head at each place of a second copy of the attention weights, such that every chip makes, in order, the
    heads of those shards of the cache that it may keep: prefill cuts KV heads over fewer axes than the cache."""
    cache = plan.generate.rules.kv_heads
    held = padded_heads(kv_heads, kv_heads, ways(cache, sizes), 1).kv_local
    parts: dict[tuple[int, ...], list[int]] = {}
    for shard, place in enumerate(product(*(range(sizes[axis]) for axis in cache))):
        key = tuple(place[cache.index(axis)] for axis in cut)
        parts.setdefault(key, []).extend(range(shard * held, (shard + 1) * held))
    room, order = stored // ways(cut, sizes), []
    for key in product(*(range(sizes[axis]) for axis in cut)):
        part = parts[key][:room]
        if any(head < kv_heads for head in parts[key][room:]):
            raise RenderError(
                f"plan {plan.name}: prefill cuts {kv_heads} KV heads over {','.join(cut)} and the cache over "
                f"{','.join(cache)}, which leaves {len(parts[key])} heads to chips that have room for {room}"
            )
        order += part + [kv_heads] * (room - len(part))
    return tuple(order)
