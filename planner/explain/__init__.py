"""Plan and address -> why: what binds, what the runner-up costs, what padding, free memory and limits mean.

`why_not` answers what another choice would cost. It and `shadows_of` solve, and import the solver only then.
"""

from planner.explain.explain import TOLD_WITH_LIMITS, UnknownAddress, addresses, explain
from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadows_of
from planner.explain.phases import shown_seconds
from planner.explain.text import explanations_to_json, explanations_to_text

__all__ = [
    "TOLD_WITH_LIMITS",
    "Explanation",
    "Subject",
    "UnknownAddress",
    "addresses",
    "explain",
    "explanations_to_json",
    "explanations_to_text",
    "shadows_of",
    "shown_seconds",
]
