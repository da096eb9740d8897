"""A change of a folder of specs -> what it means for each spec that it touches. Only these are solved."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from cost_models.chips import UnknownChip, UnsupportedDtype
from planner.diff.request import Request, reviewed
from planner.diff.sides import Side, Source, read_side, spec_of_source
from planner.errors import InfeasibleSpec, PlanFileError, ShardwrightError
from planner.plan.file import plan_from_yaml
from planner.plan.schema import Plan
from planner.review.current import stale_package, stale_plan, text_of, wanted_plan
from planner.review.files import Changed, Folder, Service, read_folder
from planner.review.schema import ChangeWord, Review, Reviewed
from planner.spec import Lines, Spec, SpecErrors, format_diagnostics, spec_to_data

if TYPE_CHECKING:
    from planner.diff.policy import Policy

Advance = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What a review is asked for: a folder, the revision it is compared with, whether every spec or only touched ones,
    whether plans and packages are only checked, a policy and the day that its waivers are read on, whether causes are
    found, a folder of templates."""

    folder: str = "."
    base: str = "HEAD"
    everything: bool = False
    check: bool = False
    policy: "Policy | None" = None
    today: date = date.min
    attribute: bool = True
    overlay: Path | None = None


def run_review(wanted: Wanted, advance: Advance = lambda spec: None) -> Review:
    """The review of a folder; `advance` is told of each spec before it is solved. Raises CannotRun and PlanFileError.

    What is wrong with one spec stands in its own part of the review.
    """
    folder = read_folder(wanted.folder, wanted.base)
    found = []
    for service in folder.services():
        if wanted.everything or service.touched(folder.changed):
            advance(service.spec)
            found.append(review_of(service, folder.changed, wanted))
    found += [removed(path, folder) for path in folder.removed()]
    return Review(wanted.folder, wanted.base, len(folder.specs), tuple(sorted(found, key=lambda each: each.spec)))


def removed(spec: str, folder: Folder) -> Reviewed:
    """A spec that is gone; a plan that it leaves behind is stale."""
    plan = Service(spec, "", ()).plan
    stale = (f"{plan} is the plan of {spec}, which is gone; remove it",) if plan in folder.files else ()
    return Reviewed(spec, "removed", stale=stale)


def review_of(service: Service, changed: Changed, wanted: Wanted) -> Reviewed:
    """What a change means for one spec."""
    before = None if wanted.check else base_source(service, changed)
    change: ChangeWord = "checked" if wanted.check else "changed" if before else "new"
    try:
        return solved_review(service, change, before, wanted)
    except (SpecErrors, ShardwrightError, UnknownChip, UnsupportedDtype, OSError) as error:
        return Reviewed(service.spec, change, error=told(error))


def solved_review(service: Service, change: ChangeWord, before: Source | None, wanted: Wanted) -> Reviewed:
    """As `review_of`; raises what is wrong with the spec, its plan or a package."""
    committed = committed_plan(service)
    if wanted.check and committed is None:
        return Reviewed(service.spec, change, notes=("No plan or package of it is kept.",))
    spec, lines = spec_of_source(Source(service.spec, text_of(service.spec)), ())
    head = head_side(spec, lines, committed)
    if head.plan is None and wanted.check:
        raise InfeasibleSpec(head.message)
    stale = () if head.plan is None else stale_of(service, head.plan, wanted.overlay)
    if wanted.check:
        return Reviewed(service.spec, change, stale=stale)
    base, notes = base_side(before, head)
    asked = Request("", "", attribute=wanted.attribute and base is not head, policy=wanted.policy, today=wanted.today)
    change = change if base is not head else "new"
    return Reviewed(service.spec, change, reviewed(base, head, asked), stale, notes)


def head_side(spec: Spec, lines: Lines, committed: Plan | None) -> Side:
    """The spec as it is now with the plan that it should have, or why there is none."""
    try:
        plan = wanted_plan(spec, lines, committed)
    except InfeasibleSpec as error:
        return Side(spec_to_data(spec), None, solved=True, message=str(error))
    return Side(plan.spec, plan, solved=True)


def committed_plan(service: Service) -> Plan | None:
    """The plan that is kept, beside the spec or in a package; raises PlanFileError."""
    path = next((each for each in service.plans() if Path(each).exists()), None)
    return None if path is None else plan_from_yaml(text_of(path), path)


def stale_of(service: Service, plan: Plan, overlay: Path | None) -> tuple[str, ...]:
    """Sentences of what is kept and is not what it should be."""
    told = [stale_plan(service.plan, service.spec, plan)] if Path(service.plan).exists() else []
    named = service.plan if told else "PLAN"
    told += [stale_package(each, named, plan, overlay) for each in service.packages]
    return tuple(each for each in told if each)


def base_side(before: Source | None, head: Side) -> tuple[Side, tuple[str, ...]]:
    """What is compared with, and a note where the base has a spec that cannot be planned today. That is as good as new:
    head is compared with itself, so that only bounds of a policy can be broken."""
    if before is None:
        return head, ()
    try:
        return read_side(before, ()), ()
    except (SpecErrors, ShardwrightError, UnknownChip, UnsupportedDtype) as error:
        return head, (f"Nothing to compare with: {told(error).splitlines()[0]}",)


def base_source(service: Service, changed: Changed) -> Source | None:
    """What a spec is compared with: the plan that the base keeps, where that can be read, else its spec; None for a new
    one."""
    text = changed.text(service.spec)
    if text is None:
        return None
    for path in Service(changed.was(service.spec), text, service.packages).plans():
        kept = changed.text(path)
        if kept is not None and readable(kept):
            return Source(changed.source(path), kept, in_git=True)
    return Source(changed.source(service.spec), text, in_git=True)


def readable(plan: str) -> bool:
    """Whether a plan of the base is of today's format."""
    try:
        plan_from_yaml(plan, "base")
    except PlanFileError:
        return False
    return True


def told(error: Exception) -> str:
    """An error as the other commands print it."""
    if isinstance(error, SpecErrors):
        return format_diagnostics(error.diagnostics)
    if isinstance(error, ShardwrightError):
        return f"{error.heading}: {error}"
    if isinstance(error, OSError):
        return f"error: {error.filename or ''}: {error.strerror or error}"
    return f"error: {error.args[0]}"
