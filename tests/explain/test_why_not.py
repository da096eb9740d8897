"""Why not otherwise: the price is that of the pinned plan, causes add up to it, and what cannot be had says why."""

import json
import re
from pathlib import Path

import pytest

from planner.commands import explain_command
from planner.errors import CannotRun, PlanFileError
from planner.explain.pinning import Pin, WrongPin
from planner.explain.why_not import why_not
from planner.explain.why_not_text import answers_to_json, answers_to_text
from planner.plan.file import plan_to_yaml, write_text
from planner.plan.machine import spec_of
from planner.plan.schema import Plan
from planner.spec import PINS
from planner.spec.pins import pin_address
from tests.plans_of import example_plan

SMOLLM2, L70B = "smollm2_135m_cpu8", "llama_3_1_70b_v5e_4x4"
SOLVER_PRICES = 2e-3
"""The solver prices the vocabulary's prefill for token axes in mesh order; a plan may have them in another."""
GOALS = {
    "cost": lambda plan: plan.service.chip_seconds_per_million_tokens,
    "throughput": lambda plan: 1 / plan.service.tokens_per_s,
    "latency": lambda plan: plan.prefill.step_s + spec_of(plan).workload.output_tokens.mean * plan.service.tpot_s,
}


def answer(plan: Plan, question: str):
    (found,) = why_not(plan, (question,))
    return found


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(
    ("name", "question"),
    [
        (SMOLLM2, "generate.mlp=2d"),
        (SMOLLM2, "generate.attention.kv_cache=batch"),
        (SMOLLM2, "prefill.mlp=weight_gathered"),
        (L70B, "generate.batch=20"),
        (L70B, "generate.d_ff=x"),
    ],
)
def test_the_price_is_that_of_the_plan_with_the_pin(name: str, question: str, goal: str) -> None:
    one = "pins.prefill.prompts=1"  # a request waits for the others that are read with it, which GOALS do not count
    plan = example_plan(name, f"objective={goal}", one)
    found = answer(plan, question)
    assert found.verdict in ("costs", "has")
    if found.verdict == "has":
        return
    (pin,) = found.pins
    value = f"[{', '.join(pin.value)}]" if isinstance(pin.value, tuple) else pin.value
    other = example_plan(name, f"objective={goal}", one, f"pins.{pin.address}={value}")
    assert found.ratio == pytest.approx(GOALS[goal](other) / GOALS[goal](plan), rel=SOLVER_PRICES)
    assert found.ratio >= 1 or "is not among the batches" in found.notes[0]
    assert sum(cause.effect for cause in found.parts) == pytest.approx(found.ratio - 1, abs=SOLVER_PRICES)
    assert [abs(c.effect) for c in found.parts] == sorted((abs(c.effect) for c in found.parts), reverse=True)
    numbers = {number.address: number for number in found.difference.numbers}
    assert numbers["generate.step_s"].head == other.generate.step_s
    assert numbers["hbm.free"].base == plan.hbm.free


def test_causes_name_parts_and_collectives_by_plan_address() -> None:
    plan = example_plan(L70B)
    found = answer(plan, "generate.attention=2d")
    other = example_plan(L70B, "pins.generate.attention=2d")
    parts = {part.address: part.total_s for each in (plan, other) for part in each.prefill.parts + each.generate.parts}
    assert {cause.address for cause in found.parts} <= set(parts)
    assert all(cause.head_s in (0.0, pytest.approx(parts[cause.address])) for cause in found.parts)
    named = {each.address for each in other.generate.collectives + other.prefill.collectives}
    assert {cause.address for cause in found.collectives if cause.base_s == 0} <= named


def test_what_a_plan_has_is_said_to_be_had() -> None:
    plan = example_plan(L70B)
    rules = plan.generate.rules
    for question in (
        f"generate.batch={plan.generate.batch}",
        f"slice={plan.slice}",
        f"spec.hardware.slice={plan.slice}",
        f"generate.rules.d_ff={','.join(rules.d_ff)}",
        f"generate.strategy.kv_cache={plan.generate.strategy.kv_cache.split(':')[0]}",
        f"prefill.tokens={','.join(plan.prefill.rules.tokens) or 'none'}",
    ):
        assert answer(plan, question).verdict == "has", question


def test_a_pinned_batch_leaves_the_cut_of_the_batch_free() -> None:
    by_batch = "pins.generate.kv_cache=heads_x_batch"
    plan = example_plan(L70B, by_batch)
    assert plan.generate.rules.batch
    pinned = example_plan(L70B, by_batch, f"pins.generate.batch={plan.generate.batch}")
    assert pinned.generate.rules == plan.generate.rules


def test_another_slice_may_be_asked_for() -> None:
    plan = example_plan(L70B)
    found = answer(plan, "slice=2x4")
    other = example_plan(L70B, "hardware.slice=2x4")
    assert found.ratio == pytest.approx(GOALS["cost"](other) / GOALS["cost"](plan), rel=1e-5)
    assert found.notes == ("2x4 is not among hardware.slices: 4x4",)
    assert {"slice", "mesh"} <= {change.address for change in found.changes}


