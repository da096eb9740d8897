"""Experts, latents, windows and shared caches in a step: sizes as published, and what each may never make worse."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_models import DEEPSEEK_V3, GEMMA3_27B, GPT_OSS, QWEN3_30B, SCOUT, SHARING

from cost_models.blocks import AttentionKind
from cost_models.chips import chip
from cost_models.collectives import all_gather_s, all_to_all_s
from cost_models.layouts import kv_by_batch_ici_s
from cost_models.matmul import matmul
from cost_models.moe import Mixture, busiest_load, dispatch_s, imbalance
from cost_models.placement import Layout, kv_bytes_per_chip, weight_bytes_per_chip
from cost_models.stacks import BOOK, Stack, measured_stacks, stack
from cost_models.step import step
from cost_models.torus import TorusAxis
from cost_models.transformer import Numerics, Transformer, Work, generate, prefill

V5E, H200 = chip("v5e"), chip("h200")
BF16, INT8 = Numerics(), Numerics(weights="int8")
EIGHT, FOUR = TorusAxis("x", 8, False), TorusAxis("y", 4, False)
WITHIN_ROUNDING = 1 + 1e-9
SHAPES = Path(__file__).resolve().parents[1] / "reference" / "model_shapes.csv"

any_sparse = st.sampled_from([DEEPSEEK_V3, QWEN3_30B, SCOUT, GPT_OSS])
any_model = st.sampled_from([DEEPSEEK_V3, QWEN3_30B, SCOUT, GPT_OSS, GEMMA3_27B, SHARING])
any_stack = st.sampled_from([BOOK, *(each for each in measured_stacks() if each.prices_steps)])
batches = st.integers(1, 2048)
contexts = st.integers(1, 100_000)


# --- sizes ---


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("deepseek-v3", DEEPSEEK_V3),
        ("qwen3-30b-a3b", QWEN3_30B),
        ("llama-4-scout-17b-16e", SCOUT),
        ("gpt-oss-120b", GPT_OSS),
        ("gemma-3-27b", GEMMA3_27B),
    ],
)
def test_parameters_and_cache_are_those_of_the_published_model(name: str, model: Transformer) -> None:
    """Within half a percent: norms, biases and, of Gemma, a tied head are left out. The table counts no window."""
    row = next(
        each for each in csv.DictReader(SHAPES.read_text(encoding="utf-8").splitlines()) if each["model"] == name
    )
    embedding = 0 if name.startswith("gemma") else model.vocab * model.d_model
    assert model.parameters + embedding == pytest.approx(int(row["parameters"]), rel=5e-3)
    one_token = kv_bytes_per_chip(model, generate(1, 1), Layout(), BF16)
    assert one_token / 1024 == pytest.approx(float(row["kv_kib_per_token"]), abs=0.05)


def test_a_token_of_deepseek_meets_37_billion_weights() -> None:
    embedding = DEEPSEEK_V3.vocab * DEEPSEEK_V3.d_model
    assert (DEEPSEEK_V3.active_parameters + embedding) / 1e9 == pytest.approx(37.6, rel=0.01)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: replace(GEMMA3_27B, layers=60), "do not add up to 60 layers"),
        (lambda: replace(QWEN3_30B, parallel_block=True), "needs serial blocks"),
        (lambda: replace(DEEPSEEK_V3, head_dim=128), "head_dim is 128"),
        (lambda: replace(DEEPSEEK_V3, attention=(AttentionKind(61, 128),)), "latent attention with a window"),
        (lambda: Layout(hidden=(EIGHT,), whole_experts=3), "do not make up 3 parts"),
        (lambda: Layout(nodes=2, experts=(EIGHT,)), "give the layout one node"),
        (lambda: step(QWEN3_30B, prefill(1, 9), Layout((EIGHT,), kv="sequence"), BF16, V5E), "generate alone"),
    ],
)
def test_what_is_not_priced_is_refused(broken: object, message: str) -> None:
    assert callable(broken)
    with pytest.raises(ValueError, match=message):
        broken()


# --- experts ---


@given(st.one_of(st.builds(generate, batches, contexts), st.builds(prefill, st.integers(1, 8), st.integers(1, 8192))))
def test_a_mixture_of_one_expert_is_a_dense_mlp_and_its_router(work: Work) -> None:
    dense = Transformer(32, 4096, 14336, 32, 8, 128, 128256)
    one = replace(dense, d_ff=1, mixture=Mixture(1, 1, 14336))
    layout = Layout(hidden=(EIGHT,))
    router = matmul(
        work.tokens, 4096, 1,
        weight_bytes_per_element=2, activation_bytes_per_element=2, compute_dtype="bf16", chip=V5E,
    )  # fmt: skip
    expected = step(dense, work, layout, BF16, V5E).total_s + 32 * router.total_s()
    assert step(one, work, layout, BF16, V5E).total_s == pytest.approx(expected)


def test_one_sequence_reads_the_experts_that_it_uses() -> None:
    """61 layers: 187 M of attention, 3 of them 396 M dense, 58 of them 9 experts of 44 M and 1.8 M of router."""
    found = step(DEEPSEEK_V3, generate(1, 1), Layout(), INT8, H200)
    read = 61 * 187.1e6 + 3 * 396.4e6 + 58 * (9 * 44.04e6 + 1.835e6) + 129280 * 7168
    assert found.weights_s * H200.hbm_bytes_per_s == pytest.approx(read, rel=2e-3)


@given(any_sparse, st.integers(1, 8), any_stack)
def test_a_small_batch_waits_longer_for_whole_experts_than_for_cut_ones(
    model: Transformer, batch: int, on: Stack
) -> None:
    """Of cut experts all chips read as much; of whole ones the busiest chip reads more than the mean."""
    cut, whole = (
        step(model, generate(batch, 1), Layout(hidden=(EIGHT,), whole_experts=ways), INT8, V5E, on) for ways in (1, 8)
    )
    assert cut.weights_s < whole.weights_s


def test_every_token_crosses_to_its_experts_and_back() -> None:
    work = generate(512, 1)
    found = step(DEEPSEEK_V3, work, Layout(experts=(EIGHT,)), INT8, V5E)
    crossing = 58 * dispatch_s(512, 7168, 2, 8, (EIGHT,), V5E) * imbalance(512, 8, 8)
    assert found.collective_bytes_s + found.collective_latency_s == pytest.approx(crossing)


def test_many_tokens_are_spread_over_the_chips_of_the_experts() -> None:
    """Each of eight chips computes an eighth, the busiest at most a twentieth more."""
    one, eight = (step(QWEN3_30B, prefill(64, 4096), each, BF16, V5E) for each in (Layout(), Layout(experts=(EIGHT,))))
    mean = (one.compute_s + one.weights_s) / 8
    assert mean <= eight.compute_s + eight.weights_s <= 1.05 * mean


@given(any_sparse, batches)
def test_expert_parallelism_copies_attention_and_splits_experts(model: Transformer, batch: int) -> None:
    one, many = Layout(), Layout(experts=(EIGHT,))
    routed = sum(b.layers * p.parameters for b in model.blocks for p in b.projections if p.experts > 1)
    spared = weight_bytes_per_chip(model, one, INT8) - weight_bytes_per_chip(model, many, INT8)
    assert spared == pytest.approx((routed + model.vocab * model.d_model) * 7 / 8)
    work = generate(8 * batch, 1000)
    assert kv_bytes_per_chip(model, work, many, INT8) == pytest.approx(kv_bytes_per_chip(model, work, one, INT8) / 8)


@given(any_sparse, batches, st.integers(1, 64))
def test_more_tokens_never_read_fewer_experts_nor_more_than_there_are(
    model: Transformer, batch: int, more: int
) -> None:
    assert model.mixture
    sizes = model.mixture.experts, model.mixture.experts_per_token
    (few_rows, few), (many_rows, many) = (busiest_load(tokens, *sizes, 8) for tokens in (batch, batch + more))
    assert few <= many * WITHIN_ROUNDING <= sizes[0] / 8 * WITHIN_ROUNDING**2
    assert few_rows <= many_rows * (1 + 1e-3)


@given(any_sparse, batches, any_stack)
def test_narrower_experts_never_slow_a_step(model: Transformer, batch: int, on: Stack) -> None:
    layout = Layout(hidden=(EIGHT,), whole_experts=8)
    wide, narrow = (
        step(model, generate(batch, 1000), layout, Numerics(experts=dtype), H200, on) for dtype in ("bf16", "fp4")
    )
    assert narrow.total_s <= wide.total_s * WITHIN_ROUNDING
    assert wide == step(model, generate(batch, 1000), layout, BF16, H200, on)


@pytest.mark.parametrize("model", [DEEPSEEK_V3, QWEN3_30B])
def test_gathered_experts_are_all_gathered(model: Transformer) -> None:
    found = step(model, prefill(64, 1024), Layout(gathered=(EIGHT,)), BF16, V5E)
    gathered = sum(block.layers * all_gather_s(2 * block.parameters, (EIGHT,), V5E) for block in model.blocks)
    assert found.collective_bytes_s + found.collective_latency_s == pytest.approx(gathered)


# --- latents ---


@given(batches, contexts, st.sampled_from([1, 2, 8, 64]))
def test_a_latent_cache_is_never_split_by_heads(batch: int, context: int, ways: int) -> None:
    """Bug log A3: there is one latent for all heads, so chips hold copies unless they split sequences or tokens."""
    work, axes = generate(batch, context), (TorusAxis("x", ways, False),)
    whole = batch * context * 61 * 576 * 2
    assert kv_bytes_per_chip(DEEPSEEK_V3, work, Layout(hidden=axes), BF16) == whole
    by_batch = kv_bytes_per_chip(DEEPSEEK_V3, work, Layout(hidden=axes, kv="batch"), BF16)
    by_tokens = kv_bytes_per_chip(DEEPSEEK_V3, work, Layout(hidden=axes, kv="sequence"), BF16)
    assert (by_batch, by_tokens) == pytest.approx((whole / min(batch, ways), whole / ways))


def test_every_chip_reads_a_copied_latent() -> None:
    """512 to 8192 tokens cost a full read on each of 64 chips."""
    steps = [step(DEEPSEEK_V3, generate(8, length), Layout(hidden=(EIGHT,)), INT8, V5E) for length in (512, 8192)]
    more = steps[1].kv_cache_s - steps[0].kv_cache_s
    assert more == pytest.approx(8 * 7680 * 61 * 576 * 2 / V5E.hbm_bytes_per_s, rel=0.01)


def test_queries_of_latents_cross_to_their_sequences_absorbed() -> None:
    """576 elements a head go to the cache and 512 come back; the latent itself is on every chip already."""
    work, by_heads = generate(64, 1000), Layout(hidden=(EIGHT,))
    here, there = (step(DEEPSEEK_V3, work, each, INT8, V5E) for each in (by_heads, replace(by_heads, kv="batch")))
    crossing = there.collective_bytes_s + there.collective_latency_s
    crossing -= here.collective_bytes_s + here.collective_latency_s
    both = (kv_by_batch_ici_s(64, 128, width, 2, (EIGHT,), V5E) / 2 for width in (576, 512))
    assert crossing == pytest.approx(61 * sum(both))


def test_a_cached_prefix_of_latents_is_expanded_again() -> None:
    new, cached = (step(DEEPSEEK_V3, prefill(1, 64, tokens), Layout(), INT8, H200) for tokens in (0, 8192))
    expanding = 61 * 2 * 8192 * 512 * 128 * 256 / H200.flops_per_s("bf16")
    assert cached.compute_s + cached.weights_s > new.compute_s + new.weights_s + expanding


# --- windows and shared caches ---


@given(st.integers(1, 256), contexts, st.integers(1, 8192), any_stack)
def test_a_window_never_slows_a_step_nor_stores_more(batch: int, context: int, window: int, on: Stack) -> None:
    full = replace(GEMMA3_27B, attention=())
    local = replace(GEMMA3_27B, attention=(AttentionKind(52, window), AttentionKind(10)))
    for work in (generate(batch, context), prefill(1, context)):
        slow, fast = (step(each, work, Layout(hidden=(EIGHT,)), BF16, V5E, on) for each in (full, local))
        assert fast.total_s <= slow.total_s * WITHIN_ROUNDING
    few, many = (kv_bytes_per_chip(each, generate(batch, context), Layout(), BF16) for each in (local, full))
    assert few <= many * WITHIN_ROUNDING


def test_a_local_layer_holds_and_reads_its_window() -> None:
    work = generate(4, 32768)
    per_token = 2 * 16 * 128 * 2
    held = kv_bytes_per_chip(GEMMA3_27B, work, Layout(), BF16)
    assert held == 4 * per_token * (52 * 1024 + 10 * 32768)
    read_s = step(GEMMA3_27B, work, Layout(), BF16, V5E).kv_cache_s
    assert read_s == pytest.approx(held / V5E.hbm_bytes_per_s, rel=0.01)


@given(st.integers(1, 256), contexts, any_stack)
def test_a_shared_cache_stores_less_and_reads_the_same(batch: int, context: int, on: Stack) -> None:
    own = replace(SHARING, attention=tuple(replace(each, own_cache=True) for each in SHARING.attention))
    work, layout = generate(batch, context), Layout(hidden=(TorusAxis("x", 2, False),))
    few, many = (kv_bytes_per_chip(each, work, layout, BF16) for each in (SHARING, own))
    assert few < many
    assert weight_bytes_per_chip(SHARING, layout, BF16) < weight_bytes_per_chip(own, layout, BF16)
    shared, alone = (step(each, work, layout, BF16, V5E, on) for each in (SHARING, own))
    assert shared.kv_cache_s == alone.kv_cache_s
    assert shared.total_s <= alone.total_s * WITHIN_ROUNDING


def test_layers_that_share_a_cache_send_no_keys_to_it() -> None:
    layout = Layout(hidden=(EIGHT,), kv="batch")
    found = step(SHARING, generate(64, 1000), layout, BF16, V5E)
    plain = step(SHARING, generate(64, 1000), replace(layout, kv="heads"), BF16, V5E)
    queries, made = 8 * 256, 2 * 2 * 256
    there = sum(
        layers * all_to_all_s(64 * width * 2, (EIGHT,), V5E) for layers, width in ((20, queries + made), (10, queries))
    )
    back = 30 * all_to_all_s(64 * queries * 2, (EIGHT,), V5E)
    crossing = found.collective_bytes_s + found.collective_latency_s
    crossing -= plain.collective_bytes_s + plain.collective_latency_s
    assert crossing == pytest.approx(there + back)


# --- a cache split along its tokens ---


@given(st.sampled_from([QWEN3_30B, DEEPSEEK_V3, GEMMA3_27B]), st.integers(1, 64), contexts)
def test_split_along_its_tokens_a_cache_is_read_by_all_chips(model: Transformer, batch: int, context: int) -> None:
    heads, tokens = (Layout(hidden=(EIGHT, FOUR), kv=kv) for kv in ("heads", "sequence"))
    work = generate(batch, context)
    assert kv_bytes_per_chip(model, work, tokens, BF16) <= kv_bytes_per_chip(model, work, heads, BF16)


def test_partial_softmax_is_merged_with_a_maximum_and_a_sum() -> None:
    """Queries, new keys and values gathered; outputs of 128 elements and two numbers of each head scattered."""
    model, axes, work = replace(GEMMA3_27B, attention=()), (EIGHT, FOUR), generate(1024, 100_000)
    heads, tokens = (step(model, work, Layout(hidden=axes, kv=kv), BF16, V5E) for kv in ("heads", "sequence"))
    queries, partials = 1024 * 2 * (32 + 2 * 16) * 128, 1024 * 2 * 32 * (128 + 2)
    merge = all_gather_s(queries, axes, V5E) + all_gather_s(partials, axes, V5E)
    before = heads.collective_bytes_s + heads.collective_latency_s
    assert tokens.collective_bytes_s + tokens.collective_latency_s - before == pytest.approx(62 * merge)
    assert tokens.total_s < heads.total_s


def test_a_short_context_is_not_split_below_one_token() -> None:
    one, none = (
        step(QWEN3_30B, generate(1, tokens), Layout(hidden=(EIGHT,), kv="sequence"), BF16, V5E) for tokens in (8, 1)
    )
    assert one.kv_cache_s == none.kv_cache_s > 0


# --- drafts ---


@given(
    st.sampled_from([QWEN3_30B, DEEPSEEK_V3, GEMMA3_27B]), st.integers(1, 64), contexts, st.integers(1, 7), any_stack
)
def test_verifying_drafts_costs_less_than_as_many_steps(
    model: Transformer, batch: int, context: int, drafts: int, on: Stack
) -> None:
    layout = Layout(hidden=(EIGHT,))
    one, verify = (step(model, generate(batch, context, rows), layout, BF16, V5E, on) for rows in (1, drafts + 1))
    assert one.total_s <= verify.total_s * WITHIN_ROUNDING <= (drafts + 1) * one.total_s * WITHIN_ROUNDING**2


# --- the constants of experts ---


def test_borrowed_constants_are_those_of_their_owner() -> None:
    for each in measured_stacks():
        for name, source in each.sources.items():
            if source.startswith("borrowed: that of "):
                owner = stack(source.removeprefix("borrowed: that of ").split(",")[0])
                assert getattr(each, name) == pytest.approx(getattr(owner, name), rel=0.05)
