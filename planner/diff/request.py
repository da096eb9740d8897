"""Two names -> the whole difference: read, planned, compared, attributed, judged."""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from planner.diff.compare import compare
from planner.diff.inputs import changed_inputs
from planner.diff.schema import Infeasible, PlanDiff
from planner.diff.sides import Name, Side, read_sides

if TYPE_CHECKING:
    from planner.diff.policy import Policy


@dataclass(frozen=True)
class Request:
    """What `diff` is asked for: both sides by name, changes to specs, whether causes are solved for (None: where a side
    is a spec, which is solved anyway), and a policy with the day that its waivers are read on."""

    base: str
    head: str
    overrides: tuple[str, ...] = ()
    attribute: bool | None = None
    policy: "Policy | None" = None
    today: date = date.min


def review(request: Request) -> PlanDiff:
    """The difference that is asked for."""
    return reviewed(*read_sides(request.base, request.head, request.overrides), request)


def reviewed(base: Side, head: Side, request: Request) -> PlanDiff:
    """The difference of two sides that were read, with its causes and judged where the request asks for that."""
    found = difference(base, head)
    if base.solved or head.solved if request.attribute is None else request.attribute:
        from planner.diff.attribute import attributed

        found = attributed(found, base, head)
    if request.policy is not None:
        from planner.diff.judge import judged

        found = judged(found, request.policy, request.today)
    return found


def difference(base: Side, head: Side) -> PlanDiff:
    """The difference of two sides; where one has no plan, its inputs and why there is none."""
    if base.plan is not None and head.plan is not None:
        return compare(base.plan, head.plan)
    side: Name = "head" if head.plan is None else "base"
    told = (head if head.plan is None else base).message
    return PlanDiff(
        base=base.name,
        head=head.name,
        infeasible=Infeasible(side=side, message=told),
        numbers=(),
        inputs=changed_inputs(base.spec, head.spec),
        changes=(),
        unchanged={},
    )