def test_a_question_against_the_specs_own_pin_replaces_it() -> None:
    plan = example_plan(SMOLLM2, "pins.generate.kv_cache=batch")
    found = answer(plan, "generate.kv_cache=heads")
    assert found.notes == ("instead of the spec's own pin generate.kv_cache=batch",)
    free = example_plan(SMOLLM2, "pins.generate.kv_cache=heads")
    assert found.ratio == pytest.approx(GOALS["cost"](free) / GOALS["cost"](plan), rel=1e-5)


def test_limits_that_break_are_told_with_need_and_have() -> None:
    plan = example_plan(L70B, "limits.tpot=25 ms")
    found = answer(plan, "slice=2x4")
    if found.verdict == "breaks":
        assert all(need.need > need.have for need in found.needs)
    tight = answer(plan, "slice=2x2")
    assert tight.verdict == "breaks"
    assert "hbm" in {need.limit for need in tight.needs}
    assert "missing per chip" in " ".join(tight.reasons)
    data = json.loads(answers_to_json([tight]))["why_not"][0]
    assert data["conflict"][0]["need"] > data["conflict"][0]["have"] > 1e9


@pytest.mark.parametrize(
    ("name", "overrides", "question", "reason"),
    [
        (L70B, (), "generate.kv_heads=[x, y]", r"8 KV heads do not cut 16 ways \(over x,y\)"),
        (L70B, (), "generate.q_heads=z", r"z is not an axis of v5e 4x4; its meshes have x, y, y0, y1"),
        (SMOLLM2, ("pins.generate.kv_cache=batch",), "generate.batch=3", r"a batch of 3 does not divide \d ways"),
        (SMOLLM2, ("pins.generate.kv_cache=batch",), "generate.kv_heads=x", r"together with generate.kv_cache=batch"),
        (SMOLLM2, ("pins.generate.mlp=1d",), "generate.attention=2d", r"attention and mlp have options with what is"),
    ],
)
def test_what_no_layout_has_is_told_with_the_rule_it_breaks(name, overrides, question, reason) -> None:
    found = answer(example_plan(name, *overrides), question)
    assert found.verdict == "illegal"
    assert re.search(reason, " ".join(found.reasons)), found.reasons


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("generate.kv_cach=heads", '"generate.kv_cach" cannot be pinned; did you mean "generate.kv_cache"?'),
        ("generate.kv_cache=headz", 'not "headz"; did you mean "heads"?'),
        ("generate.attention.d_ff=x", '"generate.attention.d_ff" cannot be pinned; did you mean "generate.attention"'),
        ("generate.mlp=3d", 'must be one of replicated, 1d, 2d, d_model, not "3d"; did you mean'),
        ("slice=4x5", "slice 4x5 is not a v5e slice; nearest are 4x4 and 4x8"),
        ("generate.batch=many", 'generate.batch must be a whole number above 0, not "many"'),
        ("generate.batch=0", "generate.batch must be a whole number above 0, not 0"),
        ("generate.batch=", "generate.batch must be a whole number above 0"),
        ("generate.d_ff=[x, x]", "mesh axes without repeats"),
        ("generate.d_ff={x: 1}", "mesh axes without repeats"),
        ("generate.kv_cache", "is not of the form ADDRESS=VALUE"),
        ("=heads", "is not of the form ADDRESS=VALUE"),
        ("generate.kv_cache=[", "generate.kv_cache must be one of"),
    ],
)
def test_a_wrong_question_is_told_with_the_nearest_right_one(question: str, message: str) -> None:
    with pytest.raises(WrongPin, match=re.escape(message)) as caught:
        why_not(example_plan(L70B), (question,))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", PINS)
def test_every_pin_is_understood_by_its_own_address_and_as_the_spec_writes_it(address: str) -> None:
    assert pin_address(address) == pin_address(f"pins.{address}") == pin_address(f"spec.pins.{address}") == address


def test_values_are_read_as_a_spec_file_holds_them() -> None:
    spec = spec_of(example_plan(L70B))
    read = {text: Pin.read(f"generate.d_ff={text}", spec).value for text in ("x", "x,y", "[x, y]", "none", " x ")}
    assert read == {"x": ("x",), "x,y": ("x", "y"), "[x, y]": ("x", "y"), "none": (), " x ": ("x",)}
    assert Pin.read("generate.batch=16", spec).value == 16
    assert Pin.read("slice=2x4", spec).value == "2x4"


def test_a_plan_of_other_prices_is_not_compared() -> None:
    plan = example_plan(L70B)
    step = plan.generate.step_s
    stale = plan.model_copy(update={"generate": plan.generate.model_copy(update={"step_s": step * 1.01})})
    with pytest.raises(PlanFileError, match="plan the spec again"):
        why_not(stale, ("generate.mlp=2d",))


