"""Whether a change of layout or mesh moves stored bytes."""

from planner.diff.facts import leaves
from planner.plan.placement import parts_held
from planner.plan.schema import Plan

STORED = {
    "d_model": ("weights",),
    "q_heads": ("weights",),
    "rows": ("kv_cache",),
    "kv_heads": ("weights", "kv_cache"),
    "kv_tokens": ("kv_cache",),
    "d_ff": ("weights",),
    "vocab": ("weights",),
    "expert_ff": ("weights",),
    "experts": ("weights",),
    "batch": ("kv_cache",),
}
"""What the generate table stores along each logical axis."""


def moves(base: Plan, head: Plan, logical: str) -> bool:
    """Whether a chip that both plans use holds another part along a stored logical axis."""
    before = parts_held(base.mesh, getattr(base.generate.rules, logical))
    after = parts_held(head.mesh, getattr(head.generate.rules, logical))
    return any(before[chip] != after[chip] for chip in before.keys() & after.keys())


REWRITTEN = {
    "spec.model.weights.dtype": "weights",
    "spec.model.kv_cache.dtype": "kv_cache",
    "dtypes.weights": "weights",
    "dtypes.kv_cache": "kv_cache",
}
"""Inputs and choices that can change the stored bytes themselves."""


def rewritten(base: Plan, head: Plan, address: str) -> str | None:
    """What is stored in another dtype because of a change at `address`: weights, kv_cache or nothing."""
    stored = REWRITTEN.get(address)
    return stored if stored is not None and dtype_of(base, stored) != dtype_of(head, stored) else None


def dtype_of(plan: Plan, stored: str) -> object:
    """The dtype of weights or kv_cache: the one that was taken, or else that of the spec as it is written there."""
    if plan.dtypes is not None:
        return getattr(plan.dtypes, stored)
    return dict(leaves(plan.spec, "spec")).get(f"spec.model.{stored}.dtype")


def resharded(base: Plan, head: Plan, address: str) -> tuple[str, ...]:
    """What must be stored anew because of a change at `address`: `weights`, `kv_cache`, both or nothing."""
    if address in ("chip", "slice"):
        return ("weights", "kv_cache")
    if address in ("pool.slice", "pool.mesh") or address.startswith("prefill.stored."):
        return ("weights",)
    if address.startswith("prefill.copies."):
        # A copy that goes leaves nothing to be stored.
        return ("weights",) if address.split(".")[2] in (head.prefill.copies or {}) else ()
    logical = address.removeprefix("generate.rules.")
    if logical in STORED and moves(base, head, logical):
        return STORED[logical]
    return ()
