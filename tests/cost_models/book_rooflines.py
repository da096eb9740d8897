"""Questions about rooflines: times of one chip, intensities, and where compute takes over from memory."""

from typing import Any

from book_cases import (
    H100,
    V5E,
    Inputs,
    asks,
    attend,
    attend_once,
    intensity,
    lines,
    multiply,
    pinned,
    rings,
    weights,
    with_constants,
)

from cost_models.bounds import (
    critical_rows,
    crossover_rows,
    hbm_intensity,
    ici_intensity,
    latency_bound_bytes,
    megatron_ways_before_ici,
    megatron_ways_before_ici_in_generate,
)
from cost_models.matmul import compute_s, hbm_s
from cost_models.roofline import Roofline


@asks("rl-tmath-h100-1e12", "rl-tmath-v6e-1e12")
def time_of_operations(i: Inputs) -> float:
    return compute_s(i["flops"], "bf16", pinned(i))


@asks("rl-bound-factor")
def upper_over_lower_bound(i: Inputs) -> float:
    parts = Roofline(compute_s=i["t_math"], ici_s=i["t_comms"])
    return parts.total_s("nothing") / parts.total_s("everything")


@asks("rl-v5e-hbm-intensity", "rl-q1-int8-intensity", "rl-q5-h100-bcrit")
def memory_intensity(i: Inputs) -> float:
    return hbm_intensity(pinned(i), "bf16")


@asks("gpu-q1-3-intensity-bf16", "gpu-q1-3-intensity-fp8")
def memory_intensities(i: Inputs) -> list[float]:
    return [hbm_intensity(with_constants(peak=c, hbm=w), "bf16") for c, w in zip(i["C"], i["W"], strict=True)]


@asks("rl-matmul-intensity-small-batch")
def matmul_intensity(i: Inputs) -> float:
    return intensity(multiply(i["B"], i["D"], i["F"]))


@asks("rl-q4-per-example-weights")
def intensity_with_weights_per_example(i: Inputs) -> float:
    return intensity(i["B"] * multiply(1, i["D"], i["F"], each=1))


@asks("rl-bcrit-bf16-v5e", "rl-q1-int8-bcrit", "rl-q2-int8w-bf16-bcrit")
@asks("inf-bcrit-bf16-v5e", "inf-bcrit-int8w-bf16", "inf-bcrit-int8-int8", "inf-bcrit-bf16w-int8flops")
@asks("inf-bcrit-h100")
def critical_batch(i: Inputs) -> float:
    return critical_rows(i["bytes_per_param"], "bf16", pinned(i))


@asks("app-bcrit-triple")
def critical_batches(i: Inputs) -> list[float]:
    pairs = zip(i["C"], i["bytes_param"], strict=True)
    return [critical_rows(each, "bf16", with_constants(peak=c, hbm=i["W_hbm"])) for c, each in pairs]


@asks("app-pareto-bcrit")
def critical_batch_of_the_pareto_plot(i: Inputs) -> float:
    return critical_rows(i["bytes"], "bf16", with_constants(peak=i["C"], hbm=i["W"]))


@asks("tpu-q3-pcie-bcrit")
def critical_batch_of_weights_in_host_memory(i: Inputs) -> float:
    return critical_rows(2, "bf16", with_constants(peak=i["peak_flops_per_s"], hbm=i["pcie_bytes_per_s"]))


@asks("tf-q8-moe-bcrit", "inf-q5-2-bcrit")
def critical_batch_of_experts(i: Inputs) -> float:
    dense = i.get("bcrit_dense", i.get("bcrit_dense_int8w"))
    on = with_constants(peak=2 * dense, hbm=1)
    return critical_rows(1, "bf16", on, experts=i["E"], experts_per_token=i["k"])


@asks("rl-q3-crossover-4096", "rl-q3-crossover-1024")
def crossover_of_int8_weights(i: Inputs) -> float:
    sizes = {"weight_bytes_per_element": i["weight_bytes"], "activation_bytes_per_element": 2}
    return crossover_rows(i["D"], i["F"], compute_dtype="bf16", chip=pinned(i), **sizes)


@asks("tpu-q4-bcrit-hbm", "tpu-q4-bcrit-vmem")
def crossover_of_int8(i: Inputs) -> float:
    sizes = {"weight_bytes_per_element": 1, "activation_bytes_per_element": 1}
    return crossover_rows(i["D"], i["F"], compute_dtype="int8", chip=pinned(i), **sizes)


