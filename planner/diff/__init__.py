"""Plan, Plan -> PlanDiff -> text, Markdown or JSON."""

from planner.diff.compare import compare
from planner.diff.data import diff_from_json, diff_to_json
from planner.diff.infeasible import infeasible_text
from planner.diff.markdown import diff_to_markdown
from planner.diff.schema import Change, Number, PlanDiff
from planner.diff.sides import InfeasibleSide, read_side, read_sides
from planner.diff.text import diff_to_text

RENDERERS = {"text": diff_to_text, "markdown": diff_to_markdown, "json": diff_to_json}

__all__ = [
    "RENDERERS",
    "Change",
    "InfeasibleSide",
    "Number",
    "PlanDiff",
    "compare",
    "diff_from_json",
    "diff_to_json",
    "diff_to_markdown",
    "diff_to_text",
    "infeasible_text",
    "read_side",
    "read_sides",
]
