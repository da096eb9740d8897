"""Explanations: the arithmetic is the plan's own, every address has one, and a wrong one finds its neighbour."""

import json

import pytest

from planner.commands import explain_command
from planner.explain import Subject, UnknownAddress, addresses, explain, explanations_to_json, shadows_of, shown_seconds
from planner.explain.memory import cache_bytes, more_sequences, sequence_bytes, slots_cut
from planner.explain.parts import part_bytes, part_flops
from planner.explain.shapes import matmuls
from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from tests.plans_of import example_plan

SMOLLM2 = "smollm2_135m_cpu8"
PLANS = {
    "1d": (SMOLLM2,),
    "2d by batch": (SMOLLM2, "pins.generate.mlp=2d", "pins.generate.kv_cache=batch"),
    "2d": (SMOLLM2, "pins.generate.mlp=2d", "pins.generate.attention=2d"),
    "weights gathered": (SMOLLM2, "pins.prefill.mlp=weight_gathered"),
    "batch by all-to-all": ("llama_3_1_70b_v5e_4x4",),
}


@pytest.fixture(params=PLANS.values(), ids=PLANS.keys())
def plan(request: pytest.FixtureRequest) -> Plan:
    return example_plan(*request.param)


def test_the_matmuls_of_a_part_make_up_its_operations(plan: Plan) -> None:
    subject = Subject.of(plan)
    checked = 0
    for part in plan.prefill.parts + plan.generate.parts:
        found = matmuls(subject, part.address)
        if found:
            assert sum(each.flops for each in found) == pytest.approx(part_flops(subject, part), rel=1e-4)
            checked += 1
    assert checked == 10


def test_weights_are_read_as_often_as_the_stack_carries_them(plan: Plan) -> None:
    subject = Subject.of(plan)
    parts = {part.address: part for part in plan.generate.parts}
    mlp = sum(part_bytes(subject, parts[f"generate.mlp.{name}"]) for name in ("hidden", "out"))
    sizes = subject.machine.sizes
    stored = sum(
        m.inner * m.outer * m.repeats for n in ("hidden", "out") for m in matmuls(subject, f"generate.mlp.{n}")
    )
    activations = mlp - stored * sizes.weight_bytes * subject.machine.stack.weight_passes
    assert 0 < activations < 0.2 * mlp


def test_shown_seconds_add_up_to_the_step(plan: Plan) -> None:
    for phase in (plan.prefill, plan.generate):
        shown = shown_seconds(phase)
        assert sum(shown.values()) == pytest.approx(phase.step_s, rel=1e-4)
        assert max(shown, key=lambda key: shown[key]) == phase.binds


def test_every_address_has_an_explanation(plan: Plan) -> None:
    known = addresses(plan)
    assert {"prefill", "generate", "prefill.mlp", "generate.attention.out", "hbm", "hbm.free", "proof"} <= set(known)
    for address in known:
        assert all(each.sentences for each in explain(plan, address))


def test_the_free_memory_holds_as_many_sequences_as_are_named(plan: Plan) -> None:
    subject = Subject.of(plan)
    planned, more = plan.generate.batch, more_sequences(subject)
    step = subject.machine.ways(subject.rules.generate.batch)
    others = plan.hbm.total - cache_bytes(subject, planned)
    assert others + cache_bytes(subject, planned + more) <= plan.hbm.available
    assert others + cache_bytes(subject, planned + more + step) > plan.hbm.available - 2


def test_the_overview_names_binding_runner_up_padding_and_room() -> None:
    plan = example_plan(SMOLLM2)
    told = {each.address: " ".join(each.sentences) for each in explain(plan)}
    assert "bound by HBM" in told["generate"]
    assert "runner-up: " in told["generate"]
    assert "dearer in all" in told["prefill"]
    assert "9 stored as 12: a KV shard of 1 head serves 3 query heads; there are 4 shards" in told["padding.q_heads"]
    assert "more sequences of 512 tokens" in told["hbm"]


