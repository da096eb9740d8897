"""An explanation: an address of the plan, the numbers behind it, and what they mean in sentences."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from planner.explain.limits import Shadows
from planner.plan.chosen import Chosen, chosen_of
from planner.plan.machine import machine_of, prefill_rules_of, rules_of, spec_of
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
    whole: Plan | None = None
    """The plan with the slices of both phases, where this is of one phase's."""

    @classmethod
    def of(cls, plan: Plan, shadows: Shadows | None = None) -> "Subject":
        """The subject that a plan is, with the shadows of its limits where they have been solved for."""
        return cls(plan, spec_of(plan), machine_of(plan), rules_of(plan), shadows or {})

    def at(self, phase: str) -> "Subject":
        """The same with the slices that a phase runs on: their plan, machine, and how weights are stored there."""
        if self.plan.pool is None or phase != "prefill":
            return self
        there = self.plan.at(phase)
        return replace(self, plan=there, machine=machine_of(there), rules=prefill_rules_of(self.plan), whole=self.plan)

    def phase(self, name: str) -> Prefill | Generate:
        """The phase called `name`."""
        return self.plan.prefill if name == "prefill" else self.plan.generate

    @cached_property
    def at_peak(self) -> Parts:
        """The parts of both steps as if the software lost nothing: their operations and bytes over the chip's rates."""
        reads, makes = self.chosen.reads, self.chosen
        reader = replace(reads, machine=at_peak(reads.machine), reader=None)
        return {**reader.prefill_parts(), **replace(makes, machine=at_peak(makes.machine)).generate_parts()}

    @cached_property
    def chosen(self) -> Chosen:
        """What the plan chose, to be priced again."""
        return chosen_of(self.whole or self.plan)

    def collectives(self) -> tuple[Collective, ...]:
        """The planned collectives of both phases."""
        return self.plan.prefill.collectives + self.plan.generate.collectives


def at_peak(machine: Machine) -> Machine:
    """The machine as if its software lost nothing."""
    return replace(machine, stack=machine.stack.at_peak())
