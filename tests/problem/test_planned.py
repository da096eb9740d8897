"""The collectives that rule tables imply, written out for the strategies of the literature."""

from dataclasses import replace

import pytest

from planner.problem.planned import (
    INSERTION,
    generate_attention,
    generate_mlp,
    generate_vocab,
    insertion,
    prefill_attention,
    prefill_mlp,
    prefill_step,
)
from planner.problem.primitives import Program
from planner.problem.rules import GenerateRules, PrefillRules, Rules, Ways
from planner.problem.sizes import Sizes

L70B = Sizes(80, 8192, 28672, 64, 8, 128, 128256, False, 1, 4, 2, 2, "bf16")
WAYS = Ways({"x": 4, "y": 4})
TPU = Program(L70B, WAYS, min_scatter_rows=8)

TWO_D = GenerateRules(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y"))
MEGATRON = GenerateRules(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("x", "y"), vocab=("x", "y"))


def listed(collectives):
    return [(c.address.split(".", 1)[1], c.kind, "".join(c.axes), c.bytes, c.repeats) for c in collectives]


def test_2d_weight_stationary_generate():
    assert listed(generate_attention(TWO_D, 32, TPU)) == [
        ("attention.norm", "all_reduce", "x", 32 * 4, 80),
        ("attention.qkv", "reduce_scatter", "x", 32 * (16 + 2 * 2) * 128 * 2, 80),
        ("attention.o_rows", "all_gather", "x", 32 * 16 * 128 * 2, 80),
        ("attention.out", "all_reduce", "y", 32 * 2048 * 2, 80),
    ]
    assert listed(generate_mlp(TWO_D, 32, TPU)) == [
        ("mlp.norm", "all_reduce", "x", 32 * 4, 80),
        ("mlp.hidden", "reduce_scatter", "x", 32 * 2 * 7168 * 2, 80),
        ("mlp.hidden_rows", "all_gather", "x", 32 * 7168 * 2, 80),
        ("mlp.out", "all_reduce", "y", 32 * 2048 * 2, 80),
    ]


def test_a_scatter_of_too_few_rows_is_planned_as_an_all_reduce():
    found = listed(generate_mlp(TWO_D, 16, TPU))
    assert ("mlp.hidden", "all_reduce", "x", 16 * 2 * 7168 * 2, 80) in found
    assert not any(address == "mlp.hidden_rows" for address, *_ in found)


def test_batch_sharded_cache_costs_two_all_to_alls_and_one_all_reduce():
    assert listed(generate_attention(MEGATRON, 32, TPU)) == [
        ("attention.q_to_batch", "all_to_all", "x", 32 * 4 * 128 * 2, 80),
        ("attention.o_to_heads", "all_to_all", "x", 32 * 4 * 128 * 2, 80),
        ("attention.out", "all_reduce", "yx", 32 * 8192 * 2, 80),
    ]


def test_weight_gathered_prefill_gathers_every_weight_and_the_keys_but_no_activations():
    rules = PrefillRules(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y"))
    found = listed([*prefill_attention(TWO_D, rules, 2048, TPU), *prefill_mlp(TWO_D, rules, 2048, TPU)])
    assert found == [
        ("attention.gather_w_q", "all_gather", "x", 16 * 128 * 8192, 80),
        ("attention.gather_w_kv", "all_gather", "x", 4 * 128 * 8192, 80),
        ("attention.gather_w_o", "all_gather", "x", 16 * 128 * 8192, 80),
        ("attention.gather_w_o_scale", "all_gather", "x", 8192 * 4, 80),
        ("attention.kv_tokens", "all_gather", "x", 2048 * 4 * 128 * 2, 80),
        ("attention.out", "all_reduce", "y", 512 * 8192 * 2, 80),
        ("mlp.gather_w_in", "all_gather", "x", 2 * 7168 * 8192, 80),
        ("mlp.gather_w_down", "all_gather", "x", 7168 * 8192, 80),
        ("mlp.gather_w_down_scale", "all_gather", "x", 8192 * 4, 80),
        ("mlp.out", "all_reduce", "y", 512 * 8192 * 2, 80),
    ]


BY_BATCH = GenerateRules(batch=("x",), q_heads=("y", "x"), kv_heads=("y",))
BY_TOKENS = PrefillRules(tokens=("x",), q_heads=("y",), kv_heads=("y",))
TOKEN_BYTES = 4 * 128 * 2


@pytest.mark.parametrize("prompts", [1, 2, 6])
def test_keys_and_values_are_gathered_over_axes_that_cut_no_whole_prompts(prompts):
    found = listed(prefill_attention(BY_BATCH, BY_TOKENS, 512, TPU, prompts))
    assert ("attention.kv_tokens", "all_gather", "x", prompts * 512 * TOKEN_BYTES, 80) in found
    assert listed(insertion(BY_BATCH, BY_TOKENS, 512, TPU, prompts)) == []


@pytest.mark.parametrize("prompts", [4, 8])
def test_prompts_stay_where_they_are_read_until_they_are_inserted_one_by_one(prompts):
    found = listed(prefill_attention(BY_BATCH, BY_TOKENS, 512, TPU, prompts))
    assert "attention.kv_tokens" not in {address for address, *_ in found}
    inserted = [("insert.kv_prompt", "all_reduce", "x", 512 * TOKEN_BYTES, 80 * prompts)]
    assert listed(insertion(BY_BATCH, BY_TOKENS, 512, TPU, prompts)) == inserted


def test_a_slice_that_only_reads_hands_over_each_chips_part_of_a_prompt():
    apart = replace(TPU, apart=True)
    rules = PrefillRules(tokens=("x", "y"))
    assert listed(insertion(BY_BATCH, rules, 512, apart, 16)) == [
        ("insert.kv_prompt", "reduce_scatter", "x", 512 * 4 * TOKEN_BYTES, 80 * 16),
        ("insert.kv_prompt", "reduce_scatter", "y", 128 * 4 * TOKEN_BYTES, 80 * 16),
    ]


def test_axes_within_a_prompt_gather_its_tokens_and_those_of_prompts_bring_it_whole():
    rules = PrefillRules(tokens=("x", "y"))
    found = listed(prefill_attention(BY_BATCH, rules, 512, TPU, 4))
    assert ("attention.kv_tokens", "all_gather", "y", 512 * 4 * TOKEN_BYTES, 80) in found
    assert listed(insertion(BY_BATCH, rules, 512, TPU, 4)) == [
        ("insert.kv_prompt", "all_reduce", "x", 512 * 4 * TOKEN_BYTES, 320)
    ]


def test_prompts_are_inserted_once_however_many_chunks_they_are_read_in():
    tables = Rules(BY_BATCH, BY_TOKENS)
    whole, chunks = (
        [each for each in prefill_step(tables, 512, TPU, 4, chunk) if each.address.startswith(INSERTION)]
        for chunk in (None, 128)
    )
    assert whole == chunks != []


def test_sequence_parallel_prefill_gathers_tokens_and_scatters_them_back():
    stored = GenerateRules(q_heads=("y",), kv_heads=("y",), d_ff=("y",))
    rules = PrefillRules(tokens=("y",), q_heads=("y",), kv_heads=("y",), d_ff=("y",))
    whole = 2048 * 8192 * 2
    assert listed([*prefill_attention(stored, rules, 2048, TPU), *prefill_mlp(stored, rules, 2048, TPU)]) == [
        ("attention.tokens", "all_gather", "y", whole, 80),
        ("attention.out", "reduce_scatter", "y", whole, 80),
        ("mlp.tokens", "all_gather", "y", whole, 80),
        ("mlp.out", "reduce_scatter", "y", whole, 80),
    ]


@pytest.mark.parametrize("rules", [TWO_D, MEGATRON, GenerateRules(vocab=("y",))])
def test_no_collective_of_generate_carries_batch_times_vocabulary(rules):
    batch = 32
    largest = max((c.bytes for c in generate_vocab(rules, batch, TPU)), default=0)
    assert largest < batch * L70B.vocab


def test_axes_of_size_one_make_no_collective():
    single = Program(L70B, Ways({"x": 1, "y": 1}), min_scatter_rows=8)
    everything = [
        *generate_attention(MEGATRON, 32, single),
        *generate_mlp(TWO_D, 32, single),
        *generate_vocab(TWO_D, 32, single),
    ]
    assert everything == []