def test_a_part_and_the_collectives_at_its_address_are_both_told() -> None:
    found = explain(example_plan(SMOLLM2), "generate.mlp.out")
    assert [each.address for each in found] == ["generate.mlp.out"] * 2
    assert any("partial sums" in sentence for sentence in found[1].sentences)


def test_attention_names_the_sequences_it_reads() -> None:
    (part,) = explain(example_plan(SMOLLM2), "generate.attention.kv_cache")
    assert "sequences, mean context 96 tokens, 1 KV head on a chip" in " ".join(part.sentences)


def test_lanes_that_narrow_heads_leave_empty_are_told() -> None:
    plan = example_plan(SMOLLM2, "hardware.chip=v5e")
    told = {each.address: each.sentences[0] for each in explain(plan)}
    assert {each.dimension for each in plan.padding} <= {address.removeprefix("padding.") for address in told}
    assert "64 stored as 128: the KV cache keeps whole lanes, 128 to a row" in told["padding.head_dim"]


@pytest.mark.parametrize(("typed", "meant"), [("generate.mpl", "generate.mlp"), ("hbm.fre", "hbm.free")])
def test_an_unknown_address_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UnknownAddress, match=f'did you mean "{meant}"'):
        explain(example_plan(SMOLLM2), typed)


def test_the_command_prints_text_and_json(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(plan_to_yaml(example_plan(SMOLLM2)), encoding="utf-8")
    assert explain_command(path, "hbm", "text") == 0
    assert capsys.readouterr().out.startswith("hbm\n  ")
    assert explain_command(path, None, "json") == 0
    data = json.loads(capsys.readouterr().out)
    plan = example_plan(SMOLLM2)
    assert data == json.loads(explanations_to_json(explain(plan, None, shadows_of(plan))))
    assert data["explanations"][0]["address"] == "prefill"


def test_cached_sequences_are_cut_where_those_of_the_stream_are() -> None:
    rows_on_x = "pins={generate.rows: x, generate.batch: 32}"
    plan = example_plan("llama_3_1_70b_v5e_4x4", "serving.strategies=all", rows_on_x)
    (told,) = explain(plan, "generate.rules.batch")
    ways = Subject.of(plan).machine.ways(plan.generate.rules.rows + plan.generate.rules.batch)
    assert told.numbers["ways"] == ways > 1
    assert f"{32 // ways} of 32 on each chip" in told.sentences[0]


def test_a_sequence_takes_its_share_of_the_cache_whatever_cuts_it() -> None:
    """Free memory is counted in sequences that lie where those of the plan do, replicas included."""
    for pins in ("pins={generate.rows: x, generate.batch: 32}", "pins={generate.kv_cache: batch, generate.batch: 32}"):
        subject = Subject.of(example_plan("llama_3_1_70b_v5e_4x4", "serving.strategies=all", pins))
        plan, pages = subject.plan, subject.plan.generate.context // subject.plan.generate.page_tokens
        scratch = plan.hbm.kv_cache / (1 + plan.generate.batch * pages / slots_cut(subject))
        whole = (plan.hbm.kv_cache - scratch + plan.hbm.logits) / plan.generate.batch
        assert sequence_bytes(subject) == pytest.approx(whole, rel=1e-3)


def test_prompts_read_together_are_told_with_the_slots_that_wait_for_them() -> None:
    plan = example_plan("llama_3_1_70b_v5e_4x4", "serving.strategies=all", "pins={prefill.prompts: 8}")
    (service,) = explain(plan, "service")
    active = plan.generate.batch - 3.5
    assert plan.service.tokens_per_s == pytest.approx(active / plan.service.tpot_s, rel=1e-3)
    assert any(f"= {active:g} sequences / TPOT (3.5 slots wait" in sentence for sentence in service.sentences)
