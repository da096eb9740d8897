"""Which input caused which decision: a solver whose rule is known, and real plans of a small model."""

from collections.abc import Callable

import pytest

from planner.diff import Request, compare, review
from planner.diff.attribute import attributed
from planner.diff.request import difference
from planner.diff.schema import PlanDiff
from planner.diff.sentences import cause_text, why
from planner.diff.sides import Side
from planner.plan.schema import Near, Plan
from planner.spec import Spec, load_spec, spec_to_data
from tests.plans_of import SPECS, example_plan

SPEC = SPECS / "smollm2_135m_cpu8.yaml"
CONCURRENCY, LIMIT, PAGES = "workload.concurrency=16", "limits.tpot=100 ms", "model.kv_cache.page_tokens=32"
NAMES = {CONCURRENCY: "workload.concurrency", LIMIT: "limits.tpot", PAGES: "model.kv_cache.page_tokens"}

Batch = Callable[[set[str]], int | None]
"""The batch that is decided when some inputs are as in head; None for no plan."""


def changed(spec: Spec) -> set[str]:
    """Which inputs of a spec are as in head."""
    found = {CONCURRENCY} if spec.workload.concurrency == 16 else set()
    found |= {LIMIT} if spec.limits.tpot_s else set()
    return found | ({PAGES} if spec.model.kv_cache.page_tokens == 32 else set())


def plan_for(spec: Spec, batch: int) -> Plan:
    plan = example_plan("smollm2_135m_cpu8")
    generate = plan.generate.model_copy(update={"batch": batch})
    return plan.model_copy(update={"spec": spec_to_data(spec), "generate": generate})


class Solver:
    """Decides a batch by a known rule, and counts what it is asked."""

    def __init__(self, rule: Batch) -> None:
        self.rule = rule
        self.asked: list[set[str]] = []

    def plan(self, spec: Spec) -> Plan | None:
        batch = self.rule(changed(spec))
        return None if batch is None else plan_for(spec, batch)

    def bare_plan(self, spec: Spec) -> Plan | None:
        self.asked.append(changed(spec))
        return self.plan(spec)

    def side(self, *overrides: str) -> Side:
        spec = load_spec(SPEC, overrides)
        return Side(spec_to_data(spec), self.plan(spec), solved=True)


def found_by(solver: Solver, monkeypatch: pytest.MonkeyPatch, base: Side, head: Side) -> PlanDiff:
    monkeypatch.setattr("planner.diff.attribute.bare_plan", solver.bare_plan)
    return attributed(difference(base, head), base, head)


def causes(found: PlanDiff) -> dict[str, str]:
    return {each.address: cause_text(each) for each in found.decisions if each.address == "generate.batch"}


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        (lambda inputs: 16 if CONCURRENCY in inputs else 8, "workload.concurrency"),
        (lambda inputs: 16 if inputs & {CONCURRENCY, LIMIT} else 8, "workload.concurrency or limits.tpot, each alone"),
        (lambda inputs: 16 if inputs >= {CONCURRENCY, LIMIT} else 8, "workload.concurrency and limits.tpot together"),
        (
            lambda inputs: 16 if len(inputs) > 1 else 8,
            "model.kv_cache.page_tokens, workload.concurrency and limits.tpot together",
        ),
        (
            lambda inputs: 8 + 4 * len(inputs),
            "model.kv_cache.page_tokens, workload.concurrency and limits.tpot together",
        ),
    ],
)
def test_a_decision_is_attributed_to_what_makes_it(rule: Batch, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(rule)
    found = found_by(solver, monkeypatch, solver.side(), solver.side(*NAMES))
    assert found.attribution == "solved"
    assert causes(found) == {"generate.batch": cause}


def test_each_spec_is_solved_once_and_none_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 16 if len(inputs) > 1 else 8)
    found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, LIMIT))
    assert solver.asked == [{CONCURRENCY}, {LIMIT}]
    solver = Solver(lambda inputs: 16 if CONCURRENCY in inputs else 8)
    found_by(solver, monkeypatch, solver.side(), solver.side(*NAMES))
    assert sorted(map(len, solver.asked)) == [1, 1, 1]


def test_a_limit_that_base_keeps_needs_no_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 16 if CONCURRENCY in inputs else 8)
    loose = found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, "limits.tpot=1 s"))
    assert solver.asked == [{CONCURRENCY}]
    assert causes(loose) == {"generate.batch": "workload.concurrency"}
    lifted = Solver(lambda _: 8)
    found_by(lifted, monkeypatch, lifted.side("limits.tpot=1 s"), lifted.side(CONCURRENCY, "limits.tpot=2 s"))
    assert len(lifted.asked) == 2


def test_one_input_needs_no_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 8 + 8 * len(inputs))
    found = found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY))
    assert (solver.asked, found.attribution, causes(found)) == (
        [],
        "only_input",
        {"generate.batch": "workload.concurrency"},
    )


