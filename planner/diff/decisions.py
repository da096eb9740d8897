"""What the solver decides, in the words of a plan: slices, meshes, batches, and the strategy of each block."""

from collections.abc import Mapping

from pydantic import JsonValue

from planner.diff.facts import PHASES, choices, phase_of
from planner.diff.inputs import UNSOLVED
from planner.diff.schema import CATALOGUE, Attribution, Decision, How, Input
from planner.plan.schema import Plan

Decided = dict[str, str]

FOLLOWS = ("mesh.chips", "pool.mesh.chips", "fleet.mode", "fleet.chips")
"""Choices that say nothing which another does not say."""


def decided(plan: Plan) -> Decided:
    """Address -> what was decided there, in words."""
    found = {address: words(value) for address, value in choices(plan).items() if address not in FOLLOWS}
    for name in PHASES:
        for block, strategy in phase_of(plan, name).strategy:
            found[f"{name}.{block}"] = strategy
    if plan.fleet is not None:
        found["serving"] = plan.fleet.mode
    return found


def words(value: JsonValue) -> str:
    """A choice as people read it."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def decisions(base: Plan, head: Plan, inputs: tuple[Input, ...]) -> tuple[Attribution, tuple[Decision, ...]]:
    """What is decided otherwise, with its cause where that is plain without solving anything."""
    before, after = decided(base), decided(head)
    attribution, causes, how = plain_cause(inputs)
    found = tuple(
        Decision(address=address, base=before.get(address, ""), head=after.get(address, ""), causes=causes, how=how)
        for address in different(before, after)
    )
    return attribution, found


def different(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The addresses whose values differ, in the order of a plan."""
    return [each for each in {**before, **after} if before.get(each) != after.get(each)]


def plain_cause(inputs: tuple[Input, ...]) -> tuple[Attribution, tuple[str, ...], How]:
    """The cause of every decision where one input changed, or none did."""
    able = [each.address for each in inputs if each.address not in UNSOLVED]
    if not able:
        return "no_input", (CATALOGUE,), "catalogue"
    if len(able) == 1:
        return "only_input", tuple(able), "only_input"
    return "not_asked", (), "unknown"