@asks("tpu-q6-hbm", "sh-2dshard-load-h100")
def time_to_read(i: Inputs) -> float:
    return hbm_s(i["bytes"], pinned(i))


@asks("app-full-hbm-step", "app-pareto-max-latency")
def time_to_read_all_of_hbm(i: Inputs) -> float:
    return hbm_s(i["hbm"], with_constants(hbm=i.get("W_hbm", i.get("W"))))


@asks("gpu-q1-7-add-64k", "gpu-q1-7-add-1g")
def time_to_add_float32_vectors(i: Inputs) -> float:
    return hbm_s(3 * 4 * i["N"], H100)


@asks("tpu-q6-flops", "gpu-q1-4-large-matmul")
def time_of_a_compute_bound_matmul(i: Inputs) -> float:
    return multiply(i["B"], i["D"], i["F"], pinned(i)).compute_s


@asks("gpu-q1-4-small-matmul")
def time_of_a_memory_bound_matmul(i: Inputs) -> float:
    return multiply(i["B"], i["D"], i["F"], with_constants(hbm=i["W"])).hbm_s


@asks("prof-ffw-matmul-v2")
def time_of_a_matmul_sharded_over_its_rows(i: Inputs) -> float:
    on = with_constants(peak=i["peak_flops_per_s_per_core"])
    return multiply(i["B"] / i["cores"], i["D"], i["F"], on).compute_s


@asks("app-4x8-t-math")
def math_of_a_sharded_matmul(i: Inputs) -> float:
    return multiply(i["B"], i["D"], i["F"] / i["Y"], pinned(i)).compute_s


@asks("trn-prefill-fwd-tp-tmath")
def math_of_a_sharded_mlp(i: Inputs) -> float:
    return weights(i["B"], 2 * i["D"] * i["F"] / i["Y"], pinned(i)).compute_s


@asks("inf-q7-tmath")
def math_of_an_mlp_over_every_chip(i: Inputs) -> float:
    return weights(i["B"], 2 * i["D"] * i["F"] / i["N"], pinned(i)).compute_s


@asks("tpu-q6-total")
def pipelined_stages(i: Inputs) -> float:
    return Roofline(i["t_flops"], i["t_hbm"], max(i["t_ici"], i["t_pcie"])).total_s("everything")


@asks("tf-q4-attn-intensity-prefill")
def prefill_attention_intensity(i: Inputs) -> float:
    return intensity(attend(i["T"], i["S"], i["G"]))


@asks("tf-q4-attn-intensity-decode")
def generate_attention_intensity(i: Inputs) -> float:
    return intensity(attend_once(i["S"], i["G"]))


@asks("inf-attn-intensity-mha", "inf-attn-intensity-decode")
def multi_head_attention_intensity(i: Inputs) -> float:
    return intensity(attend(i["T"], i["S"], 1))


@asks("inf-attn-prefill-compute-bound", "tf-q4-attn-compute-bound-S")
def prompt_where_attention_turns_compute_bound(i: Inputs) -> float:
    """The length at which the two parts of the roofline are equal, by bisection; without G, a very large group."""
    on = with_constants(peak=i["alpha_hbm"] * V5E.hbm_bytes_per_s)
    low, high = 1.0, 1e6
    for _ in range(80):
        tokens = (low + high) / 2
        if attend(tokens, tokens, i.get("G", 1e5), on).binds == "hbm":
            low = tokens
        else:
            high = tokens
    return low


@asks("tf-attn-dominates-T", "tf-attn-dominates-gemma27")
def context_where_attention_equals_a_layer(i: Inputs) -> float:
    return context_where_attention_equals(16 * i["D"] ** 2, i["D"])


@asks("tf-q5-attn-equals-qkvo")
def context_where_attention_equals_its_projections(i: Inputs) -> float:
    return context_where_attention_equals(4 * i["D"] ** 2, i["D"])


@asks("tf-attn-flops-fraction")
def attention_over_a_layer(i: Inputs) -> float:
    return i["T"] / context_where_attention_equals(16 * i["D"] ** 2, i["D"])


def context_where_attention_equals(parameters: float, d_model: int) -> float:
    """Context at which the attention operations of a token equal those of `parameters`; heads as wide as the model."""
    return weights(1, parameters).compute_s / attend(1, 1, d_model).compute_s


