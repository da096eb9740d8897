"""The experts of a mixture: which rows and experts a chip has, and the collectives around them.

Rows of the residual stream that are cut over an axis of `experts` go to their experts by all-to-all, and back; where
every chip has the rows, it computes those of its own experts and the outputs are summed. The busiest chip is charged:
rows and experts are the expected largest, by the formulas of `cost_models.moe`.
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from cost_models.moe import busiest_load, imbalance
from planner.problem.primitives import (
    FLOAT32,
    Collective,
    Program,
    all_reduce,
    all_to_all,
    gathers,
    hidden,
    residual_bytes,
    row_reduction,
    scale_gathers,
)
from planner.problem.rules import Axes, GenerateRules, PrefillRules, Ways, common, padded_width, without
from planner.problem.sizes import Sizes


class Routed(NamedTuple):
    """The rows of one chip: its own of the residual stream, those it has after the gather, and its experts' share."""

    own: int
    gathered: int
    over_ff: Axes
    """Axes over which rows are gathered, and outputs scattered."""
    sent_over: Axes
    """Axes over which rows go to their experts by all-to-all."""
    sent: float
    """Rows in the all-to-all, of each chip, as much as the busiest takes in."""
    rows: float
    """Rows of the busiest chip's experts, a token's counted once for each of its experts there."""
    read: float
    """Experts that the busiest chip reads."""


def routed(cut: Axes, rules: GenerateRules | PrefillRules, rows: int, sizes: Sizes, ways: Ways) -> Routed:
    """What one chip has of `rows` of the residual stream that are cut over `cut`."""
    experts, over_ff, sent_over = sizes.experts, common(cut, rules.expert_ff), common(cut, rules.experts)
    own, shards = rows // ways(cut), ways(rules.experts)
    gathered, per_token = own * ways(over_ff), experts.experts_per_token
    together = gathered * ways(sent_over)
    found, read = busiest_load(together, experts.experts, per_token, shards)
    most = imbalance(together, per_token, shards)
    copies = min(per_token * ways(sent_over) / shards, ways(sent_over)) * most
    return Routed(own, gathered, over_ff, sent_over, gathered * copies, found, read)


def generate_experts(rules: GenerateRules, batch: int, program: Program) -> Iterator[Collective]:
    """Collectives of the experts in one generate step; none without a mixture."""
    if program.sizes.mixture:
        yield from experts_step("generate", rules, rules.rows, rules, batch, program)


def prefill_experts(
    stored: GenerateRules, rules: PrefillRules, tokens: int, program: Program, prompts: int = 1
) -> Iterator[Collective]:
    """Collectives of the experts in the prefill of `prompts` of `tokens` each; none without a mixture."""
    if program.sizes.mixture:
        yield from experts_step("prefill", stored, rules.tokens, rules, prompts * tokens, program)


def experts_step(
    phase: str, stored: GenerateRules, cut: Axes, rules: GenerateRules | PrefillRules, rows: int, program: Program
) -> Iterator[Collective]:
    """Collectives of the experts for `rows` of the residual stream that are cut over `cut`, in all sparse layers."""
    sizes, ways, layers = program.sizes, program.ways, program.sizes.sparse_layers
    at, has = f"{phase}.experts", routed(cut, rules, rows, sizes, ways)
    row_bytes = residual_bytes(1, rules, program)
    yield from all_reduce(f"{at}.norm", rules.d_model, has.own * FLOAT32, layers, ways)
    together = "rows" if phase == "generate" else "tokens"
    yield from gathers(f"{at}.{together}", has.over_ff, has.gathered * row_bytes, layers, ways)
    yield from all_reduce(f"{at}.router", rules.d_model, has.gathered * sizes.experts.experts * FLOAT32, layers, ways)
    yield from all_to_all(f"{at}.dispatch", has.sent_over, has.sent * row_bytes, layers, ways)
    if isinstance(rules, PrefillRules):
        yield from expert_weights(stored, rules, program)
    columns = expert_columns(stored, rules, sizes, ways)
    yield from hidden(at, rules.d_model, ceil(has.rows), columns, layers, program)
    yield from all_to_all(f"{at}.combine", has.sent_over, has.sent * row_bytes, layers, ways)
    rest = without(rules.expert_ff, has.over_ff) + without(rules.experts, has.sent_over)
    yield from row_reduction(f"{at}.out", has.over_ff, rest, has.gathered, row_bytes, layers, program)


def expert_columns(stored: GenerateRules, rules: GenerateRules | PrefillRules, sizes: Sizes, ways: Ways) -> float:
    """Hidden columns of each expert on one chip where it computes, padding included."""
    return padded_width(sizes.experts.d_ff, ways(stored.expert_ff)) / ways(rules.expert_ff)


def expert_weights(stored: GenerateRules, rules: PrefillRules, program: Program) -> Iterator[Collective]:
    """Gathers of the experts' weights and of the router over the axes that prefill does not compute on."""
    sizes, ways, layers = program.sizes, program.ways, program.sizes.sparse_layers
    over_d, over_f = without(stored.d_model, rules.d_model), without(stored.expert_ff, rules.expert_ff)
    over_e, experts = without(stored.experts, rules.experts), sizes.experts.experts / ways(rules.experts)
    width, columns = sizes.d_model / ways(rules.d_model), expert_columns(stored, rules, sizes, ways)
    router = width * sizes.experts.experts * sizes.weight_bytes
    yield from gathers("prefill.experts.gather_w_router", over_d, router, layers, ways)
    made = sizes.inputs * columns
    for name, cut, scale_axes, scales in (("w_in", made, over_f, made), ("w_down", columns, over_d, width)):
        at = f"prefill.experts.gather_{name}"
        weight = experts * cut * width * sizes.weight_bytes
        yield from gathers(at, over_e + over_f + over_d, weight, layers, ways)
        yield from scale_gathers(f"{at}_scale", over_e + scale_axes, experts * scales, layers, program)
