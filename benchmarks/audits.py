"""The plans that are audited, read from specs/audits.yaml."""

from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import load_spec

SPECS = Path(__file__).resolve().parent / "specs"
EXAMPLES = SPECS.parents[1] / "docs" / "examples"


@dataclass(frozen=True)
class Case:
    """A plan to audit: a spec, and parts of it that are set otherwise."""

    name: str
    spec: str
    set: tuple[str, ...] = ()

    def plan(self) -> Plan:
        """The plan."""
        folder = SPECS if (SPECS / self.spec).exists() else EXAMPLES
        return make_plan(load_spec(folder / self.spec, self.set))


def cases(group: str) -> list[Case]:
    """The cases of a group, `small` or `large`."""
    listed = YAML(typ="safe").load(SPECS / "audits.yaml")[group]
    return [Case(name, found["spec"], tuple(found.get("set", ()))) for name, found in listed.items()]