@asks("app-kv-vs-flops-crossover")
def context_where_reading_kv_outlasts_the_matmuls(i: Inputs) -> float:
    on = with_constants(peak=i["C"], hbm=i["W"])
    return weights(1, i["P"], on).compute_s / hbm_s(i["kv"], on)


@asks("sh-q4-alpha-ici", "inf-prefill-tp-limit-v5e")
def link_intensity_of_a_ring(i: Inputs) -> float:
    return ici_intensity(rings(16), pinned(i), "bf16")


@asks("trn-alpha-v5p", "trn-tp-int8-precision-independent")
def link_intensity_of_a_v5p_ring(i: Inputs) -> float:
    return ici_intensity(rings(4), with_constants(peak=i["C"], link=i["W"] / 2), "bf16")


@asks("gpu-dp-tpu3axis")
def link_intensity_of_three_rings(i: Inputs) -> float:
    return ici_intensity(rings(4, 4, 4), with_constants(peak=i["C"], link=i["W"] / 2), "bf16")


@asks("gpu-dp-h800", "gpu-q5-1-b200-tp")
def link_intensity_of_a_switch(i: Inputs) -> float:
    return ici_intensity(lines(8), with_constants(peak=i["C"], link=i["W"]), "bf16")


@asks("rl-net2chip-D-threshold-half")
def half_width_where_two_chips_pay(i: Inputs) -> float:
    return ici_intensity(lines(2), pinned(i), "bf16")


@asks("rl-net2chip-D-threshold")
def width_where_two_chips_pay(i: Inputs) -> float:
    return 2 * ici_intensity(lines(2), pinned(i), "bf16")


@asks("inf-decode-beta")
def memory_over_link_bandwidth(i: Inputs) -> float:
    on = pinned(i)
    return ici_intensity(rings(16), on, "bf16") / hbm_intensity(on, "bf16")


@asks("app-tp-limit-2axes", "trn-tp-limit-70b", "trn-tp-limit-gemma7b")
def ways_before_ici_by_its_intensity(i: Inputs) -> float:
    """The case gives the intensity of one ring, so the chip has that peak over a ring of one byte per second."""
    on = with_constants(peak=i["alpha"], link=0.5)
    return ways_before_ici(i["F"], rings(*[16] * i.get("axes", 1)), on)


@asks("inf-q4-tp-limit-wrapped", "inf-q4-tp-limit-4x4")
def ways_before_ici_in_int8(i: Inputs) -> float:
    on = with_constants(peak=i["C"], link=45e9)
    axes = rings(16, 16) if i["W_axis"] == 90e9 else lines(4, 4)
    return ways_before_ici(i["F"], axes, on, each=i["act_bytes"])


def ways_before_ici(d_ff: int, axes: Any, on: Any, each: float = 2) -> float:
    return megatron_ways_before_ici(d_ff, axes, activation_bytes_per_element=each, compute_dtype="bf16", chip=on)


@asks("inf-decode-tp-limit-example", "app-4x8-decode-tp-limit")
def ways_before_ici_in_generate(i: Inputs) -> float:
    on = with_constants(hbm=i["beta"] * 90e9, link=45e9)
    sizes = {"weight_bytes_per_element": 2, "activation_bytes_per_element": 2}
    return megatron_ways_before_ici_in_generate(i["F"], i["B"], rings(16), chip=on, **sizes)


@asks("inf-q4-decode-tp-limit")
def ways_before_ici_in_generate_on_lines(i: Inputs) -> float:
    sizes = {"weight_bytes_per_element": i["bytes_param"], "activation_bytes_per_element": i["bytes_act"]}
    return megatron_ways_before_ici_in_generate(i["F"], i["B"], lines(4, 4), chip=pinned(i), **sizes)


@asks("sh-latency-min-buffer-v5e")
def bytes_of_a_latency_bound_hop(i: Inputs) -> float:
    return latency_bound_bytes(lines(2), pinned(i))


@asks("inf-appC-latency-threshold-8way")
def bytes_of_a_latency_bound_ring(i: Inputs) -> float:
    return latency_bound_bytes(rings(i["n_shards"]), pinned(i))


@asks("inf-appC-Y-threshold")
def ways_where_latency_binds(i: Inputs) -> float:
    return i["B"] * i["D"] / latency_bound_bytes(lines(2), V5E)
