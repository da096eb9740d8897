"""What counts as a spec, what it is called, and where its plan lies."""

import pytest

from planner.review.files import is_below, is_spec, name_of, plan_beside
from tests.plans_of import SPECS

SPEC = (SPECS / "smollm2_135m_cpu8.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SPEC, True),
        (SPEC.replace("hardware:", "hardwear:"), True),
        ('{"version": 1, "model": {}, "hardware": {}, "workload": {}}', True),
        (SPEC.replace("version:", "apiVersion:"), False),
        ("version: 3\nservices: {model: {image: a}}\n", False),
        (f"format_version: '1.0'\nspec:\n{SPEC}", False),
        ("", False),
    ],
    ids=["a spec", "a slip in a key", "JSON", "no version", "another tool's file", "a plan", "nothing"],
)
def test_what_is_a_spec(text: str, told: bool) -> None:
    assert is_spec(text) is told


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("name: chat\n", "chat"),
        ("version: 1\nname: 'a b'  # why\n", "a b"),
        ('{\n"name": "chat",\n', "chat"),
        ("model:\n  name: inner\n", ""),
    ],
)
def test_what_it_is_called(text: str, name: str) -> None:
    assert name_of(text) == name


@pytest.mark.parametrize(
    ("spec", "plan"),
    [
        ("serving/chat.yaml", "serving/chat.plan.yaml"),
        ("spec.yaml", "plan.yaml"),
        ("a/v1.2.yml", "a/v1.2.plan.yaml"),
        ("serving/spec.yml", "serving/plan.yaml"),
    ],
)
def test_where_its_plan_lies(spec: str, plan: str) -> None:
    assert plan_beside(spec) == plan


def test_what_lies_in_a_folder() -> None:
    assert is_below("serving/a.yaml", "serving")
    assert is_below("a.yaml", ".")
    assert is_below("../a.yaml", "..")
    assert not is_below("serving2/a.yaml", "serving")
    assert not is_below("../a.yaml", ".")
