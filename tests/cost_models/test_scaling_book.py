"""The cost models against every worked answer of "How to Scale Your Model" that they can express.

A case that the book gets right is compared with the printed number, within half a unit of its last digit. Where the
book is wrong, contradicts itself or rounds too early, the right value counts; where it prints no number, ours.
"""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import book_collectives  # noqa: F401
import book_models  # noqa: F401
import book_rooflines  # noqa: F401
import pytest
from book_cases import QUESTIONS, cases
from book_not_covered import NOT_COVERED

ROUNDED_RIGHT_VALUE = 2e-3
SIX_DIGITS = 1e-5


def expected(case: Mapping[str, Any]) -> tuple[Any, float]:
    """The value a correct model gives, and the relative distance that rounding allows."""
    if case["status"] in ("ok", "truncated"):
        return case["published"]["value"], case["accept_rel_tol"]
    right = case.get("right_value")
    if isinstance(right, Real | list):
        return right, ROUNDED_RIGHT_VALUE
    return case["recomputed"]["value"], SIX_DIGITS


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
