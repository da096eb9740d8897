"""A side without a plan, in the format that was asked for: a review still gets its comment."""

import json

from planner.diff.markdown import MARKER, escaped
from planner.diff.schema import FORMAT_VERSION
from planner.diff.sides import InfeasibleSide


def infeasible_text(error: InfeasibleSide, style: str) -> str:
    """The message of an infeasible side as text, markdown or JSON."""
    title = f"No feasible plan for {error.side} ({error.path.name})"
    if style == "json":
        data = {"format_version": FORMAT_VERSION, "infeasible": {"side": error.side, "message": error.told}}
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if style == "markdown":
        return f"{MARKER}\n### {escaped(title)}\n\n```text\n{error.told}\n```\n"
    return f"{title}.\n{error.told}\n"
