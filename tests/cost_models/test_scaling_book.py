"""The cost models against every worked answer of "How to Scale Your Model" that they can express.

A case that the book gets right is compared with the printed number, within half a unit of its last digit. Where the
book is wrong, contradicts itself or rounds too early, the right value counts; where it prints no number, ours.
"""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import book_collectives  # noqa: F401
import book_layouts  # noqa: F401
import book_models  # noqa: F401
import book_networks  # noqa: F401
import book_rooflines  # noqa: F401
import book_serving  # noqa: F401
import pytest
from book_cases import QUESTIONS, cases
from book_not_covered import NOT_COVERED

ROUNDED_RIGHT_VALUE = 2e-3
SIX_DIGITS = 1e-5
HALF_OF_THE_THIRD_DIGIT = 5e-3


def expected(case: Mapping[str, Any]) -> tuple[Any, float]:
    """The value a correct model gives, and the relative distance that rounding allows."""
    published = case["published"]["value"]
    if case["status"] in ("ok", "truncated") and isinstance(published, Real | list):
        return published, case["accept_rel_tol"]
    right, unrounded = case.get("right_value"), case["recomputed"]["value"]
    if not isinstance(right, Real | list):
        return unrounded, SIX_DIGITS
    rounds_to_it = unrounded == pytest.approx(right, rel=HALF_OF_THE_THIRD_DIGIT)
    return unrounded if rounds_to_it else right, ROUNDED_RIGHT_VALUE


@pytest.mark.parametrize("case_id", sorted(QUESTIONS))
def test_the_book_agrees(case_id: str) -> None:
    case = cases()[case_id]
    value, tolerance = expected(case)
    assert QUESTIONS[case_id](case["inputs"]) == pytest.approx(value, rel=tolerance)


def test_every_case_is_asked_or_listed_with_a_reason() -> None:
    listed = [case_id for ids in NOT_COVERED.values() for case_id in ids]
    assert len(listed) == len(set(listed))
    assert set(listed).isdisjoint(QUESTIONS)
    assert set(listed) | set(QUESTIONS) == set(cases())
