"""Which part of an array each chip holds: whether a change of layout or mesh moves stored bytes."""

from itertools import product

from planner.plan.schema import Mesh, Plan

STORED = {
    "d_model": ("weights",),
    "q_heads": ("weights",),
    "kv_heads": ("weights", "kv_cache"),
    "d_ff": ("weights",),
    "vocab": ("weights",),
    "batch": ("kv_cache",),
}
"""What the generate table stores along each logical axis."""


def parts_held(mesh: Mesh, axes: tuple[str, ...]) -> dict[tuple[int, ...], tuple[int, int]]:
    """Chip -> (which part, of how many) when an array is cut over `axes`, major first."""
    held = {}
    places = product(*(range(axis.size) for axis in mesh.axes))
    for place, chip in zip(places, mesh.chips, strict=True):
        position = {axis.name: (index, axis.size) for axis, index in zip(mesh.axes, place, strict=True)}
        part, ways = 0, 1
        for name in axes:
            index, size = position[name]
            part, ways = part * size + index, ways * size
        held[chip] = (part, ways)
    return held


def moves(base: Plan, head: Plan, logical: str) -> bool:
    """Whether a chip that both plans use holds another part along a stored logical axis."""
    before = parts_held(base.mesh, getattr(base.generate.rules, logical))
    after = parts_held(head.mesh, getattr(head.generate.rules, logical))
    return any(before[chip] != after[chip] for chip in before.keys() & after.keys())


REWRITTEN = {"spec.model.weights.dtype": "weights", "spec.model.kv_cache.dtype": "kv_cache"}
"""Inputs that change the stored bytes themselves."""


def resharded(base: Plan, head: Plan, address: str) -> tuple[str, ...]:
    """What must be stored anew because of a change at `address`: `weights`, `kv_cache`, both or nothing."""
    if address in ("chip", "slice"):
        return ("weights", "kv_cache")
    logical = address.removeprefix("generate.rules.")
    if logical in STORED and moves(base, head, logical):
        return STORED[logical]
    return ()
