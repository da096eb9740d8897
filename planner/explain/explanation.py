"""An explanation: an address of the plan, the numbers behind it, and what they mean in sentences."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from planner.explain.limits import Shadows
from planner.plan.build import chosen_of
from planner.plan.machine import machine_of, rules_of, spec_of
from planner.plan.schema import Collective, Generate, Plan, Prefill
from planner.problem.costs import Parts
from planner.problem.machine import Machine
from planner.problem.rules import Rules
from planner.spec import Spec


@dataclass(frozen=True)
class Explanation:
    """What is to be said about one address. `numbers` are in base units: seconds, bytes, operations, tokens."""

    address: str
    sentences: tuple[str, ...]
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A plan with what it was priced from, read back once."""

    plan: Plan
    spec: Spec
    machine: Machine
    rules: Rules
    shadows: Shadows = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, shadows: Shadows | None = None) -> "Subject":
        """The subject that a plan is, with the shadows of its limits where they have been solved for."""
        return cls(plan, spec_of(plan), machine_of(plan), rules_of(plan), shadows or {})

    def phase(self, name: str) -> Prefill | Generate:
        """The phase called `name`."""
        return self.plan.prefill if name == "prefill" else self.plan.generate

    @cached_property
    def at_peak(self) -> Parts:
        """The parts of both steps as if the software lost nothing: their operations and bytes over the chip's rates."""
        machine = replace(self.machine, stack=self.machine.stack.at_peak())
        chosen = replace(chosen_of(self.plan), machine=machine)
        return {**chosen.prefill_parts(), **chosen.generate_parts()}

    def collectives(self) -> tuple[Collective, ...]:
        """The planned collectives of both phases."""
        return self.plan.prefill.collectives + self.plan.generate.collectives
