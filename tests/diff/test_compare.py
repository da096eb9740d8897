"""A difference names everything that differs, nothing else, and says what it forces."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff import compare, diff_from_json, diff_to_json, diff_to_markdown, diff_to_text
from planner.diff.markdown import MARKER
from planner.diff.schema import NOTHING_ELSE, RESHARDS_KV_CACHE, RESHARDS_WEIGHTS
from planner.errors import ShardwrightError
from planner.plan.placement import parts_held
from planner.plan.records import Mesh, MeshAxis
from planner.plan.schema import Plan
from tests.plans_of import example_plan

SMOLLM2 = "smollm2_135m_cpu8"


def base_plan() -> Plan:
    return example_plan(SMOLLM2)


def other_plan() -> Plan:
    return example_plan(SMOLLM2, "hardware.slice=4x4", "workload.concurrency=4")


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every leaf in plain data."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [found for key, item in items for found in paths_of(item, (*path, key))]
    return below if isinstance(value, dict | list) else [path]


def changed_at(plan: Plan, path: tuple[Any, ...]) -> Plan | None:
    """The plan with another value of the same type at `path`; None where the schema allows only one."""
    data = plan.model_dump(mode="json")
    target = data
    for key in path[:-1]:
        target = target[key]
    value = target[path[-1]]
    if isinstance(value, str) and ("axes" in path or "rules" in path or path[-1] in ("kind", "binds", "status")):
        return None
    other: Any = f"{value}!" if isinstance(value, str) else value
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int | float):
        other = value + 1 if path[-1] != "size" else value
    target[path[-1]] = other
    return Plan.model_validate(data) if other != value else None


LEAVES = st.deferred(lambda: st.sampled_from(paths_of(base_plan().model_dump(mode="json"))))


@settings(deadline=None)
@given(LEAVES)
def test_a_plan_does_not_differ_from_itself(path: tuple[Any, ...]) -> None:
    plan = changed_at(base_plan(), path) or other_plan()
    diff = compare(plan, plan)
    assert diff.changes == ()
    assert diff_to_text(diff) == "No changes.\n"
    assert diff_to_markdown(diff) == f"{MARKER}\nNo changes.\n"


def test_any_leaf_that_changes_is_found() -> None:
    heads = {path: changed_at(base_plan(), path) for path in paths_of(base_plan().model_dump(mode="json"))}
    changed = {path: head for path, head in heads.items() if head is not None}
    assert len(changed) > 200
    assert [path for path, head in changed.items() if not compare(base_plan(), head).changes] == []


@settings(deadline=None)
@given(LEAVES)
def test_a_difference_survives_json(path: tuple[Any, ...]) -> None:
    head = changed_at(base_plan(), path) or other_plan()
    diff = compare(base_plan(), head)
    assert diff_from_json(diff_to_json(diff)) == diff


@settings(deadline=None)
@given(LEAVES)
def test_numbers_change_sign_when_the_sides_change_places(path: tuple[Any, ...]) -> None:
    head = changed_at(base_plan(), path) or other_plan()
    there, back = compare(base_plan(), head), compare(head, base_plan())
    assert [n.change for n in there.numbers] == [-n.change for n in back.numbers]
    assert [(c.kind, c.address, c.base, c.head) for c in there.changes] == [
        (c.kind, c.address, c.head, c.base) for c in back.changes
    ]
    assert {(i.address, i.base, i.head) for i in there.inputs} == {(i.address, i.head, i.base) for i in back.inputs}
    assert {(d.address, d.base, d.head) for d in there.decisions} == {
        (d.address, d.head, d.base) for d in back.decisions
    }


def test_changes_stand_in_address_order_within_their_kind() -> None:
    diff = compare(base_plan(), other_plan())
    for kind in ("input", "choice", "layout", "collective", "prediction"):
        addresses = [change.address for change in diff.of(kind)]
        assert addresses == sorted(addresses)


def with_rules(plan: Plan, phase: str, **rules: tuple[str, ...]) -> Plan:
    own = getattr(plan, phase)
    return plan.model_copy(
        update={phase: own.model_copy(update={"rules": own.rules.model_copy(update=rules)})},
    )


@pytest.mark.parametrize(
    ("phase", "logical", "reasons"),
    [
        ("generate", "d_ff", {RESHARDS_WEIGHTS}),
        ("generate", "batch", {RESHARDS_KV_CACHE}),
        ("generate", "kv_heads", {RESHARDS_WEIGHTS, RESHARDS_KV_CACHE}),
        ("prefill", "d_ff", set()),
    ],
)
def test_only_a_changed_stored_layout_reshards(phase: str, logical: str, reasons: set[str]) -> None:
    base, head = (with_rules(base_plan(), phase, **{logical: axes}) for axes in ((), ("x",)))
    assert compare(base, head).reasons & {RESHARDS_WEIGHTS, RESHARDS_KV_CACHE} == reasons


def test_another_name_for_the_same_cut_moves_nothing() -> None:
    base = base_plan()
    axes = tuple(axis.model_copy(update={"name": f"m{axis.name}"}) for axis in base.mesh.axes)
    head = base.model_copy(update={"mesh": base.mesh.model_copy(update={"axes": axes})})
    renamed = {name: tuple(f"m{axis}" for axis in value) for name, value in dict(base.generate.rules).items()}
    head = with_rules(head, "generate", **renamed)
    head = with_rules(head, "prefill", **{k: tuple(f"m{a}" for a in v) for k, v in dict(base.prefill.rules).items()})
    diff = compare(base, head)
    assert diff.of("layout")
    assert not diff.reasons & {RESHARDS_WEIGHTS, RESHARDS_KV_CACHE}


def test_parts_are_counted_major_first() -> None:
    axes = (MeshAxis(name="x", size=2, torus_axis="x"), MeshAxis(name="y", size=2, torus_axis="y"))
    mesh = Mesh(axes=axes, chips=((0, 0), (0, 1), (1, 0), (1, 1)))
    assert parts_held(mesh, ("y", "x")) == {(0, 0): (0, 4), (0, 1): (2, 4), (1, 0): (1, 4), (1, 1): (3, 4)}
    assert parts_held(mesh, ()) == dict.fromkeys(mesh.chips, (0, 1))


def test_a_prediction_that_moves_alone_is_marked() -> None:
    base = base_plan()
    slower = base.generate.parts[0].model_copy(update={"total_s": 1.0})
    head = base.model_copy(
        update={"generate": base.generate.model_copy(update={"parts": (slower, *base.generate.parts[1:])})}
    )
    diff = compare(base, head)
    assert [(change.address, change.reasons) for change in diff.changes] == [("generate.embedding", (NOTHING_ELSE,))]
    told = (
        "No input changed, but the cost model or the chip catalogue did: 1 prediction moved, and every decision stays."
    )
    assert told in diff_to_text(diff)


def test_a_change_of_prefill_alone_does_not_explain_generate() -> None:
    head = with_rules(base_plan(), "prefill", d_ff=("x",))
    head = head.model_copy(
        update={
            "generate": head.generate.model_copy(update={"step_s": 1.0}),
            "prefill": head.prefill.model_copy(update={"step_s": 1.0}),
        }
    )
    marked = {change.address for change in compare(base_plan(), head).changes if NOTHING_ELSE in change.reasons}
    assert marked == {"generate.step_s"}


def test_a_newer_major_version_is_refused_and_unknown_keys_are_not() -> None:
    text = diff_to_json(compare(base_plan(), other_plan()))
    assert diff_from_json(text.replace('"format_version": "1.1"', '"format_version": "1.9", "more": 1', 1)).changes
    with pytest.raises(ShardwrightError, match=r"format_version 2\.0"):
        diff_from_json(text.replace('"format_version": "1.1"', '"format_version": "2.0"', 1))
