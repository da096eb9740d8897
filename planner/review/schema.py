"""What a review finds."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from planner.diff.schema import PlanDiff

ChangeWord = Literal["new", "changed", "removed", "checked"]
Verdict = Literal["error", "no plan", "policy broken", "stale", "fine"]
VERDICTS: tuple[Verdict, ...] = ("error", "no plan", "policy broken", "stale", "fine")
"""The worst first."""
ERRORS = ("error", "no plan")


@dataclass(frozen=True)
class Reviewed:
    """One spec: what happened to it, its difference where it was compared, sentences of what is stale, of what else is
    to be known, and why it could not be reviewed."""

    spec: str
    change: ChangeWord
    diff: PlanDiff | None = None
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst that is to be said of it."""
        if self.error:
            return "error"
        if self.diff is not None and self.diff.infeasible is not None and self.diff.infeasible.side == "head":
            return "no plan"
        if self.diff is not None and self.diff.policy is not None and self.diff.policy.broken:
            return "policy broken"
        return "stale" if self.stale else "fine"


@dataclass(frozen=True)
class Review:
    """The specs of a folder that a change touches, the revision compared with, and how many specs there are."""

    folder: str
    base: str
    specs: int
    reviewed: tuple[Reviewed, ...]

    @property
    def exit_code(self) -> int:
        """0 when all is fine, 1 when a policy is broken or something is stale, 2 when a spec has an error or no plan.

        Unlike `diff` it has no code of its own for no plan: of several specs only the worst is told."""
        words = {each.verdict for each in self.reviewed}
        return 2 if words & set(ERRORS) else 1 if words - {"fine"} else 0

    def counts(self) -> tuple[tuple[Verdict, int], ...]:
        """How many specs have each verdict, the worst first."""
        found = Counter(each.verdict for each in self.reviewed)
        return tuple((word, found[word]) for word in VERDICTS if found[word])
