"""A small llama on eight v5e chips, whose programs compile for TPU within seconds."""

from collections.abc import Sequence

from benchmarks.audits import Case
from planner.plan.schema import Plan


def small_plan(overrides: Sequence[str] = ()) -> Plan:
    """The plan of the small model, with parts of its spec set otherwise."""
    return Case("small", "small.yaml", tuple(overrides)).plan()
