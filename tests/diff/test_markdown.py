"""Markdown cannot be broken out of by what a name or a value holds, and stays under the size limit."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff import compare, diff_to_markdown, diff_to_text
from planner.diff.schema import Change, Decision, Infeasible, Input, Judgement, PlanDiff, Verdict
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


def test_even_the_largest_review_fits_a_comment() -> None:
    long = "x" * 500
    inputs = tuple(Input(address=f"pins.{i}", base=long, head=long, fields=(f"pins.{i}",)) for i in range(200))
    causes = tuple(each.address for each in inputs[:6])
    decided = tuple(
        Decision(address=f"generate.{i}", base=long, head=long, causes=causes[i % 6 :], how="together")
        for i in range(200)
    )
    verdicts = tuple(
        Verdict(rule="tpot", demand="+5%", place="policy.yaml:1", verdict="waived", found="22 ms", waiver="|" * 300)
        for _ in range(200)
    )
    policy = Judgement(policy="policy.yaml", verdicts=verdicts, notes=("*" * 300,) * 200)
    changes = tuple(Change(kind="note", address=f"note.{i}", action="change", base=long, head=i) for i in range(2000))
    found = PlanDiff(
        base="base", head="head", numbers=(), inputs=inputs, decisions=decided, attribution="solved", policy=policy,
        changes=changes, unchanged={},
    )  # fmt: skip
    for each in (found, found.model_copy(update={"infeasible": Infeasible(side="head", message=f"{long}\n" * 500)})):
        markdown = diff_to_markdown(each)
        assert len(markdown.encode()) <= 65_536
        assert "more lines" in markdown
        assert len(re.findall("<details>", markdown)) == len(re.findall("</details>", markdown))
