"""Planned collectives against transfers: what matches, what differs and in which field, what is missing or extra."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.plan.schema import Collective
from planner.verify.compare import Row, compare
from planner.verify.transfers import Transfer

OUT = Collective(address="generate.mlp.out", kind="all_reduce", axes=("y", "x"), bytes=4096, count=80, seconds=1e-5)
HIDDEN = Collective(
    address="generate.mlp.hidden", kind="reduce_scatter", axes=("x",), bytes=8192, count=80, seconds=1e-5
)


def as_compiled(planned: Collective, address: str | None = None) -> Transfer:
    """The transfer that is exactly what was planned; the compiler prints axes in the mesh's order."""
    axes = tuple(sorted(planned.axes))
    return Transfer(planned.kind, axes, planned.bytes, planned.count, address or planned.address, "psum.1")


def told(rows: tuple[Row, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(row.address, row.status, row.differs) for row in rows]


def test_the_order_of_axes_is_of_no_account():
    assert told(compare([OUT], [as_compiled(OUT)])) == [("generate.mlp.out", "matched", ())]


def test_parts_of_a_peeled_loop_add_up():
    parts = [replace(as_compiled(OUT), count=1), replace(as_compiled(OUT), count=79)]
    assert told(compare([OUT], parts)) == [("generate.mlp.out", "matched", ())]


def test_each_differing_field_is_named():
    found = Transfer("all_reduce", ("x",), 4096, 79, "generate.mlp.hidden", "psum.1")
    assert told(compare([HIDDEN], [found])) == [("generate.mlp.hidden", "different", ("kind", "bytes", "count"))]


def test_groups_that_are_no_mesh_axes_differ():
    assert told(compare([OUT], [replace(as_compiled(OUT), axes=None)])) == [
        ("generate.mlp.out", "different", ("axes",))
    ]


def test_a_lost_address_is_made_good_by_all_but_one_field():
    lost = Transfer("all_reduce", ("x",), 8192, 80, None, "all-reduce.40")
    assert told(compare([OUT, HIDDEN], [lost, as_compiled(OUT)])) == [
        ("generate.mlp.out", "matched", ()),
        ("generate.mlp.hidden", "different", ("kind",)),
    ]


def test_two_lost_addresses_stay_two_transfers():
    twin = HIDDEN.model_copy(update={"address": "generate.attention.q"})
    lost = [Transfer("all_reduce", ("x",), 8192, 80, None, name) for name in ("all-reduce.1", "all-reduce.2")]
    assert [row.differs for row in compare([HIDDEN, twin], lost)] == [("kind",), ("kind",)]


def test_a_transfer_of_another_address_never_stands_for_a_planned_one():
    rows = compare([OUT], [as_compiled(OUT, "generate.attention.out")])
    assert told(rows) == [("generate.mlp.out", "missing", ()), ("generate.attention.out", "unplanned", ())]


def test_an_unplanned_transfer_without_address_is_called_by_its_instruction():
    assert told(compare([], [Transfer("permute", ("y",), 10, 1, None, "collective-permute-start")])) == [
        ("%collective-permute-start", "unplanned", ())
    ]


collectives = st.lists(
    st.builds(
        Collective,
        address=st.sampled_from(["generate.mlp.out", "generate.mlp.norm", "prefill.mlp.tokens"]),
        kind=st.sampled_from(["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]),
        axes=st.sampled_from([("x",), ("y",), ("y", "x")]),
        bytes=st.integers(1, 4),
        count=st.integers(1, 3),
        seconds=st.just(0.0),
    ),
    max_size=6,
    unique_by=lambda each: (each.address, each.kind, frozenset(each.axes), each.bytes),
)


@given(collectives, st.randoms())
def test_a_plan_matches_itself_in_any_order(planned: list[Collective], random: object):
    found = [as_compiled(each) for each in planned]
    random.shuffle(found)  # type: ignore[attr-defined]
    assert [row.status for row in compare(planned, found)] == ["matched"] * len(planned)


@given(collectives.filter(bool))
def test_dropping_one_transfer_is_one_missing_collective(planned: list[Collective]):
    rows = compare(planned, [as_compiled(each) for each in planned[1:]])
    assert [row.planned for row in rows if row.status == "missing"] == [planned[0]]
    assert sum(row.status == "matched" for row in rows) == len(planned) - 1


@given(collectives.filter(bool))
def test_dropping_one_planned_collective_leaves_one_unplanned(planned: list[Collective]):
    rows = compare(planned[1:], [as_compiled(each) for each in planned])
    assert [row.status for row in rows if row.status != "matched"] == ["unplanned"]


@given(collectives, collectives)
def test_nothing_gets_lost(planned: list[Collective], others: list[Collective]):
    rows = compare(planned, [as_compiled(each) for each in others])
    assert sum(row.planned is not None for row in rows) == len(planned)
    assert sum(row.found is not None for row in rows) == len(others)
