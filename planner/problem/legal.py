"""What a mesh may cut: heads, d_model, d_ff, experts, tokens, sequences. Legality is judged on whole heads, experts,
lanes and rows."""

from planner.problem.machine import Machine
from planner.problem.rules import GenerateRules, PrefillRules, copied_kv

LANES = 128


def legal_heads(rules: GenerateRules, machine: Machine) -> bool:
    """Whether heads can be cut this way.

    A KV shard holds whole heads and at most half of the shards' heads are padding; a copied KV shard holds one head, so
    that the query heads split over its copies all read it.
    """
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(rules, ways)
    return heads.kv_padded < 2 * sizes.kv_heads and (not copied_kv(rules) or heads.kv_local == 1)


def legal_d_model(rules: GenerateRules, machine: Machine) -> bool:
    """Whether d_model divides; on a TPU each part is whole lanes, since a narrower one is padded to them anyway."""
    ways = machine.ways(rules.d_model)
    lanes = LANES if machine.chip.kind == "tpu" and ways > 1 else 1
    return machine.sizes.d_model % (ways * lanes) == 0


def legal_d_ff(rules: GenerateRules, machine: Machine) -> bool:
    """Whether d_ff, of every MLP, can be cut this way without more padding than it has columns in one part."""
    return all(legal_width(each.d_ff, machine.ways(rules.d_ff), machine) for each in machine.sizes.mlps)


def legal_width(width: int, ways: int, machine: Machine) -> bool:
    """Whether hidden columns are enough for so many parts, on a TPU of whole lanes."""
    lanes = LANES if machine.chip.kind == "tpu" and ways > 1 else 1
    return width >= ways * lanes


def legal_expert_ff(rules: GenerateRules, machine: Machine) -> bool:
    """Whether the hidden columns of every expert can be cut this way."""
    return legal_width(machine.sizes.experts.d_ff, machine.ways(rules.expert_ff), machine)


def legal_experts(rules: GenerateRules, machine: Machine) -> bool:
    """Whether experts can be cut this way: every chip holds as many whole ones."""
    return machine.sizes.experts.experts % machine.ways(rules.experts) == 0


def legal_batch(rules: GenerateRules, batch: int, machine: Machine) -> bool:
    """Whether sequences are cut evenly, those of the residual stream and those of the KV cache."""
    return batch % machine.ways(rules.rows + rules.batch) == 0


def divides(tokens: int, rules: PrefillRules, machine: Machine) -> bool:
    """Whether a prompt of `tokens` is cut evenly, by the token axes and where rows are scattered over d_model axes."""
    return tokens % machine.ways(rules.tokens + rules.d_model) == 0
