"""Plan and address -> explanations."""

from dataclasses import replace

from planner.errors import ShardwrightError
from planner.explain.collectives import explain_collectives
from planner.explain.explanation import Explanation, Subject
from planner.explain.fleet import explain_fleet
from planner.explain.limits import Shadows
from planner.explain.memory import explain_hbm, explain_item, explain_padding
from planner.explain.parts import explain_part
from planner.explain.phases import explain_phase
from planner.explain.rules import explain_copy, explain_rule
from planner.explain.service import explain_proof, explain_service
from planner.plan.schema import Plan
from planner.spec.nearest import nearest, nearest_few

TOLD_WITH_LIMITS = (None, "hbm", "service")
"""The addresses whose explanation says what the limits are worth."""
PHASES = ("prefill", "generate")


class UnknownAddress(ShardwrightError):
    """No part of the plan has this address; the message suggests the nearest ones."""


def explain(plan: Plan, address: str | None = None, shadows: Shadows | None = None) -> list[Explanation]:
    """What is to be said about `address` and everything below it; about the whole plan without one.

    `shadows`, where they are known, tell what the limits are worth under `hbm` and `service`.
    """
    subject = Subject.of(plan, shadows)
    everything = all_explanations(subject)
    if address is None:
        return [each for each in everything if is_overview(each.address)]
    found = [each for each in everything if each.address == address or each.address.startswith(f"{address}.")]
    if address in PHASES:
        found = [each for each in found if not is_rule(each.address) and not is_collective_only(each, subject)]
    elif address in ("hbm", "pool.hbm"):
        found = [each for each in found if each.address == address]
    if not found:
        raise UnknownAddress(unknown_text(address, addresses(plan)))
    return found


def all_explanations(subject: Subject) -> list[Explanation]:
    """Everything that can be said, in the order of the plan file."""
    found = []
    for name in PHASES:
        there = subject.at(name)
        found.append(explain_phase(there, name))
        found += [explain_rule(there, name, logical) for logical in dict(there.phase(name).rules)]
        found += [explain_copy(subject, block) for block in subject.rules.copies if name == "prefill"]
        found += [explain_part(there, part) for part in there.phase(name).parts]
        listed = dict.fromkeys(each.address for each in there.phase(name).collectives)
        found += [each for each in (explain_collectives(there, address) for address in listed) if each]
    found += explain_slices(subject)
    if subject.plan.pool is not None:
        found += [replace(each, address=f"pool.{each.address}") for each in explain_slices(subject.at("prefill"))]
    fleet = [explain_fleet(subject, subject.plan.fleet)] if subject.plan.fleet else []
    return [*found, *fleet, explain_service(subject), explain_proof(subject)]


def explain_slices(subject: Subject) -> list[Explanation]:
    """Padding and HBM of the slices of a plan."""
    items = [explain_item(subject, item) for item, _ in subject.plan.hbm]
    return [*explain_padding(subject), explain_hbm(subject), *items]


def is_overview(address: str) -> bool:
    """Whether an address is told when none is asked for: whole sections and the paddings, no single parts."""
    return "." not in address or address.startswith(("padding.", "pool.padding.")) or address == "pool.hbm"


def is_rule(address: str) -> bool:
    """Whether an address is a rule's, or a copy's, which the phase tells in its strategies."""
    return ".rules." in address or ".copies." in address


def is_collective_only(each: Explanation, subject: Subject) -> bool:
    """Whether this is about collectives; the parts that wait for them name them already."""
    return "seconds" in each.numbers and "flops" not in each.numbers and "." in each.address


def addresses(plan: Plan) -> list[str]:
    """Every address that can be asked about, with the groups above them."""
    found: dict[str, None] = {}
    for each in all_explanations(Subject.of(plan)):
        parts = each.address.split(".")
        for depth in range(1, len(parts) + 1):
            found[".".join(parts[:depth])] = None
    return list(found)


def unknown_text(address: str, known: list[str]) -> str:
    """What is wrong with an address, and the nearest that are right."""
    close = nearest(address, known)
    hint = f'did you mean "{close}"?' if close else f"the nearest are {', '.join(nearest_few(address, known))}"
    return f'the plan has no "{address}"; {hint}'
