"""What a change forces on a running service, and the order in which it is brought into service."""

from collections.abc import Iterable, Iterator

from planner.diff.placement import dtype_of
from planner.diff.schema import (
    RESHARDS_KV_CACHE,
    RESHARDS_WEIGHTS,
    REWRITES_KV_CACHE,
    REWRITES_WEIGHTS,
    Change,
    Forced,
    Input,
)
from planner.plan.schema import Plan

COUNTED = ("fleet.", "padding.")
"""Choices that another number of slices has, and the programs of a slice do not."""
CACHE = ("order", "page_tokens", "kv_heads", "head_dim", "stored", "scales")
"""What two chips must agree on to read each other's pages."""


def forced(base: Plan, head: Plan, changes: Iterable[Change], inputs: Iterable[Input]) -> Iterator[Forced]:
    """Everything that is forced, weights first."""
    listed = tuple(changes)
    reasons = {reason for change in listed for reason in change.reasons}
    replaced = any(each.address == "model" for each in inputs)
    yield from weights_forced(base, head, reasons, replaced)
    drops = replaced or cache_differs(base, head, reasons)
    if drops:
        told = "KV caches of running servers do not fit: no sequence can be carried over, prefix caches start empty"
        yield Forced(force="drop_kv_cache", text=told)
    if replaced or any(is_program(change) for change in listed):
        yield Forced(
            force="recompile", text="the programs change: render the package anew; servers compile when they start"
        )
    yield from chips_forced(base, head)
    if drops and base.pool is not None and head.pool is not None:
        told = "prefill and generate slices must be replaced together: old ones cannot hand keys and values to new"
        yield Forced(force="redeploy_together", text=told)


def weights_forced(base: Plan, head: Plan, reasons: set[str], replaced: bool) -> Iterator[Forced]:
    """What becomes of the weights that servers hold."""
    if replaced:
        yield Forced(force="replace_model", text="the weights are those of another model: it needs its own checkpoint")
        return
    if REWRITES_WEIGHTS in reasons:
        before, after = dtype_of(base, "weights"), dtype_of(head, "weights")
        told = f"weights are kept as {after} instead of {before}: servers read the checkpoint anew and convert it"
        yield Forced(force="rewrite_weights", text=told)
    if RESHARDS_WEIGHTS in reasons:
        told = "weights must be resharded: chips hold other parts of them, so servers load the checkpoint anew"
        yield Forced(force="reshard_weights", text=told)


def cache_differs(base: Plan, head: Plan, reasons: set[str]) -> bool:
    """Whether the pages of one plan cannot be read by the other."""
    if reasons & {RESHARDS_KV_CACHE, REWRITES_KV_CACHE} or base.generate.page_tokens != head.generate.page_tokens:
        return True
    before, after = base.generate.kv_layout, head.generate.kv_layout
    if before is None or after is None:
        return False
    return any(getattr(before, key) != getattr(after, key) for key in CACHE)


def is_program(change: Change) -> bool:
    """Whether a change is one of the compiled programs: shapes, layouts, collectives, dtypes."""
    if change.kind in ("choice", "layout", "collective"):
        return not change.address.startswith(COUNTED)
    return change.kind == "input" and change.address.startswith("spec.model.")


def chips_forced(base: Plan, head: Plan) -> Iterator[Forced]:
    """Slices that must be had, and chips that come or go."""
    before, after = machines(base), machines(head)
    if before != after:
        yield Forced(force="other_slices", text=f"it runs on {after} instead of {before}")
    more = head.chips - base.chips
    if more > 0:
        yield Forced(force="more_chips", text=f"{more} more chips are needed: {base.chips} -> {head.chips}")
    elif more < 0:
        yield Forced(force="fewer_chips", text=f"{-more} chips become free: {base.chips} -> {head.chips}")


def machines(plan: Plan) -> str:
    """The slices of a plan in words, without their number."""
    if plan.pool is not None:
        return f"{plan.chip} slices of {plan.pool.slice} for prefill and {plan.slice} for generate"
    return f"{plan.chip} slices of {plan.slice}"


def deployment(base: Plan, head: Plan, forces: frozenset[str]) -> Iterator[str]:
    """The steps that bring head into service while base serves, in order; none where base does what head says."""
    if not forces:
        return
    if "recompile" not in forces:
        yield f"{'Add' if head.chips > base.chips else 'Drain and stop'} slices with the package that runs today."
        return
    if forces & {"replace_model", "rewrite_weights"}:
        yield "Have the checkpoint ready where servers load it."
    yield "Render the package from the new plan (shardwright render) and check it (shardwright verify)."
    spare = slice_chips(head)
    at_once = f" ({head.chips} to switch at once)" if head.chips > spare else ""
    yield f"Have {spare} chips free beside those that serve{at_once}, or take the service down meanwhile."
    what = (
        "prefill and generate slices of the new plan together"
        if head.pool is not None
        else "servers of the new package"
    )
    yield f"Start {what}; send new requests to them."
    yield "Let the old servers finish what they have, then stop them."


def slice_chips(plan: Plan) -> int:
    """Chips of one slice of each phase."""
    return len(plan.mesh.chips) + (len(plan.pool.mesh.chips) if plan.pool else 0)
