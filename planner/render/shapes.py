"""Shape: the sizes one configuration of a package runs with, zero padding included."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from planner.plan.schema import Plan
from planner.problem.chunks import steps_of
from planner.problem.rules import padded_heads, padded_width
from planner.render.axes import axis_sizes, ways
from planner.render.model import ModelSizes, RenderError
from planner.render.stored import ReadSizes, read_sizes, tables_read

TINY_LAYERS = 2
TINY_CONTEXT = 256
TINY_VOCAB = 512


@dataclass(frozen=True)
class Shape:
    """Sizes of a model and its service; `*_stored` include the padding that makes a dimension divide."""

    layers: int
    d_model: int
    d_ff: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    q_heads_stored: int
    kv_heads_stored: int
    d_ff_stored: int
    vocab_stored: int
    kv_shards: int
    batch: int
    context: int
    page_tokens: int
    buckets: tuple[int, ...]
    chunk: int | None
    read: ReadSizes
    """Stored sizes of what prefill reads."""

    @property
    def pads_heads_within_shards(self) -> bool:
        """Whether a KV shard holds query heads beyond those of its KV heads."""
        real = self.kv_heads_stored // self.kv_shards * (self.q_heads // self.kv_heads)
        return self.q_heads_stored // self.kv_shards != real


def full_shape(plan: Plan, model: ModelSizes) -> Shape:
    """The shape of the planned model."""
    chunk = plan.prefill.chunk
    buckets = tuple(dict.fromkeys(steps_of(bucket, chunk).read for bucket in plan.prefill.buckets))
    return _shape(plan, model, plan.generate.context, buckets, chunk)


def tiny_shape(plan: Plan, model: ModelSizes) -> Shape:
    """A small model under the same rules, mesh, batch and heads; it pads wherever the planned one pads."""
    rules, sizes, reading = plan.generate.rules, axis_sizes(plan, "generate"), axis_sizes(plan, "prefill")
    tables, stages = tables_read(plan), plan.prefill.stages
    rows = ways((*plan.prefill.rules.tokens, *plan.prefill.rules.d_model), reading)
    cut = (ways(each.d_model, reading) for each in (tables.attention, tables.mlp))
    first = max(16, rows)
    buckets = tuple(first * 2**step for step in range(5) if first * 2**step <= max(TINY_CONTEXT, first))
    small = ModelSizes(
        **{
            **vars(model),
            "layers": padded_width(TINY_LAYERS, stages.count if stages else 1),
            "d_model": padded_width(64, lcm(ways(rules.d_model, sizes), *cut)),
            "d_ff": _small(128, ways(rules.d_ff, sizes), model.d_ff),
            "vocab": _small(TINY_VOCAB, ways(rules.vocab, sizes), model.vocab),
        }
    )
    chunk = None if plan.prefill.chunk is None else 2 * first
    return _shape(plan, small, max(TINY_CONTEXT, first), buckets, chunk)


def _small(size: int, parts: int, planned: int) -> int:
    """About `size`, and a multiple of `parts` exactly if `planned` is one."""
    return padded_width(size, parts) - (1 if planned % parts else 0)


def _shape(plan: Plan, model: ModelSizes, context: int, buckets: tuple[int, ...], chunk: int | None) -> Shape:
    rules, sizes, reading = plan.generate.rules, axis_sizes(plan, "generate"), axis_sizes(plan, "prefill")
    kv_shards = ways(rules.kv_heads, sizes)
    heads = padded_heads(model.q_heads, model.kv_heads, kv_shards, ways(rules.q_heads, sizes) // kv_shards)
    _check_divides("d_model", model.d_model, rules.d_model, sizes)
    _check_divides("generate.batch", plan.generate.batch, rules.rows + rules.batch, sizes)
    for bucket in buckets:
        tokens = steps_of(bucket, chunk).tokens
        _check_divides(
            "prefill bucket" if tokens == bucket else "prefill.chunk",
            tokens,
            (*plan.prefill.rules.tokens, *plan.prefill.rules.d_model),
            reading,
        )
    vocab_stored = padded_width(model.vocab, ways(rules.vocab, sizes))
    return Shape(
        layers=model.layers,
        d_model=model.d_model,
        d_ff=model.d_ff,
        q_heads=model.q_heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        vocab=model.vocab,
        q_heads_stored=heads.q_padded,
        kv_heads_stored=heads.kv_padded,
        d_ff_stored=padded_width(model.d_ff, ways(rules.d_ff, sizes)),
        vocab_stored=vocab_stored,
        kv_shards=kv_shards,
        batch=plan.generate.batch,
        context=context,
        page_tokens=plan.generate.page_tokens,
        buckets=buckets,
        chunk=chunk,
        read=read_sizes(plan, model, vocab_stored),
    )


def _check_divides(name: str, size: int, axes: tuple[str, ...], sizes: Mapping[str, int]) -> None:
    parts = ways(axes, sizes)
    if size % parts:
        raise RenderError(f"{name} {size} does not divide over {'·'.join(axes)} ({parts} ways)")
