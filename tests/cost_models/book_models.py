"""Questions about whole models: parameters, bytes, what fits, and the time of a step."""

from typing import Any

from book_cases import DTYPE_OF_BYTES, V5E, Inputs, asks, pinned, weights, with_constants

from cost_models.chips import Chip
from cost_models.counting import attention_parameters, flops_per_token, mlp_parameters, vocabulary_parameters
from cost_models.dtypes import array_bytes
from cost_models.matmul import hbm_s
from cost_models.memory import activation_bytes, kv_cache_bytes, max_sequences, min_chips, weights_bytes
from cost_models.roofline import Roofline, sequence_s
from cost_models.torus import legal_slices


@asks("tf-mlp-params", "inf-l13b-ffw-params", "app-l70b-ffw-params")
def mlp_count(i: Inputs) -> int:
    return i.get("L", 1) * mlp_parameters(i["D"], i["F"])


@asks("inf-appA-true-params")
def ungated_mlp_count(i: Inputs) -> int:
    return mlp_parameters(i["D"], i["F"], gated=False)


@asks("tf-attn-params", "inf-l13b-attn-params", "app-l70b-attn-params")
def attention_count(i: Inputs) -> int:
    return i.get("L", 1) * attention_parameters(i["D"], i["N"], i["K"], i["H"])


@asks("inf-l13b-vocab-params", "app-l70b-vocab-params")
def vocabulary_count(i: Inputs) -> int:
    return vocabulary_parameters(i["V"], i["D"], tied=False)


@asks("inf-l13b-total-params", "app-l70b-total-params")
def untied_count(i: Inputs) -> int:
    return model_parameters(i, tied=False)


@asks("inf-q1-params")
def tied_count(i: Inputs) -> int:
    return model_parameters(i, tied=True)


@asks("inf-q5-1-total-params")
def stored_count(i: Inputs) -> int:
    return model_parameters(i, tied=True, experts=i["E"])


@asks("inf-q5-1-active-params")
def active_count(i: Inputs) -> int:
    return model_parameters(i, tied=True, experts=i["k"])


@asks("tf-q1-params")
def count_with_one_norm_a_layer(i: Inputs) -> int:
    layer = mlp_parameters(i["D"], i["F"]) + attention_parameters(i["D"], i["NH"], i["NH"], 1) + i["D"]
    return i["L"] * layer + vocabulary_parameters(i["V"], i["D"], tied=False)


@asks("tf-q1-attn-fraction")
def attention_share(i: Inputs) -> float:
    attention = attention_parameters(i["D"], i["D"], i["D"], 1)
    return attention / (attention + mlp_parameters(i["D"], 4 * i["D"]))


@asks("inf-q5-4-flops-per-token")
def operations_of_a_token(i: Inputs) -> float:
    return flops_per_token(i["active_params"])


@asks("app-wp1-flops-per-token")
def operations_of_a_dense_token(i: Inputs) -> float:
    return flops_per_token(i["P"])


def model_parameters(i: Inputs, *, tied: bool, experts: int = 1) -> int:
    """Parameters of a gated transformer without its norms."""
    layer = mlp_parameters(i["D"], i["F"], experts=experts)
    layer += attention_parameters(i["D"], i["N"], i["K"], i["H"])
    return i["L"] * layer + vocabulary_parameters(i["V"], i["D"], tied=tied)


@asks("tpu-q5-bytes")
def bytes_of_an_array(i: Inputs) -> int:
    batch, tokens, width = i["shape"]
    return activation_bytes(batch * tokens, width, "bf16")


