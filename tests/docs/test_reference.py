"""The reference pages say what the code says; `pytest --update-golden` writes them anew."""

from pathlib import Path

from tests.docs.plan_page import plan_page
from tests.docs.spec_page import spec_page
from tests.golden import Golden

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_the_page_of_specs_is_current(golden: Golden) -> None:
    golden(REFERENCE / "spec.md", spec_page())


def test_the_page_of_plans_is_current(golden: Golden) -> None:
    golden(REFERENCE / "plan.md", plan_page())
