"""A small llama on eight v5e chips, whose programs compile for TPU within a second or two."""

from collections.abc import Sequence
from pathlib import Path

from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import load_spec

SPECS = Path(__file__).parents[2] / "benchmarks" / "specs"


def small_plan(overrides: Sequence[str] = ()) -> Plan:
    """The plan of the small model, with parts of its spec set otherwise."""
    return make_plan(load_spec(SPECS / "small.yaml", overrides))
