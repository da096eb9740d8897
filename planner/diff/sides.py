"""What `diff` is asked to compare: each side is a plan file, or a spec that is planned first."""

import re
from collections.abc import Sequence
from pathlib import Path

from planner.errors import InfeasibleSpec, PlanFileError
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import load_with_lines

PLAN_KEY = re.compile(r"""^(?:\{?\s*["'])?format_version["']?\s*:""", re.MULTILINE)


class InfeasibleSide(InfeasibleSpec):
    """One side is a spec without a feasible plan."""

    def __init__(self, side: str, path: Path, message: str) -> None:
        self.side = side
        self.path = path
        self.told = message
        super().__init__(f"{side} {path}: {message}")


def read_sides(base: Path, head: Path, overrides: Sequence[str]) -> tuple[Plan, Plan]:
    """Both plans; overrides apply to specs, and are an error when there is none."""
    sides = (("base", base), ("head", head))
    if overrides and all(is_plan(path) for _, path in sides):
        raise PlanFileError(f"--set changes a spec, and both {base} and {head} are plans; plan a spec instead")
    before, after = (read_side(side, path, overrides) for side, path in sides)
    return before, after


def read_side(side: str, path: Path, overrides: Sequence[str]) -> Plan:
    """The plan at `path`, or the plan of the spec there, as its file would hold it."""
    if is_plan(path):
        return plan_from_yaml(text_of(path), str(path))
    try:
        plan = make_plan(*load_with_lines(path, overrides))
    except InfeasibleSpec as error:
        raise InfeasibleSide(side, path, str(error)) from None
    return plan_from_yaml(plan_to_yaml(plan), str(path))


def is_plan(path: Path) -> bool:
    """Whether a file holds a plan: it has a `format_version`, where a spec has a `version`."""
    return PLAN_KEY.search(text_of(path)) is not None


def text_of(path: Path) -> str:
    """The text of a file; raises PlanFileError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PlanFileError(f"{path}: cannot be read: {reason}") from None
