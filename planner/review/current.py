"""Whether a committed plan is what its spec plans to today, and a package what that plan renders to; in sentences."""

from dataclasses import replace
from pathlib import Path

from planner.diff import compare
from planner.diff.sentences import headline
from planner.errors import PlanFileError
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.make import make_plan, plan_of, solve_spec
from planner.plan.near import Earlier
from planner.plan.schema import Plan
from planner.render import Drift, check_package
from planner.spec import Lines, Spec, spec_to_data

MOST_NAMED = 3
"""Files of a package that a sentence names."""


def wanted_plan(spec: Spec, lines: Lines, committed: Plan | None) -> Plan:
    """The plan that a spec should have today, as its file would hold it; raises as `make_plan` does.

    A plan that was made near an earlier one is right as long as it is the one nearest to itself within its tolerance.
    """
    near = None if committed is None else committed.proof.near
    if committed is None or near is None or not same_spec(spec, committed):
        return as_filed(make_plan(spec, lines))
    earlier = Earlier.of(committed, near.plan, near.within)
    offered = committed.generate.model_copy(update={"batch": near.batch})
    solved = solve_spec(spec, replace(earlier, plan=committed.model_copy(update={"generate": offered})))
    plan = plan_of(solved, earlier, lines)
    proof = committed.proof.model_copy(update={"value": plan.proof.value, "bound": plan.proof.bound})
    return as_filed(plan.model_copy(update={"proof": proof}))


def same_spec(spec: Spec, plan: Plan) -> bool:
    """Whether a plan is one of this very spec."""
    return plan.spec == as_filed(plan.model_copy(update={"spec": spec_to_data(spec)})).spec


def as_filed(plan: Plan) -> Plan:
    """A plan with the digits that its file has."""
    return plan_from_yaml(plan_to_yaml(plan), plan.name)


def stale_plan(path: str, spec: str, wanted: Plan) -> str:
    """What is stale of a plan file; nothing where it is current. Raises PlanFileError."""
    text = text_of(path)
    if text == plan_to_yaml(wanted):
        return ""
    found = compare(plan_from_yaml(text, path), wanted)
    told = f"what it plans to today: {lowered(headline(found))}" if found.changes else "only written otherwise"
    near = f" --near {path}" if wanted.proof.near else ""
    return f"{path} is not the plan of {spec}: {told}; shardwright plan {spec}{near} -o {path}"


def text_of(path: str) -> str:
    """The text of a file; raises PlanFileError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PlanFileError(f"{path}: cannot be read: {reason}") from None


def stale_package(package: str, plan: str, wanted: Plan, overlay: Path | None) -> str:
    """What is stale of a package; nothing where it is current. Raises RenderError and Unsupported."""
    drift = check_package(wanted, Path(package), overlay)
    over = "" if overlay is None else f" --overlay {overlay}"
    command = f"shardwright render {plan} -o {package}{over}"
    return f"{package} is not what the plan renders to: {', '.join(differing(drift))}; {command}" if drift else ""


def differing(drift: Drift) -> list[str]:
    """`2 changed (a.py, b.py)`, and as much of missing and extra files."""
    kinds = (("changed", drift.changed), ("missing", drift.missing), ("extra", drift.extra))
    return [f"{len(names)} {word} ({named(names)})" for word, names in kinds if names]


def named(names: tuple[str, ...]) -> str:
    """The first names, and that there are more."""
    return ", ".join((*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])))


def lowered(sentence: str) -> str:
    """A sentence as part of another."""
    return sentence[:1].lower() + sentence[1:]