def test_a_name_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 8 + 8 * len(inputs))
    found = found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, "name=other"))
    assert (solver.asked, causes(found)) == ([], {"generate.batch": "workload.concurrency"})
    found = found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, LIMIT, "name=other"))
    assert solver.asked == [{CONCURRENCY}, {LIMIT}]
    assert [each.alone is None for each in found.inputs if each.address == "name"] == [True]


def old(side: Side, batch: int) -> Side:
    """A side as a plan file that was made by another catalogue."""
    assert side.plan is not None
    generate = side.plan.generate.model_copy(update={"batch": batch})
    return Side(side.spec, side.plan.model_copy(update={"generate": generate}), solved=False)


@pytest.mark.parametrize(("base", "head"), [(4, 8), (8, 4)])
def test_what_todays_solver_does_not_decide_is_the_catalogue(
    base: int, head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    solver = Solver(lambda _: 8)
    before, after = old(solver.side(), base), old(solver.side(CONCURRENCY, LIMIT), head)
    found = found_by(solver, monkeypatch, before, after)
    assert causes(found) == {"generate.batch": "the cost model or the chip catalogue"}


def test_a_plan_of_today_is_priced_as_it_says_and_another_is_not() -> None:
    plan = example_plan("smollm2_135m_cpu8")
    side = Side(plan.spec, plan, solved=False)
    other = Side(plan.spec, example_plan("smollm2_135m_cpu8", LIMIT), solved=False)
    assert attributed(difference(side, other), side, other).repriced == ()
    slower = plan.model_copy(update={"generate": plan.generate.model_copy(update={"step_s": 1.0})})
    stale = Side(plan.spec, slower, solved=False)
    told = attributed(difference(stale, side), stale, side).repriced
    assert [(each.address, each.base) for each in told] == [
        ("generate.step_s", 1.0),
        ("prefill.step_s", plan.prefill.step_s),
    ]
    assert told[0].head == pytest.approx(plan.generate.step_s, rel=1e-5)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda inputs: None if LIMIT in inputs else 8, "Alone, limits.tpot leaves base without a plan."),
        (lambda inputs: None if len(inputs) > 1 else 8, "No input leaves base without a plan alone; they do together."),
    ],
)
def test_an_infeasible_head_names_the_input_that_leaves_no_plan(
    rule: Batch, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    solver = Solver(rule)
    assert why(found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, LIMIT))) == told


def test_an_infeasible_base_names_the_input_that_gives_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 8 if LIMIT in inputs else None)
    found = found_by(solver, monkeypatch, solver.side(), solver.side(CONCURRENCY, LIMIT))
    assert why(found) == "Alone, limits.tpot gives base a plan."


def test_an_input_that_is_invalid_alone_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda _: 8)
    head = solver.side("hardware.slice=4x4", "pins.slice=4x4")
    found = found_by(solver, monkeypatch, solver.side(), head)
    verdicts = {each.address: each.alone.verdict for each in found.inputs if each.alone}
    assert verdicts == {"hardware.slices": "plan", "pins.slice": "invalid"}


def test_a_plan_near_another_is_not_attributed(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(lambda inputs: 8 + 8 * len(inputs))
    base, head = solver.side(), solver.side(CONCURRENCY, LIMIT)
    assert head.plan is not None
    near = Near(plan="old.yaml", batch=8, within=0.01, moved_bytes=0, changed=())
    proof = head.plan.proof.model_copy(update={"near": near})
    head = Side(head.spec, head.plan.model_copy(update={"proof": proof}), solved=False)
    assert found_by(solver, monkeypatch, base, head).attribution == "near"
    assert solver.asked == []


def test_real_plans_of_a_small_model() -> None:
    head = ("hardware.slice=4x4", "workload.concurrency=16")
    found = review(Request(str(SPEC), str(SPEC)))
    assert found == compare(example_plan("smollm2_135m_cpu8"), example_plan("smollm2_135m_cpu8"))
    sides = [Side(plan.spec, plan, solved=True) for plan in (example_plan("smollm2_135m_cpu8", *o) for o in ((), head))]
    found = attributed(difference(*sides), *sides)
    caused = {each.address: (each.how, each.causes) for each in found.decisions}
    assert caused["slice"] == ("alone", ("hardware.slices",))
    assert caused["generate.batch"] == ("alone", ("workload.concurrency",))
    alone = {each.address: each.alone for each in found.inputs}
    slices = alone["hardware.slices"]
    assert slices is not None
    by_slice = compare(example_plan("smollm2_135m_cpu8"), example_plan("smollm2_135m_cpu8", "hardware.slice=4x4"))
    tpot = by_slice.number("service.tpot_s")
    assert tpot is not None
    assert [each.head for each in slices.numbers if each.address == tpot.address] == [
        pytest.approx(tpot.head, rel=1e-5)
    ]
