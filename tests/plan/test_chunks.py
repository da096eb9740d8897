"""Plans whose prefill reads prompts in chunks: chosen where whole prompts do not fit, told, replayed, asked about."""

import pytest

from planner.diff import compare
from planner.errors import InfeasibleSpec
from planner.explain.causes import phase_weights
from planner.explain.explain import explain
from planner.explain.why_not import why_not
from planner.plan.chosen import chosen_of
from planner.plan.file import plan_to_yaml
from planner.plan.ledger import ledger_to_jsonl
from planner.plan.make import make_plan, solve_spec
from planner.plan.schema import Plan
from planner.plan.show import prompts_text, service_text
from planner.problem.costs import total_s
from planner.render import render_package
from planner.simulate import simulate
from planner.simulate.steps import steps_of
from planner.solve.ledger import ledger_of
from planner.spec import load_spec
from tests.plans_of import SPECS, example_plan

NAME = "llama_3_1_70b_v5e_4x4"
ALL, AUTO = "serving.strategies=all", "serving.chunked_prefill=auto"
LONG = (
    "workload={prompt_tokens: {mean: 8192, p95: 120000}, output_tokens: {mean: 256, p95: 512}, concurrency: 2}",
    ALL,
)
CONSTANT = (
    "workload.prompt_tokens={mean: 1024, p95: 1024}",
    "workload.output_tokens={mean: 256, p95: 256}",
    ALL,
)


def chunked(*overrides: str) -> Plan:
    return example_plan(NAME, *CONSTANT, *overrides)


def test_chunks_are_chosen_where_the_activations_of_whole_prompts_do_not_fit() -> None:
    with pytest.raises(InfeasibleSpec, match=r"--set serving\.chunked_prefill=auto"):
        make_plan(load_spec(SPECS / f"{NAME}.yaml", LONG))
    plan = example_plan(NAME, *LONG, AUTO)
    assert plan.prefill.chunk is not None
    assert plan.hbm.free >= 0
    assert plan.proof.status == "OPTIMAL"


def test_whole_prompts_are_read_where_they_fit_since_chunks_read_weights_again() -> None:
    whole, free = chunked(), chunked(AUTO)
    assert free.prefill.chunk is None
    assert free.model_copy(update={"spec": whole.spec, "proof": whole.proof}) == whole
    assert "chunk" not in plan_to_yaml(whole)
    assert "stall_s" not in plan_to_yaml(whole)


def test_chunks_cost_time_and_save_activations_and_stalls() -> None:
    whole = chunked("pins={prefill.prompts: 1}")
    plan = chunked("pins={prefill.prompts: 1}", "serving.chunked_prefill=256")
    assert plan.prefill.chunk == 256
    assert plan.prefill.step_s > whole.prefill.step_s
    assert plan.hbm.activations < whole.hbm.activations
    assert plan.service.stall_s is not None
    assert plan.prefill.step_s / 4 < plan.service.stall_s < plan.prefill.step_s / 2
    assert whole.service.stall_s is None


@pytest.mark.parametrize("chunk", ["256", "512", "1000", "1024"])
def test_the_service_of_a_plan_is_what_its_goal_weighs(chunk: str) -> None:
    """Cost of a request in chip-seconds, from the weights that the solver minimised with and from the formulas."""
    plan = chunked(f"serving.chunked_prefill={chunk}")
    weights = phase_weights(plan)
    cost = weights["prefill"] * plan.prefill.step_s + weights["generate"] * plan.generate.step_s
    assert cost == pytest.approx(plan.service.chip_seconds_per_million_tokens * 256 / 1e6, rel=1e-4)
    assert cost * 1e9 == pytest.approx(plan.proof.value, rel=1e-4)


def test_a_plan_with_chunks_is_priced_again_as_it_was() -> None:
    plan = chunked("serving.chunked_prefill=256")
    chosen = chosen_of(plan)
    assert chosen.chunk == 256
    assert total_s(chosen.prefill_parts(), chosen.machine) == pytest.approx(plan.prefill.step_s, rel=1e-5)
    assert sum(part.total_s for part in plan.prefill.parts) == pytest.approx(plan.prefill.step_s, rel=1e-5)