@asks("sh-2dshard-bytes", "sh-popquiz-local-bytes")
def bytes_of_a_shard(i: Inputs) -> int:
    rows, columns = i["shape"]
    return array_bytes(rows * columns // (i["X"] * i["Y"]), DTYPE_OF_BYTES[i["bytes_per_elem"]])


@asks("sh-pq2a-total-bytes")
def bytes_of_a_gathered_array(i: Inputs) -> int:
    return array_bytes(i["E"] * i["F"], "bf16")


@asks("sh-q7-weight-bytes", "gpu-emp-58mb-size")
def bytes_of_a_weight(i: Inputs) -> int:
    return weights_bytes(i["D"] * i["F"], "bf16")


@asks("sh-q7-act-bytes", "inf-appC-example-bytes", "inf-l13b-activation")
def bytes_of_an_activation(i: Inputs) -> int:
    return activation_bytes(i.get("B", i.get("T")), i["D"], DTYPE_OF_BYTES[i["bytes"]])


@asks("inf-l13b-param-bytes")
def bytes_of_the_weights(i: Inputs) -> int:
    return weights_bytes(round(i["P"]), "bf16")


@asks("app-mintopo-param-bytes")
def bytes_of_the_weights_by_dtype(i: Inputs) -> list[int]:
    return [weights_bytes(round(i["P"]), DTYPE_OF_BYTES[each]) for each in i["bytes"]]


@asks("tf-kv-8k-int8")
def bytes_of_a_long_cache(i: Inputs) -> int:
    return kv_cache_bytes(i["S"], i["L"], 1, i["KH"], "int8")


@asks("tf-q1-kv-per-token")
def bytes_of_a_multi_head_token(i: Inputs) -> int:
    return kv_cache_bytes(1, i["L"], 1, i["NH"], "int8")


@asks("inf-l13b-kv-8k", "inf-l13b-kv-per-token", "inf-q1-kv-per-token", "inf-q5-3-kv", "app-kv-per-token-int8")
def bytes_of_a_cache(i: Inputs) -> int:
    return kv_cache_bytes(i.get("T", 1), i["L"], i["K"], i["H"], DTYPE_OF_BYTES[i["bytes"]])


@asks("app-mintopo-kv-per-token")
def bytes_of_a_token_by_dtype(i: Inputs) -> list[int]:
    return [kv_cache_bytes(1, i["L"], i["K"], i["H"], DTYPE_OF_BYTES[each]) for each in i["bytes"]]


@asks("app-kv-32k")
def bytes_of_a_llama_70b_sequence(i: Inputs) -> int:
    return kv_cache_bytes(i["S"], 80, 8, 128, "int8")


@asks("inf-l13b-mha-maxbatch-gib", "inf-l13b-mha-maxbatch-gb", "inf-l13b-gqa-maxbatch-gib")
def sequences_of_a_host(i: Inputs) -> int:
    return max_sequences(i["hbm_total_bytes"], i["param_bytes"], i["kv_bytes"])


@asks("inf-q2-maxbatch", "inf-q2-maxbatch-exact-128Ki", "inf-q2-maxbatch-k1")
def sequences_of_a_slice(i: Inputs) -> int:
    return max_sequences(i["N"] * i["hbm_bytes"], i["param_bytes"], i["kv_bytes"])


@asks("app-8k-maxbatch-16chips-int8")
def sequences_of_llama_70b(i: Inputs) -> int:
    return max_sequences(i["N"] * i["hbm"], i["P"], i["kv"] * i["S"])


@asks("app-mintopo-num-kv")
def sequences_of_the_smallest_slices(i: Inputs) -> list[int]:
    pairs = zip(i["remaining"], i["kv"], strict=True)
    return [max_sequences(remaining, 0, each * i["S"]) for remaining, each in pairs]


@asks("app-double-batch")
def sequences_of_a_doubled_slice(i: Inputs) -> int:
    return max_sequences(i["remaining"], 0, i["kv"] * i["S"])


@asks("app-chips-b240-32k")
def chips_of_a_large_batch(i: Inputs) -> int:
    return min_chips(i["P"] + i["KV"], i["hbm"])


@asks("app-bs32-min-chips", "gpu-q5-2-1-min-gpus")
def chips_that_hold(i: Inputs) -> int:
    return min_chips(i.get("total", i.get("bytes")), i["hbm"])


@asks("inf-q6-2-min-chips")
def chips_that_hold_the_experts(i: Inputs) -> list[int]:
    return [min_chips(weights_bytes(i["params"], DTYPE_OF_BYTES[each]), i["hbm_bytes"]) for each in i["bytes"]]


@asks("app-mintopo-slice")
def smallest_slices_that_hold(i: Inputs) -> list[int]:
    needed = [min_chips(weights_bytes(round(i["P"]), DTYPE_OF_BYTES[each]), i["hbm"]) for each in i["bytes"]]
    return [next(each.chips for each in legal_slices(V5E, 256) if each.chips >= count) for count in needed]


@asks("app-wp2-l8b")
def memory_of_llama_8b(i: Inputs) -> list[int]:
    stored = weights_bytes(round(i["P"]), "int8")
    cache = kv_cache_bytes(i["B"] * i["S"], i["L"], i["K"], i["H"], "int8")
    return [stored, cache, activation_bytes(i["B"], i["D"], "bf16"), min_chips(stored + cache, i["hbm"])]


def step_s(on: Chip, batch: float, chips: int, cache_bytes: float, parameters: float, each: float) -> float:
    """Seconds of a generate step: the cache is read, then the weights are read or multiplied, whichever is longer.

    B * KV / (N * W_hbm) + max(2 * B * P / (N * C), b_w * P / (N * W_hbm))
    """
    cache = Roofline(hbm_s=hbm_s(batch * cache_bytes / chips, on))
    return sequence_s([cache, weights(batch, parameters / chips, on, each)])


@asks("inf-popquiz-b4", "inf-popquiz-b256")
def popquiz_step(i: Inputs) -> float:
    cache_bytes = i["kv_bytes_per_token"] * i["S"]
    return step_s(pinned(i), i["B"], i["N"], cache_bytes, i["P"], i["bytes_per_param"])


@asks("inf-popquiz-b256-throughput")
def popquiz_tokens_per_s(i: Inputs) -> float:
    return i["B"] / popquiz_step(i)


@asks("inf-l13b-mha-step-row", "inf-l13b-gqa-step-row")
def steps_by_batch(i: Inputs) -> list[float]:
    return [step_s(pinned(i), batch, i["N"], i["kv_bytes"], i["param_bytes"] / 2, 2) for batch in i["B"]]


@asks("inf-l13b-mha-throughput-row", "inf-l13b-gqa-throughput-row")
def tokens_per_s_by_batch(i: Inputs) -> list[float]:
    return [batch / each for batch, each in zip(i["B"], steps_by_batch(i), strict=True)]


@asks("inf-q4-step-latency")
def step_of_full_memory(i: Inputs) -> float:
    return step_s(pinned(i), i["B"], i["N"], i["kv_bytes"], i["P_bytes"], 1)


@asks("app-bs32-step-4x2", "app-bs32-step-4x4")
def step_of_weights_and_cache(i: Inputs) -> float:
    return hbm_s(i["total"] / i["N"], pinned(i))


@asks("inf-q3-param-load", "app-int4-param-only-step")
def time_to_read_the_weights(i: Inputs) -> float:
    return hbm_s(i["P_bytes"] / i["N"], pinned(i))


@asks("tpu-q1-load-200b-v4p")
def time_to_read_a_large_model(i: Inputs) -> float:
    return weights(1, i["params"] / i["chips"], pinned(i), i["bytes_per_param"]).total_s()


@asks("inf-appA-min-layer-time")
def time_to_read_a_layer(i: Inputs) -> float:
    return weights(1, i["params"] / i["shards"], pinned(i), i["bytes"]).total_s()


@asks("inf-decode-thbm-matmul", "app-4x8-t-hbm")
def time_to_read_a_sharded_weight(i: Inputs) -> float:
    return weights(1, i["D"] * i["F"] / i["Y"], pinned(i)).hbm_s


@asks("app-pareto-min-latency")
def fastest_step(i: Inputs) -> float:
    return pareto_step_s(i, i["B"][0])


@asks("app-pareto-plateau-2k")
def tokens_per_ms_and_chip(i: Inputs) -> float:
    return i["B"] / pareto_step_s(i, i["B"]) / i["N"] / 1000


def pareto_step_s(i: Inputs, batch: int) -> float:
    on = with_constants(peak=i["C"], hbm=i["W"])
    return step_s(on, batch, i["N"], i["kv"] * i["S"], i["P"], i["bytes"])


@asks("app-wp1-flops-bound")
def compute_of_a_token(i: Inputs) -> float:
    return weights(1, i["P"], pinned(i)).compute_s


@asks("app-wp1-hbm-bound")
def time_to_read_the_weights_by_dtype(i: Inputs) -> list[float]:
    return [weights(1, i["P"], with_constants(hbm=i["W"]), each).hbm_s for each in i["bytes"]]


@asks("app-prefill-8k-16chips")
def prefill_at_a_given_mfu(i: Inputs) -> float:
    return weights(i["T"], i["P"] / i["N"], pinned(i), 1, mfu=i["mfu"]).total_s()


@asks("app-wp3-405b-64chips", "app-wp3-405b-128chips", "app-wp3-405b-256chips")
def largest_batch_within_a_limit(i: Inputs) -> list[Any]:
    """The batch, its step, its tokens per second and chip, and the step of weights alone."""
    on = with_constants(peak=i["C"], hbm=i["W"])
    cache_bytes = kv_cache_bytes(i["S"], i["L"], i["K"], i["H"], "int8")

    def step(batch: int) -> float:
        return step_s(on, batch, i["N"], cache_bytes, i["P"], 1)

    fitting = range(1, max_sequences(i["N"] * i["hbm"], i["P"], cache_bytes) + 1)
    best = max(batch for batch in fitting if step(batch) <= i["limit"])
    return [best, step(best), best / step(best) / i["N"], step(0)]
