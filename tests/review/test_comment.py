"""The comment stays below its limit whatever specs, names and errors it has, and nothing breaks out of its place."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff import PlanDiff, compare
from planner.diff.schema import Infeasible, Judgement, Verdict
from planner.review import Review, Reviewed, review_to_markdown
from planner.review.comment import MAX_CHARACTERS, marker
from planner.review.text import review_to_text
from tests.plans_of import example_plan

NASTY = st.text(alphabet="`|*_<>[]#\\\n\r\t a-", max_size=60)


def difference(rules: int = 0) -> PlanDiff:
    found = compare(example_plan("smollm2_135m_cpu8"), example_plan("smollm2_135m_cpu8", "hardware.slice=4x4"))
    broken = Verdict(rule="tpot", demand="+5%", place="p.yaml:1", verdict="broken", found="|" * 300, waiver="")
    return found.model_copy(update={"policy": Judgement(policy="p.yaml", verdicts=(broken,) * rules)})


def review(reviewed: Sequence[Reviewed], folder: str = "serving") -> Review:
    return Review(folder, "main", len(reviewed), tuple(reviewed))


@pytest.mark.parametrize("count", [1, 5, 20, 300])
def test_many_specs_fit_and_what_is_left_out_is_told(count: int) -> None:
    text = review_to_markdown(review([Reviewed(f"serving/{n}.yaml", "changed", difference()) for n in range(count)]))
    shown = text.count("<summary>serving/")
    assert len(text) <= MAX_CHARACTERS
    assert shown == min(count, shown)
    assert (f"Left out, to fit: {count - shown} difference" in text) == (shown < count)
    assert shown > 3 or shown == count


def test_even_the_largest_comment_fits() -> None:
    long = "|<" * 400
    infeasible = PlanDiff(
        base="a",
        head="b",
        infeasible=Infeasible(side="head", message="`|" * 5000),
        numbers=(),
        changes=(),
        unchanged={},
    )
    specs = [
        *(Reviewed(f"{n}/{long}", "changed", difference(200), (long,) * 30, (long,) * 30) for n in range(60)),
        *(Reviewed(f"e{n}/{long}", "changed", error="`\n" * 5000) for n in range(60)),
        *(Reviewed(f"i{n}/{long}", "changed", infeasible) for n in range(60)),
    ]
    assert len(review_to_markdown(review(specs))) <= MAX_CHARACTERS


def test_the_worst_comes_first_and_is_open() -> None:
    text = review_to_markdown(
        review(
            [
                Reviewed("a.yaml", "changed", difference()),
                Reviewed("b.yaml", "changed", difference(), ("old",)),
                Reviewed("c.yaml", "changed", error="error: bad"),
            ]
        )
    )
    rows = [line.split(" | ")[0] for line in text.splitlines() if ".yaml |" in line]
    assert rows == ["| c.yaml", "| b.yaml", "| a.yaml"]
    assert "<details><summary>a.yaml" in text
    assert "<details open><summary>b.yaml" in text
    assert "```text\nerror: bad\n```" in text


@settings(deadline=None, max_examples=50)
@given(NASTY, NASTY, NASTY)
def test_names_and_sentences_stay_in_their_place(name: str, sentence: str, error: str) -> None:
    found = review(
        [
            Reviewed(f"a{name}", "changed", difference(), (f"s{sentence}",)),
            Reviewed("b", "changed", error=f"e{error}"),
        ]
    )
    lines = review_to_markdown(found).split("\n")
    start = lines.index("| --- | --- | --- |")
    assert lines[start + 1].startswith("| b | **error** | ")
    assert lines[start + 2].startswith("| a")
    assert lines[start + 3] == ""
    assert lines[start + 4].startswith("- a")
    assert lines[start + 5] == ""
    assert review_to_text(found).endswith("\n")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_a_marker_is_one_line_that_ends_where_it_should(folder: str) -> None:
    text = marker(folder)
    assert text.startswith("<!-- shardwright:review:")
    assert text.endswith(" -->")
    assert text.isprintable()
    assert "--" not in text[4:-3]
    assert '"' not in text


def test_folders_have_comments_of_their_own() -> None:
    assert marker("serving") != marker("serving/code")
