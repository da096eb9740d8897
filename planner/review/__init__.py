"""A folder of specs -> what a change does to each that it touches: differences, a policy, plans and packages."""

from planner.review.comment import review_to_markdown
from planner.review.data import review_to_json
from planner.review.run import Wanted, run_review
from planner.review.schema import Review, Reviewed
from planner.review.text import review_to_text

__all__ = [
    "Review",
    "Reviewed",
    "Wanted",
    "review_to_json",
    "review_to_markdown",
    "review_to_text",
    "run_review",
]
