"""Plan and address -> why: what binds, what the runner-up costs, what padding and free memory mean."""

from planner.explain.explain import UnknownAddress, addresses, explain
from planner.explain.explanation import Explanation, Subject
from planner.explain.phases import shown_seconds
from planner.explain.text import explanations_to_json, explanations_to_text

__all__ = [
    "Explanation",
    "Subject",
    "UnknownAddress",
    "addresses",
    "explain",
    "explanations_to_json",
    "explanations_to_text",
    "shown_seconds",
]
