"""What a plan with second copies says of them: in its file, in words, against other plans."""

from dataclasses import replace
from pathlib import Path

import pytest

from planner.diff import compare
from planner.diff.text import diff_to_text
from planner.explain import Subject, addresses, explain
from planner.explain.parts import part_flops
from planner.explain.shapes import matmuls
from planner.explain.why_not import why_not
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_from_yaml, plan_to_yaml
from planner.plan.machine import machine_of, rules_of
from planner.plan.make import make_plan, plan_of, solve_spec
from planner.plan.moves import Boxes, received_bytes
from planner.plan.near import Earlier, places_of, with_changes
from planner.plan.schema import Plan
from planner.problem import hbm
from planner.problem.costs import total_s
from planner.render import render_package
from planner.report.page import report_html
from planner.spec import Spec, SpecErrors, load_spec

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SMOLLM2, L8B = "smollm2_135m_cpu8", "llama_3_1_8b_v5e_2x4"


def spec(name: str, *overrides: str) -> Spec:
    return load_spec(EXAMPLES / f"{name}.yaml", ["serving.strategies=all", *overrides])


def plan(name: str, *overrides: str) -> Plan:
    return plan_from_yaml(plan_to_yaml(make_plan(spec(name, *overrides))), name)


@pytest.fixture(scope="module")
def both() -> Plan:
    """A plan in which attention and the MLP have copies."""
    return plan(SMOLLM2, "pins.prefill.copies=[attention, mlp]")


@pytest.fixture(scope="module")
def once() -> Plan:
    """The same without any."""
    return plan(SMOLLM2, "pins.prefill.copies=none")


def test_the_file_holds_all_that_the_plan_was_priced_by(both: Plan):
    chosen = chosen_of(both)
    assert total_s(chosen.prefill_parts(), chosen.machine) == pytest.approx(both.prefill.step_s, rel=1e-5)
    rules, machine = rules_of(both), machine_of(both)
    copies = [
        hbm.block_weights_bytes(block, stored, machine.sizes, machine.ways) for block, stored in rules.copies.items()
    ]
    assert both.hbm.copies == sum(copies)
    assert "  copies:\n    attention: {d_model: " in plan_to_yaml(both)


def test_a_plan_without_copies_says_nothing_of_them(once: Plan):
    text = plan_to_yaml(once)
    assert "copies:" not in text.replace("prefill.copies: none", "")
    assert "hbm.copies" not in addresses(once)
    assert "hbm.copies" not in {number.address for number in compare(once, once).numbers}


def test_copies_have_addresses_that_explain_them(both: Plan):
    (told,) = explain(both, "prefill.copies.mlp")
    assert "prefill reads a second copy of the mlp weights" in told.sentences[0]
    (item,) = explain(both, "hbm.copies")
    assert "second copies of the attention and mlp weights" in item.sentences[0]
    assert item.numbers["bytes"] == both.hbm.copies
    (weights,) = explain(both, "hbm.weights")
    assert "stored as generate reads them" in weights.sentences[0]


def test_the_matmuls_of_prefill_are_those_of_the_copy(both: Plan):
    subject = Subject.of(both)
    for part in both.prefill.parts:
        found = sum(each.flops for each in matmuls(subject, part.address))
        if found and part.compute_s:
            assert found == pytest.approx(part_flops(subject, part), rel=1e-3), part.address


def test_a_copy_that_comes_must_be_stored_and_one_that_goes_must_not(both: Plan, once: Plan):
    assert once.generate.rules == plan(SMOLLM2, "pins.prefill.copies=none").generate.rules
    comes, goes = compare(once, both), compare(both, once)
    for diff, action in ((comes, "add"), (goes, "remove")):
        found = [each for each in diff.of("layout") if each.address.startswith("prefill.copies.")]
        assert {each.action for each in found} == {action}
        assert all(bool(each.reasons) == (action == "add") for each in found)
    assert "prefill.copies.mlp.d_ff" in diff_to_text(comes)
    assert "second copies" in diff_to_text(goes)
    assert compare(both, both).changes == ()


def test_the_report_shows_them(both: Plan):
    page = report_html(both)
    assert 'class="copies"' in page


def test_a_package_stores_and_reads_the_copies(both: Plan, once: Plan):
    files = render_package(both)
    assert "COPIED_ATTENTION = Rules(" in files["sharding.py"]
    assert "COPIED_MLP = Rules(" in files["sharding.py"]
    assert "weights.prefill_layer(index)" in files["prefill.py"]
    assert "prefill_layer" not in "".join(render_package(once).values())


def test_a_plan_near_one_with_copies_keeps_them(both: Plan):
    earlier = Earlier.of(both, "old.yaml", 0.99)
    kept = plan_of(solve_spec(spec(SMOLLM2), earlier), earlier)
    assert kept.proof.near is not None
    assert (kept.proof.near.moved_bytes, kept.proof.near.changed) == (0, ())
    assert kept.prefill.copies == both.prefill.copies


def test_a_copy_that_comes_counts_as_moved(once: Plan):
    wanted = spec(SMOLLM2, "pins.prefill.copies=mlp", f"pins.slice={once.slice}")
    earlier = Earlier.of(once, "old.yaml", 0.99)
    new = plan_of(solve_spec(wanted, earlier), earlier)
    near, machine, rules = new.proof.near, machine_of(new), rules_of(new)
    assert near is not None
    assert "prefill.mlp" in near.changed
    old = Boxes(rules_of(once).generate, machine.sizes, places_of(machine_of(once)))
    stored = [(block, rules.generate) for block in machine.sizes.blocks] + list(rules.copies.items())
    moved = [received_bytes(block, Boxes(table, machine.sizes, places_of(machine)), old) for block, table in stored]
    assert near.moved_bytes == sum(moved) > 0


def test_changes_of_options_are_those_of_the_plan_with_them(both: Plan):
    solved = solve_spec(spec(SMOLLM2, "pins.prefill.copies=[attention, mlp]"))
    assert solved.optimum is not None
    problem = with_changes(solved.built, Earlier.of(both, "old.yaml"))
    taken = solved.optimum.taken
    candidate = replace(taken.candidate, problem=problem, table=problem.meshes[taken.candidate.mesh_index])
    blocks = candidate.table.blocks
    least = [
        min(
            block.change_of(row, candidate.batch_index)
            for row in range(len(block.options))
            if block.options[row] == taken.candidate.table.blocks[number].options[taken.choices[number].index]
        )
        for number, block in enumerate(blocks)
    ]
    assert least == [0, 0, 0]


def test_what_copies_are_worth_can_be_asked(once: Plan, both: Plan):
    (without,) = why_not(both, ("prefill.copies=none",))
    assert without.verdict == "costs"
    assert without.ratio == pytest.approx(once.proof.value / both.proof.value)
    (has,) = why_not(both, ("prefill.copies=mlp,attention",))
    assert has.verdict == "has"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["pins.prefill.copies=experts"], "names experts, and the model has none"),
        (["pins.prefill.copies=vocab"], "must be blocks without repeats, of attention, mlp, experts, or none"),
    ],
)
def test_a_pin_of_copies_that_cannot_be_is_refused(overrides: list[str], message: str):
    with pytest.raises(SpecErrors, match=message):
        spec(SMOLLM2, *overrides)
