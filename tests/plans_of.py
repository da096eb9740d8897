"""Real plans of the specs in `tests/specs`, made once a session and shared; as their files would hold them."""

from functools import cache
from pathlib import Path

from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import load_spec

SPECS = Path(__file__).resolve().parent / "specs"


@cache
def example_plan(name: str, *overrides: str) -> Plan:
    """The plan of `tests/specs/NAME.yaml` with some `--set` overrides."""
    plan = make_plan(load_spec(SPECS / f"{name}.yaml", overrides))
    return plan_from_yaml(plan_to_yaml(plan), name)