def test_the_command_answers_every_question_in_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plan = tmp_path / "plan.yaml", example_plan(SMOLLM2)
    write_text(path, plan_to_yaml(plan))
    questions = ("generate.kv_cache=batch", f"generate.batch={plan.generate.batch}", "generate.kv_heads=[x, y]")
    assert explain_command(path, None, "text", questions) == 0
    text = capsys.readouterr().out
    assert text == answers_to_text(why_not(plan, questions), "cost")
    for needed in (
        "why not generate.kv_cache=batch?",
        "the best plan with it is",
        "parts behind the difference",
        "the plan has it",
    ):
        assert needed in text
    assert explain_command(path, None, "json", questions) == 0
    data = json.loads(capsys.readouterr().out)
    assert [each["pin"] for each in data["why_not"]] == [Pin.read(q, spec_of(plan)).text for q in questions]
    with pytest.raises(CannotRun, match="asks about the whole plan"):
        explain_command(path, "hbm", "text", questions)


def test_pins_in_one_question_are_meant_together() -> None:
    plan = example_plan(L70B)
    found = answer(plan, "generate.kv_cache=batch & generate.batch=16")
    other = example_plan(L70B, "pins.generate.kv_cache=batch", "pins.generate.batch=16")
    assert found.verdict == "costs"
    assert found.ratio == pytest.approx(GOALS["cost"](other) / GOALS["cost"](plan), rel=SOLVER_PRICES)
    assert "why not generate.kv_cache=batch & generate.batch=16?" in answers_to_text([found], "cost")
    alone = [answer(plan, question).ratio for question in ("generate.kv_cache=batch", "generate.batch=16")]
    assert found.ratio >= max(alone) - SOLVER_PRICES
    data = json.loads(answers_to_json([found]))["why_not"][0]
    assert data["pin"] == "generate.kv_cache=batch & generate.batch=16"


def test_a_plan_has_all_pins_of_a_question_or_has_it_not() -> None:
    plan = example_plan(L70B)
    mesh = ",".join(f"{axis.name}={axis.size}" for axis in plan.mesh.axes)
    both = f"generate.mesh={mesh} & generate.batch={plan.generate.batch}"
    assert answer(plan, both).verdict == "has"
    assert answer(plan, f"mesh={mesh}").verdict == "has"
    assert answer(plan, f"{both} & generate.kv_cache=batch").verdict == "costs"


def test_rules_that_pins_break_together_are_told() -> None:
    found = answer(example_plan(SMOLLM2), "generate.kv_cache=batch & generate.batch=3")
    assert found.verdict == "illegal"
    assert re.search(r"a batch of 3 does not divide \d ways", " ".join(found.reasons))
    assert "together with" not in " ".join(found.reasons)


def test_a_slice_without_the_specs_own_pinned_mesh_has_no_layout() -> None:
    found = answer(example_plan(L70B, "pins.generate.mesh=[x=4, y=4]"), "slice=2x4")
    assert found.verdict == "illegal"
    assert found.reasons == (
        "together with generate.mesh=x=4,y=4",
        "no mesh of v5e 2x4 has the pinned axes",
    )


@pytest.mark.parametrize("mesh", ["x=4,y0=2,y1=2", "x0=2,x1=2,y=4"])
def test_another_mesh_may_be_asked_for_even_one_that_is_a_renamed_equal(mesh: str) -> None:
    plan = example_plan(L70B, "pins.generate.mesh=[x=4, y=4]")
    found = answer(plan, f"prefill.mesh={mesh}")
    other = example_plan(L70B, f"pins.generate.mesh=[{mesh}]")
    assert tuple(f"{axis.name}={axis.size}" for axis in other.mesh.axes) == tuple(mesh.split(","))
    assert found.ratio == pytest.approx(GOALS["cost"](other) / GOALS["cost"](plan), rel=SOLVER_PRICES)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("generate.mesh=x=4,y=2", r"\[x=4, y=2\] is no mesh of v5e 4x4; did you mean \[x=4, y=4\]\?"),
        ("slice=2x4 & generate.mesh=x=4,y=4", r"\[x=4, y=4\] is no mesh of v5e 2x4; did you mean \[x=2, y=4\]\?"),
        ("generate.mesh=x", r"must be mesh axes with their sizes, each once"),
        ("generate.mesh=x=4,y=4 & prefill.mesh=x=4,y0=2,y1=2", r"both phases take turns on one mesh"),
        ("generate.batch=4 & generate.batch=8", r"asks for generate\.batch twice"),
        ("generate.batch=4 & ", r"is not of the form ADDRESS=VALUE"),
        ("generate.batch=4 & generate.kv_cach=heads", r"cannot be pinned"),
    ],
)
def test_what_cannot_be_asked_together_is_told(question: str, message: str) -> None:
    with pytest.raises(WrongPin, match=message):
        answer(example_plan(L70B), question)
