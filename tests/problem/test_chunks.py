"""A prefill in chunks costs what its steps cost one by one, and holds the activations of one of them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cost_models.attention import prefill_attention
from cost_models.chips import chip
from cost_models.lengths import fitted
from cost_models.meshes import meshes
from cost_models.mla import expanded_attention
from cost_models.roofline import Roofline
from cost_models.stacks import step_stacks
from cost_models.torus import parse_slice
from planner.problem import costs, hbm, planned
from planner.problem.build import build, chunks_of, prefill_buckets
from planner.problem.chunks import Steps, steps_of
from planner.problem.costs import Work, local_s, parts_of
from planner.problem.machine import Machine
from planner.problem.options import Option
from planner.problem.pins import allowed_by
from planner.problem.problem import Place
from planner.problem.rules import GenerateRules, PrefillRules, Rules, prompt_axes, without
from planner.problem.sizes import Sizes
from planner.problem.tables import Load, Pricer
from planner.spec import Spec, load_spec
from tests.plans_of import SPECS
from tests.problem.test_family_floors import SLICES, models

LONGEST = 4096
EQUAL = fitted(1024, 1024)
EVERY = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


class Read:
    """One legal layout of a small model of any family, and how it is read."""

    def __init__(self, draw: st.DrawFn, family: str) -> None:
        name, shape = draw(st.sampled_from(SLICES))
        slice_ = parse_slice(chip(name), shape)
        mesh = draw(st.sampled_from(meshes(slice_)))
        self.machine = Machine(chip(name), draw(st.sampled_from(step_stacks())), slice_, mesh, draw(models(family)))
        self.prompts, self.chunk = draw(st.sampled_from([1, 4])), draw(st.sampled_from([64, 256, 384, 1024]))
        self.tokens = draw(st.sampled_from([512, 2048, 3000]))
        load = Load((64,), (self.prompts,), self.tokens, (64, LONGEST), EQUAL, 3000.0, LONGEST, 128, (self.chunk,))
        pricer = Pricer(self.machine, load, allowed_by({}, {}))
        self.rules = {}
        for block in self.machine.sizes.blocks:
            keys = pricer.pairs(block, load.even(self.chunk)).space.keys
            tables = list(dict.fromkeys(pricer.rules(block, Option(*key)) for key in keys))
            assume(tables)
            self.rules[block] = draw(st.sampled_from(tables))

    def work(self, block: str, chunk: int | None, tokens: int | None = None) -> Work:
        """The prefill of a block."""
        stored, rules = self.rules[block]
        told = (self.tokens if tokens is None else tokens), self.machine, self.prompts, chunk
        if block == "vocab":
            return costs.prefill_vocab_work(rules, *told)
        return getattr(costs, f"prefill_{block}_work")(stored, rules, *told)


@st.composite
def reads(draw: st.DrawFn, families: tuple[str, ...] = ("dense", "windows", "mixture", "latent")) -> Read:
    return Read(draw, draw(st.sampled_from(families)))


def chunk_scores(read: Read, end: int) -> Roofline:
    """Attention of one chunk that ends at a token, by the formulas of attention, in all layers."""
    machine, sizes = read.machine, read.machine.sizes
    (stored, rules), ways = read.rules["attention"], read.machine.ways
    heads, own = sizes.heads(stored, ways), without(rules.tokens, rules.q_heads)
    apart = prompt_axes(own, read.prompts, ways)
    queries = steps_of(read.tokens, read.chunk).tokens / ways(without(own, apart)) / ways(rules.d_model)
    q_heads, kv_heads = heads.q_padded / ways(rules.q_heads), heads.kv_padded / ways(rules.kv_heads)
    told: dict[str, Any] = {
        "activation_bytes_per_element": sizes.activation_bytes,
        "compute_dtype": sizes.compute_dtype,
        "chip": machine.chip,
        "stack": machine.stack,
        "causal": machine.stack.masked_pairs == "skipped",
        "sequences": read.prompts / ways(apart),
    }
    if sizes.latent:
        return expanded_attention(queries, end, q_heads, sizes.latent, **told) * sizes.layers
    found, told["kv_bytes_per_element"] = Roofline(), sizes.activation_bytes
    for kind in sizes.kinds:
        for _ in range(kind.layers):
            found += prefill_attention(queries, end, q_heads, kv_heads, sizes.head_dim, window=kind.window, **told)
    return found


@EVERY
@given(reads())
def test_the_scores_of_chunks_are_the_sum_over_the_chunks(read: Read) -> None:
    steps = steps_of(read.tokens, read.chunk)
    direct = Roofline()
    for step in range(steps.number):
        direct += chunk_scores(read, (step + 1) * steps.tokens)
    found = read.work("attention", read.chunk).local["attention.kv_cache"]
    assert found.compute_s == pytest.approx(direct.compute_s, rel=1e-9)
    assert found.hbm_s == pytest.approx(direct.hbm_s, rel=1e-9)


@EVERY
@given(reads())
def test_everything_else_is_a_step_of_one_chunk_times_the_chunks(read: Read) -> None:
    steps = steps_of(read.tokens, read.chunk)
    for block in read.rules:
        whole, step = read.work(block, read.chunk), read.work(block, None, steps.tokens)
        for part, cost in step.local.items():
            if part == "attention.kv_cache" or (part == "attention.qkv" and read.machine.sizes.latent):
                continue
            assert whole.local[part].compute_s == pytest.approx(steps.number * cost.compute_s)
            assert whole.local[part].hbm_s == pytest.approx(steps.number * cost.hbm_s)
            assert whole.local[part].fixed_s == pytest.approx(steps.number * cost.fixed_s)
        told = [each._replace(repeats=each.repeats * steps.number) for each in step.planned]
        assert list(whole.planned) == told


@EVERY
@given(reads(families=("latent",)))
def test_latents_of_the_prefix_are_expanded_again_by_every_chunk(read: Read) -> None:
    sizes, ways, steps = read.machine.sizes, read.machine.ways, steps_of(read.tokens, read.chunk)
    assert sizes.latent is not None
    stored, rules = read.rules["attention"]
    own = without(rules.tokens, rules.q_heads)
    together = ways(prompt_axes(own, read.prompts, ways))
    q_heads = sizes.heads(stored, ways).q_padded / ways(rules.q_heads)
    told = read.work("attention", None, steps.tokens).local["attention.qkv"]
    expected = told.compute_s * steps.number
    for step in range(steps.number):
        prefix = read.prompts * step * steps.tokens / together
        made = read.machine.matmul(prefix, sizes.latent.latent_dim, q_heads * sizes.latent.made_dim)
        none = read.machine.matmul(0, sizes.latent.latent_dim, q_heads * sizes.latent.made_dim)
        expected += made.compute_s - none.compute_s
    assert read.work("attention", read.chunk).local["attention.qkv"].compute_s == pytest.approx(expected)


@EVERY
@given(reads())
def test_a_chunk_as_long_as_the_bucket_is_the_whole_prompt_exactly(read: Read) -> None:
    for block in read.rules:
        whole = parts_of(read.work(block, None), read.machine)
        assert parts_of(read.work(block, read.tokens), read.machine) == whole
        assert parts_of(read.work(block, read.tokens + 1), read.machine) == whole


@EVERY
@given(reads())
def test_more_chunks_are_never_cheaper_in_matmuls_nor_in_collectives(read: Read) -> None:
    for block in read.rules:
        before_s, talked_s = 0.0, 0.0
        for chunk in (None, 1024, 512, 256, 128, 64):
            work = read.work(block, chunk, 2048)
            matmuls = {part: cost for part, cost in work.local.items() if part != "attention.kv_cache"}
            now_s = local_s(replace(work, local=matmuls), read.machine)
            assert now_s >= before_s * (1 - 1e-9)
            before_s = now_s
            waits_s = sum(each.repeats * read.machine.seconds(each) for each in work.planned)
            assert waits_s >= talked_s * (1 - 1e-6) or block == "experts"
            talked_s = waits_s


@EVERY
@given(reads())
def test_a_chunk_holds_less_but_keeps_the_cache_of_the_whole_prompt(read: Read) -> None:
    sizes, ways, machine = read.machine.sizes, read.machine.ways, read.machine
    stored, rules = read.rules["attention"]
    for block in set(read.rules) - {"vocab"}:
        held = getattr(hbm, f"prefill_{block}_bytes")
        by_chunk = [held(*read.rules[block], LONGEST, sizes, ways, read.prompts, each) for each in (None, 2048, 256)]
        assert by_chunk == sorted(by_chunk, reverse=True)
        assert by_chunk[0] == held(*read.rules[block], LONGEST, sizes, ways, read.prompts, LONGEST)
    heads = sizes.heads(stored, ways)
    token = sizes.stored_token(heads.kv_padded // ways(rules.kv_heads)) * sizes.prefilled_bytes
    apart = ways(prompt_axes(without(rules.tokens, rules.q_heads), read.prompts, ways))
    kept = read.prompts / apart * sizes.attended(LONGEST) * token
    assert hbm.prefill_attention_bytes(stored, rules, LONGEST, sizes, ways, read.prompts, 64) >= kept
    assert machine.sizes.blocks[-1] == "vocab"


@given(
    st.integers(1, 5000),
    st.integers(1, 700),
    st.sampled_from([1, 2, 8]),
    st.none() | st.integers(1, 6000),
    st.booleans(),
)
def test_steps_that_are_grouped_attend_to_what_they_attend_to_one_by_one(
    tokens: int, chunk: int, ways: int, window: int | None, causal: bool
) -> None:
    steps = steps_of(tokens, chunk)
    queries = steps.tokens / ways
    told: dict[str, Any] = {
        "activation_bytes_per_element": 2,
        "kv_bytes_per_element": 2,
        "compute_dtype": "bf16",
        "chip": chip("v5e"),
        "window": window,
        "causal": causal,
    }
    direct, grouped = Roofline(), Roofline()
    for step in range(steps.number):
        direct += prefill_attention(queries, (step + 1) * steps.tokens, 8, 2, 128, **told)
    groups = steps.alike(queries, window)
    for count, read in groups:
        grouped += prefill_attention(queries, read, 8, 2, 128, **told) * count
    assert sum(count for count, _ in groups) == steps.number
    assert len(groups) <= 3 + (window is not None)
    assert (grouped.compute_s, grouped.hbm_s) == pytest.approx((direct.compute_s, direct.hbm_s), rel=1e-9)


def test_a_prompt_that_is_no_longer_than_a_chunk_is_read_whole() -> None:
    assert steps_of(512, None) == steps_of(512, 512) == steps_of(512, 4096) == Steps(1, 512)
    assert steps_of(513, 256) == Steps(3, 256)
    assert steps_of(513, 256).read == 768


def test_a_generate_step_runs_between_chunks_where_others_are_generated() -> None:
    assert Place.of(4, 1, 8, 4).between == 3
    assert Place.of(4, 1, 8).between == 0
    assert Place.of(4, 8, 8, 4).between == 0


def spec_with(*overrides: str) -> Spec:
    return load_spec(SPECS / "llama_3_1_70b_v5e_4x4.yaml", ["serving.strategies=all", *overrides])


def offered(*overrides: str) -> tuple[int | None, ...]:
    spec = spec_with("hardware.slice=4x4", *overrides)
    return build(spec).problem.meshes[0].source.load.chunks


def test_chunks_are_offered_as_the_spec_says() -> None:
    assert offered() == offered("serving.chunked_prefill=off") == (None,)
    assert offered("serving.chunked_prefill=512") == (512,)
    assert offered("serving.chunked_prefill=1000000") == (None,)
    assert offered("serving.chunked_prefill=auto") == (None, 256, 512, 1024)
    assert offered("serving.chunked_prefill=auto", "pins.prefill.chunk=none") == (None,)
    assert offered("pins.prefill.chunk=300") == (300,)


def test_the_chunks_offered_divide_the_planned_bucket_or_are_for_longer_ones() -> None:
    for context in (1024, 1100, 1500, 3000, 4096):
        lengths = "workload.prompt_tokens={mean: 600, p95: 900}", f"workload.max_context={context}"
        spec = spec_with("serving.chunked_prefill=auto", *lengths)
        buckets = prefill_buckets(spec, 16)
        planned_bucket = next(each for each in buckets if each >= 600)
        for chunk in chunks_of(spec, buckets, planned_bucket)[1:]:
            assert chunk is not None
            assert chunk < buckets[-1]
            assert planned_bucket % chunk == 0


def test_token_axes_divide_chunks_and_buckets() -> None:
    load = Load((1,), (1,), 1024, (128, 2048), EQUAL, 1.0, 2048, 128)
    assert [load.even(each) for each in (None, 64, 256, 300)] == [128, 64, 128, 4]


def test_a_plan_lists_the_collectives_of_all_chunks() -> None:
    slice_ = parse_slice(chip("v5e"), "2x4")
    sizes = Sizes(32, 4096, 14336, 32, 8, 128, 128256, False, 1, 0, 2, 2, "bf16", lanes=128)
    machine = Machine(chip("v5e"), step_stacks()[0], slice_, meshes(slice_)[0], sizes)
    axes = tuple(axis.name for axis in machine.mesh)
    rules = Rules(
        GenerateRules(q_heads=axes, kv_heads=axes, d_ff=axes), PrefillRules(q_heads=axes, kv_heads=axes, d_ff=axes)
    )
    once = planned.prefill_step(rules, 256, machine.program)
    assert planned.prefill_step(rules, 1024, machine.program, 1, 256) == [
        each._replace(repeats=4 * each.repeats) for each in once
    ]
