"""Questions about serving: rates, servers, money, and what a generate step keeps in memory."""

from dataclasses import replace

from book_cases import Inputs, asks, cases, with_constants
from book_models import model_parameters

from cost_models.counting import flops_per_token, rows_per_replica
from cost_models.memory import generate_bytes, hbm_share, kv_budget_bytes, max_sequences
from cost_models.serving import (
    chip_seconds_per_token,
    flops_per_usd,
    mfu,
    prefill_servers_per_generate_server,
    queries_per_s,
    sequences_finished_per_step,
    tokens_evicted_per_step,
    tokens_per_s,
)


@asks("app-bs32-throughput")
def tokens_per_second(i: Inputs) -> float:
    return tokens_per_s(i["B"], i["t"])


@asks("app-bs32-throughput-per-chip")
def tokens_per_second_and_chip(i: Inputs) -> float:
    return tokens_per_s(i["thr"], 1, i["N"])


@asks("app-qps-numerator", "app-double-qps-numerator")
def answers_per_second(i: Inputs) -> float:
    return queries_per_s(i["B"], i["t"], i["steps"])


@asks("app-qps-per-chip", "app-double-qps-per-chip")
def answers_per_second_and_chip(i: Inputs) -> list[float]:
    return [queries_per_s(i["B"], i["t"], i["steps"], chips) for chips in i["N"]]


@asks("app-seqs-finished-per-step")
def sequences_finished(i: Inputs) -> float:
    return sequences_finished_per_step(i["B"], i["G"])


@asks("app-tokens-evicted-per-step")
def tokens_evicted(i: Inputs) -> float:
    return tokens_evicted_per_step(i["B"], i["P"], i["G"])


@asks("app-prefill-generate-ratio")
def prefill_servers(i: Inputs) -> float:
    return prefill_servers_per_generate_server(i["t_prefill"], i["B"], i["t_step"], i["G"])


@asks("app-flops-per-dollar")
def operations_of_a_dollar(i: Inputs) -> list[float]:
    chips = [replace(with_constants(peak=peak), price_usd_per_chip_hour=usd) for peak, usd in zip(
        i["flops"], i["usd_per_hour"], strict=True)]  # fmt: skip
    return [flops_per_usd("bf16", each) for each in chips]


@asks("tf-q7-deepseek-mfu")
def mfu_of_a_training_run(i: Inputs) -> float:
    """A training step is three forward passes."""
    flops = 3 * flops_per_token(i["active_params"]) * i["tokens"]
    return mfu(flops, i["gpu_hours"] * 3600, "bf16", with_constants(peak=i["fp8_flops"]))


@asks("inf-esti-cost-identity")
def chip_milliseconds_of_a_token(i: Inputs) -> list[float]:
    runs = zip(i["batch"], i["latency_ms"], i["chips"], strict=True)
    return [chip_seconds_per_token(batch, latency_ms, chips) for batch, latency_ms, chips in runs]


@asks("rl-tokens-per-replica-example")
def tokens_of_a_replica(i: Inputs) -> float:
    return rows_per_replica(i["sequences"], i["seq_len"], i["devices"])


@asks("gpu-q5-2-3-batch-per-gpu")
def tokens_of_a_gpu(i: Inputs) -> float:
    return rows_per_replica(i["tokens"], 1, i["gpus"])


@asks("inf-popquiz-kv-bytes", "inf-q2-kv-per-seq")
def bytes_of_a_sequence(i: Inputs) -> float:
    return generate_bytes(i["S"], i["kv_bytes_per_token"])


@asks("inf-l13b-mha-kv-row", "inf-l13b-gqa-kv-row", "inf-l13b-mha-total-row", "inf-l13b-gqa-total-row")
def bytes_by_batch(i: Inputs) -> list[float]:
    return [generate_bytes(batch, i["kv_bytes"], i.get("param_bytes", 0)) for batch in i["B"]]


@asks("app-kv-32k-b240")
def bytes_of_many_sequences(i: Inputs) -> float:
    return generate_bytes(i["B"], i["kv_seq"])


@asks("app-bs32-kv-bytes")
def bytes_of_a_batch(i: Inputs) -> float:
    return generate_bytes(i["B"], generate_bytes(i["S"], i["kv"]))


@asks("app-bs32-total-bytes")
def bytes_of_weights_and_a_batch(i: Inputs) -> float:
    return generate_bytes(1, i["KV"], i["P"])


@asks("inf-l13b-4kv-exceed-params")
def sequences_that_outweigh_the_weights(i: Inputs) -> int:
    """One more than fit into the room of the weights."""
    return max_sequences(i["P_bytes"], 0, i["kv"]) + 1


@asks("inf-q5-1-total-ratio")
def stored_over_dense(i: Inputs) -> float:
    """The totals that the case gives are those of the case before, which gives the sizes too."""
    sizes = cases()["inf-q5-1-total-params"]["inputs"]
    return model_parameters(sizes, tied=True, experts=sizes["E"]) / model_parameters(sizes, tied=True)


@asks("app-mintopo-min-tpus")
def chips_before_rounding(i: Inputs) -> list[float]:
    return [hbm_share(i["P"] * each, i["hbm"]) for each in i["bytes"]]


@asks("app-mintopo-remaining")
def room_for_the_cache_by_dtype(i: Inputs) -> list[float]:
    return [kv_budget_bytes(n, i["hbm"], i["P"] * each) for n, each in zip(i["chips"], i["bytes"], strict=True)]


@asks("app-double-remaining")
def room_for_the_cache(i: Inputs) -> float:
    return kv_budget_bytes(i["N"], i["hbm"], i["P_bytes"])
