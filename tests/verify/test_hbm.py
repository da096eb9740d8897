"""HBM bytes against predictions: parts, collectives, the whole."""

import pytest

from planner.verify.hbm import TOTAL, rows_of
from planner.verify.traffic import COLLECTIVES, ELSEWHERE

PLANNED = {"generate.mlp.hidden": 1000, "generate.mlp.out": 500}


def verdicts(**found: int) -> dict[str, str]:
    named = {"hidden": "generate.mlp.hidden", "out": "generate.mlp.out"}
    rows = rows_of(PLANNED, {named.get(name, name): size for name, size in found.items()}, "over")
    return {row.address.rpartition(".")[2]: row.verdict for row in rows}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"hidden": 1000, "out": 500}, {"hidden": "within", "out": "within", TOTAL: "within"}),
        ({"hidden": 1000, "out": 640}, {"hidden": "within", "out": "within", TOTAL: "within"}),
        ({"hidden": 800, "out": 641}, {"hidden": "within", "out": "over", TOTAL: "within"}),
        ({"hidden": 2000, "out": 500}, {"hidden": "over", "out": "within", TOTAL: "over"}),
        ({"hidden": 1000}, {"hidden": "within", "out": "within", TOTAL: "within"}),
    ],
)
def test_parts_and_the_whole_are_judged(found: dict[str, int], expected: dict[str, str]):
    assert verdicts(**found) == expected


def test_collectives_are_told_and_not_judged():
    told = verdicts(hidden=1000, out=500, **{COLLECTIVES: 9000})
    assert (told[COLLECTIVES], told[TOTAL]) == ("within", "within")


def test_what_has_no_address_is_judged_in_the_whole_only():
    told = verdicts(hidden=1000, out=500, **{ELSEWHERE: 200})
    assert (told[ELSEWHERE], told[TOTAL]) == ("within", "over")


def test_a_part_of_prefill_may_move_more():
    rows = list(rows_of({"prefill.mlp.hidden": 100, "prefill.mlp.out": 1000}, {"prefill.mlp.hidden": 200}, "more"))
    assert [row.verdict for row in rows] == ["more", "within", "within"]
