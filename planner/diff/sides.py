"""What `diff` is asked to compare: each side a plan, or a spec that is planned; a file, or a file of a git revision."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from planner.diff.revision import HINT, beside, is_revision, text_at
from planner.errors import InfeasibleSpec, PlanFileError
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.schema import Plan

if TYPE_CHECKING:
    from planner.spec import Lines, Spec

Name = Literal["base", "head"]

PLAN_KEY = re.compile(r"""^(?:\{?\s*["'])?format_version["']?\s*:""", re.MULTILINE)
CONFIG = re.compile(r"""\bconfig["']?:\s*["']?([^"'\s,}#]+)""")


@dataclass(frozen=True)
class Source:
    """One side as it is named, its text, and whether it is a file of a git revision."""

    name: str
    text: str
    in_git: bool = False

    @cached_property
    def is_plan(self) -> bool:
        """Whether it holds a plan: it has a `format_version`, where a spec has a `version`."""
        return PLAN_KEY.search(self.text) is not None


@dataclass(frozen=True)
class Side:
    """A plan, or the spec that has none and why; `solved` where today's solver has just made it."""

    spec: dict[str, object]
    plan: Plan | None
    solved: bool
    message: str = ""

    @property
    def name(self) -> str:
        """What the spec calls itself."""
        return str(self.spec.get("name", ""))


def read_sides(base: str, head: str, overrides: Sequence[str]) -> tuple[Side, Side]:
    """Both sides; overrides apply to specs, and are an error when there is none. Equal specs are solved once."""
    before, after = read_source(base), read_source(head)
    if overrides and before.is_plan and after.is_plan:
        raise PlanFileError(f"--set changes a spec, and both {base} and {head} are plans; plan a spec instead")
    first = read_side(before, overrides)
    return first, read_side(after, overrides, first)


def read_source(name: str) -> Source:
    """The text of a side; raises PlanFileError."""
    path = Path(name)
    if not path.exists() and is_revision(name):
        return Source(name, text_at(name), in_git=True)
    try:
        return Source(name, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        hint = "" if path.exists() else f"; {HINT}"
        raise PlanFileError(f"{name}: cannot be read: {reason}{hint}") from None


def read_side(source: Source, overrides: Sequence[str], known: Side | None = None) -> Side:
    """The plan of a side, or the plan of the spec there, as its file would hold it; that of `known` for an equal
    spec."""
    if source.is_plan:
        plan = plan_from_yaml(source.text, source.name)
        return Side(plan.spec, plan, solved=False)
    from planner.plan.make import make_plan
    from planner.spec import spec_to_data

    spec, lines = spec_of_source(source, overrides)
    data = spec_to_data(spec)
    if known is not None and known.solved and known.plan is not None and known.spec == data:
        return known
    try:
        plan = make_plan(spec, lines)
    except InfeasibleSpec as error:
        return Side(data, None, solved=True, message=str(error))
    return Side(data, plan_from_yaml(plan_to_yaml(plan), source.name), solved=True)


def spec_of_source(source: Source, overrides: Sequence[str]) -> tuple["Spec", "Lines"]:
    """The spec of a side; one of a git revision finds its `model.config` in that revision."""
    from planner.spec import text_with_lines

    if not source.in_git:
        return text_with_lines(source.text, source.name, Path(source.name).parent, overrides)
    with TemporaryDirectory() as folder:
        configs = [each for each in CONFIG.findall(source.text) if not Path(each).is_absolute()]
        # As deep as any path goes up, so that every file stays inside the folder.
        spec_folder = Path(folder, *["at"] * (1 + max((each.count("..") for each in configs), default=0)))
        for config in configs:
            text = beside(source.name, config)
            if text is not None:
                place = spec_folder / config
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
        return text_with_lines(source.text, source.name, spec_folder, overrides)