@pytest.mark.parametrize("chunk", [256, 512])
def test_a_replay_with_constant_lengths_reproduces_the_service_formulas(chunk: int) -> None:
    """Slots that end between the chunks of another prompt wait for the rest of them: queueing, which TTFT lacks."""
    plan = chunked(f"serving.chunked_prefill={chunk}", "pins={prefill.prompts: 1}")
    found = simulate(plan, 600, 0)
    assert found.tokens_per_s == pytest.approx(plan.service.tokens_per_s, rel=0.01)
    assert found.tpot_s.mean == pytest.approx(plan.service.tpot_s, rel=0.04)
    assert plan.service.ttft_s < found.ttft_s.mean < 1.15 * plan.service.ttft_s


def test_a_replay_reads_a_prompt_by_its_chunks() -> None:
    plan = chunked("serving.chunked_prefill=256")
    steps = steps_of(plan)
    assert len(steps.reads_s(plan.prefill.tokens)) == 4
    assert sum(steps.reads_s(plan.prefill.tokens)) == pytest.approx(plan.prefill.step_s)
    assert steps.reads_s(plan.prefill.tokens)[-1] == pytest.approx(plan.service.stall_s, rel=1e-4)
    assert steps.reads_s(200) == (steps.prompt_s(200),)
    assert list(steps.chunks_s) == sorted(steps.chunks_s)
    assert len(steps.reads_s(10**9)) == len(steps.chunks_s) == -(-plan.prefill.buckets[-1] // 256)


def test_a_plan_says_how_it_reads_prompts() -> None:
    plan = chunked("serving.chunked_prefill=256", "pins={prefill.prompts: 1}")
    assert prompts_text(plan.prefill) == "one prompt of 1024 tokens, in 4 chunks of 256"
    assert "prefill stops generation for" in service_text(plan.service)
    longer = chunked("serving.chunked_prefill=1024", "pins={prefill.prompts: 1}")
    assert prompts_text(longer.prefill) == "one prompt of 1024 tokens, longer ones in chunks of 1024"


def test_explanations_add_up_over_chunks() -> None:
    plan = chunked("serving.chunked_prefill=256")
    told = "\n".join(
        sentence for address in ("service", "hbm", "prefill.mlp.hidden") for sentence in said(plan, address)
    )
    assert "3 steps of" in told
    assert "read in chunks of 256" in told
    assert "320 x [" in told


def said(plan: Plan, address: str) -> tuple[str, ...]:
    return tuple(sentence for each in explain(plan, address) for sentence in each.sentences)


def test_a_difference_tells_the_chunk() -> None:
    found = compare(chunked(), chunked("serving.chunked_prefill=256"))
    (change,) = (each for each in found.changes if each.address == "prefill.chunk")
    assert (change.kind, change.action, change.base, change.head) == ("choice", "add", None, 256)


def test_chunks_can_be_pinned_and_asked_for() -> None:
    whole, parts = why_not(chunked(AUTO), ("prefill.chunk=none", "prefill.chunk=256"))
    assert whole.verdict == "has"
    assert parts.verdict == "costs"
    assert parts.ratio is not None
    assert parts.ratio > 1
    assert sum(each.effect for each in parts.parts) == pytest.approx(parts.ratio - 1, abs=1e-3)
    pinned = chunked("pins={prefill.chunk: 256}")
    assert pinned.prefill.chunk == 256


def test_the_ledger_tells_the_chunk_of_a_candidate() -> None:
    solved = solve_spec(load_spec(SPECS / f"{NAME}.yaml", [*CONSTANT, AUTO, "workload.concurrency=2"]))
    text = ledger_to_jsonl(ledger_of(solved.built.problem, solved.optimum), "chunks")
    assert '"chunk": 256' in text
    assert any('"kind": "candidate"' in line and "chunk" not in line for line in text.splitlines())


def test_a_package_reads_the_chunks_of_its_plan() -> None:
    plan = chunked("serving.chunked_prefill=256")
    config = render_package(plan)["config.py"]
    assert "    chunk=256,\n" in config
    assert f"    prompts={plan.prefill.prompts},\n" in config
