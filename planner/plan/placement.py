"""Which part of an array each chip holds under a rule."""

from itertools import product

from planner.plan.records import Mesh
from planner.plan.schema import GenerateRules, PrefillRules

Held = dict[tuple[int, ...], tuple[int, int]]


def parts_held(mesh: Mesh, axes: tuple[str, ...]) -> Held:
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


def cut_by(rules: GenerateRules | PrefillRules, logical: str) -> tuple[str, ...]:
    """The mesh axes that cut a logical axis, those that come with another included: cached sequences lie where theirs
    of the residual stream do, and are cut further."""
    axes: tuple[str, ...] = getattr(rules, logical)
    return (*rules.rows, *axes) if logical == "batch" and isinstance(rules, GenerateRules) else axes
