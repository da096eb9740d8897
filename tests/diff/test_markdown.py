"""Markdown cannot be broken out of by what a name or a value holds, and stays under the size limit."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff import compare, diff_to_markdown, diff_to_text
from planner.plan.schema import Plan
from tests.plans_of import example_plan


def named(name: str, value: str) -> Plan:
    plan = example_plan("smollm2_135m_cpu8")
    return plan.model_copy(update={"name": name, "spec": {**plan.spec, "name": value}})


@settings(deadline=None)
@given(st.text(alphabet="`|*_<>[]#\\\n\r\t a-", max_size=40))
def test_names_and_values_stay_inside_their_cell_and_their_fence(text: str) -> None:
    markdown = diff_to_markdown(compare(named("base", "x"), named(text, text)))
    table = next(line for line in markdown.splitlines() if line.startswith("| |"))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", table)) == 5
    (opening,) = re.findall(r"^(`{3,})diff$", markdown, re.MULTILINE)
    assert len(re.findall(rf"^{opening}`*$", markdown, re.MULTILINE)) == 1
    assert markdown.endswith(f"{opening}\n</details>\n")


@settings(deadline=None)
@given(st.text(max_size=30))
def test_a_value_never_breaks_a_line(text: str) -> None:
    lines = diff_to_text(compare(named("base", "x"), named("base", text))).split("\n")
    assert sum(line.startswith("  ~ spec.name") for line in lines) == (text != "x")
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("limit", [2400, 3400, 5000, 60_000])
def test_details_shrink_before_the_summary(limit: int) -> None:
    head = example_plan("smollm2_135m_cpu8", "hardware.slice=4x4")
    whole = diff_to_markdown(compare(example_plan("smollm2_135m_cpu8"), head))
    cut = diff_to_markdown(compare(example_plan("smollm2_135m_cpu8"), head), limit)
    assert len(cut) <= limit
    summary = whole.split("<details>")[0]
    assert cut.startswith(summary)
    assert ("more lines" in cut or "Left out, to fit: " in cut) == (len(whole) > limit - 200)
