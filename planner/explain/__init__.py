"""Plan and address -> why: what binds, what limits are worth, what another choice would cost, why there is padding."""

from planner.explain.explain import TOLD_WITH_LIMITS, UnknownAddress, addresses, explain
from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadows_of
from planner.explain.phases import shown_seconds
from planner.explain.text import explanations_to_json, explanations_to_text
from planner.explain.why_not import Answer, why_not
from planner.explain.why_not_text import answers_to_json, answers_to_text

__all__ = [
    "TOLD_WITH_LIMITS",
    "Answer",
    "Explanation",
    "Subject",
    "UnknownAddress",
    "addresses",
    "answers_to_json",
    "answers_to_text",
    "explain",
    "explanations_to_json",
    "explanations_to_text",
    "shadows_of",
    "shown_seconds",
    "why_not",
]
