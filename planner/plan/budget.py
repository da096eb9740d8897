"""What a chip's HBM holds, by item, and what is left of it."""

from planner.plan import records
from planner.plan.chosen import Chosen
from planner.problem import hbm
from planner.problem.build import available_hbm_bytes
from planner.problem.drafts import rows_of
from planner.problem.machine import Machine
from planner.spec import Spec


def hbm_of(spec: Spec, chosen: Chosen) -> records.Hbm:
    """The HBM budget of one chip."""
    sizes, ways, load = chosen.machine.sizes, chosen.machine.ways, chosen.load
    rules, stored = chosen.rules, chosen.rules.generate
    copies = hbm.copies_bytes(rules, sizes, ways)
    weights = hbm.weights_bytes(stored, sizes, ways)
    cache = hbm.kv_cache_bytes(stored, chosen.batch, load.max_context, load.page_tokens, sizes, ways)
    activations = 0
    if chosen.reader is None:
        activations = hbm.prefill_bytes(rules, load.longest, sizes, ways, chosen.prompts, chosen.chunk)
    logits = hbm.logits_bytes(stored, chosen.batch * rows_of(chosen.drafts), sizes, ways)
    held = {"kv_cache": cache, "activations": activations, "logits": logits}
    return budget_of(spec, chosen.machine, weights=weights, copies=copies, **held)


def pool_hbm_of(spec: Spec, reader: Chosen) -> records.Hbm:
    """The HBM budget of one chip of the slices that only read prompts."""
    rules, machine, pipeline = reader.rules, reader.machine, reader.pipeline
    sizes, ways = machine.sizes, machine.ways
    blocks = {name: hbm.block_weights_bytes(name, rules.generate, sizes, ways) for name in sizes.blocks}
    weights = sum(pipeline.kept(name, size) if pipeline else size for name, size in blocks.items())
    held = hbm.prefill_bytes(rules, reader.load.longest, sizes, ways, reader.prompts)
    return budget_of(spec, machine, weights=weights, activations=held)


def budget_of(spec: Spec, machine: Machine, **items: int) -> records.Hbm:
    """The HBM of one chip by item, with what is left of it."""
    total, capacity = sum(items.values()), machine.chip.hbm_bytes
    available = available_hbm_bytes(spec, machine)
    return records.Hbm(
        **{name: items.get(name, 0) for name in ("weights", "kv_cache", "activations", "logits")},
        copies=items.get("copies") or None,
        total=total,
        reserve=capacity - available,
        capacity=capacity,
        available=available,
        free=available - total,
    )
