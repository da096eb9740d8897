"""Plan, Plan -> PlanDiff -> text, Markdown or JSON: numbers, causes, what is forced, and what a policy says."""

from planner.diff.compare import compare
from planner.diff.data import diff_from_json, diff_to_json
from planner.diff.markdown import diff_to_markdown
from planner.diff.request import Request, review
from planner.diff.schema import Change, Number, PlanDiff
from planner.diff.text import diff_to_text

RENDERERS = {"text": diff_to_text, "markdown": diff_to_markdown, "json": diff_to_json}

__all__ = [
    "RENDERERS",
    "Change",
    "Number",
    "PlanDiff",
    "Request",
    "compare",
    "diff_from_json",
    "diff_to_json",
    "diff_to_markdown",
    "diff_to_text",
    "review",
]
