"""Questions about slices, links and collectives."""

import math

from book_cases import V5E, V5P, Inputs, asks, lines, pinned, rings, weights, with_constants

from cost_models.chips import chip
from cost_models.collectives import all_gather_s, all_reduce_s, all_to_all_s, hops, reduce_scatter_s, send_s
from cost_models.dtypes import array_bytes
from cost_models.memory import activation_bytes
from cost_models.torus import TorusAxis, parse_slice, shape_text

BIG = 1e12
"""Bytes beside which no hop counts."""


@asks("tpu-v5p-pod-chips")
def chips_of_the_largest_v5p(i: Inputs) -> int:
    return parse_slice(V5P, shape_text(i["dims"])).chips


@asks("tpu-v7-pod-chips")
def chips_of_the_largest_7x(i: Inputs) -> int:
    return chip("7x").max_chips


@asks("tpu-q2-v5e-hosts")
def hosts_of_a_v5e_pod(i: Inputs) -> int:
    return parse_slice(V5E, shape_text(i["dims"])).hosts


@asks("tpu-q2-v5p-hosts")
def hosts_of_a_v5p_pod(i: Inputs) -> int:
    return parse_slice(V5P, "16x20x28").hosts


@asks("tpu-q2-v5e-cores")
def cores_of_a_v5e_pod(i: Inputs) -> int:
    return V5E.max_chips * (V5E.cores_per_chip or 0)


@asks("tpu-q2-v5p-cores")
def cores_of_a_v5p_pod(i: Inputs) -> int:
    return V5P.max_chips * (V5P.cores_per_chip or 0)


@asks("tpu-q2-v5p-pod-flops")
def peak_of_a_v5p_pod(i: Inputs) -> float:
    return V5P.max_chips * V5P.flops_per_s("bf16")


@asks("tpu-q2-v5e-pod-hbm")
def hbm_of_a_v5e_pod(i: Inputs) -> float:
    return V5E.max_chips * V5E.hbm_bytes


@asks("tpu-q2-v5p-pod-hbm")
def hbm_of_a_v5p_pod(i: Inputs) -> float:
    return V5P.max_chips * V5P.hbm_bytes


@asks("inf-8xv5e-bw")
def bandwidth_of_a_v5e_host(i: Inputs) -> float:
    return parse_slice(V5E, "2x4").chips * V5E.hbm_bytes_per_s


@asks("inf-8xv5e-flops")
def peak_of_a_v5e_host(i: Inputs) -> float:
    return parse_slice(V5E, "2x4").chips * V5E.flops_per_s("bf16")


@asks("tpu-vmem-hbm-ratio")
def vmem_bandwidth(i: Inputs) -> float:
    assert V5E.vmem_bytes_per_s is not None
    return V5E.vmem_bytes_per_s


@asks("tpu-q5-hops-4x4")
def hops_across_a_slice(i: Inputs) -> int:
    return hops(parse_slice(V5E, "4x4").axes, V5E)


@asks("tpu-q5-first-byte")
def time_to_the_first_byte(i: Inputs) -> float:
    return send_s(0, i["hops"], 2, V5E)


@asks("tpu-q5-bandwidth-time", "tpu-q5-total")
def time_to_send(i: Inputs) -> float:
    return send_s(i["bytes"], i.get("hops", 0), i["ports"], pinned(i))


@asks("sh-pq2b-hop")
def time_of_one_hop(i: Inputs) -> float:
    return send_s(i["shard_bytes"], 0, 1, pinned(i))


@asks("tpu-q6-ici")
def gather_over_two_lines(i: Inputs) -> float:
    """The case gives the 15 of 16 shards that have to move."""
    return all_gather_s(i["bytes"] * 16 / 15, parse_slice(V5E, "4x4").axes, V5E)


@asks("sh-allgather-hops-uni")
def hops_of_a_line(i: Inputs) -> int:
    return hops(lines(i["X"]), V5E)


@asks("sh-allgather-hops-bidi")
def hops_of_a_ring(i: Inputs) -> int:
    return hops(rings(i["X"]), V5E)


@asks("sh-allgather-ring", "sh-pq2a-ring", "prof-reduce-scatter-v2")
def gather_over_a_ring(i: Inputs) -> float:
    return all_gather_s(i["V_bytes"], rings(4), pinned(i))


@asks("sh-ttotal-ring-max")
def gather_of_few_bytes_over_a_ring(i: Inputs) -> float:
    return all_gather_s(i["V_bytes"], rings(i["X"]), pinned(i))


@asks("sh-ttotal-multiaxis")
def gather_over_two_rings(i: Inputs) -> float:
    return all_gather_s(i["V_bytes"], rings(*i["axes"]), pinned(i))


@asks("sh-pq2a-line")
def gather_over_a_line(i: Inputs) -> float:
    size = i["hops"] + 1
    return all_gather_s(i["shard_bytes"] * size, lines(size), pinned(i))


@asks("sh-pq2b-latency")
def gather_of_few_bytes_over_a_line(i: Inputs) -> float:
    return all_gather_s(array_bytes(256 * 256, "bf16"), lines(i["hops"] + 1), V5E)


@asks("sh-allreduce-factor")
def all_reduce_over_all_gather(i: Inputs) -> float:
    return all_reduce_s(BIG, rings(16), V5E) / all_gather_s(BIG, rings(16), V5E)


@asks("sh-reducescatter-factor")
def reduce_scatter_over_all_gather(i: Inputs) -> float:
    return reduce_scatter_s(BIG, rings(16), V5E) / all_gather_s(BIG, rings(16), V5E)


@asks("sh-alltoall-factor-bidi")
def all_to_all_over_all_gather(i: Inputs) -> float:
    return all_to_all_s(BIG, rings(16), V5E) / all_gather_s(BIG, rings(16), V5E)


@asks("sh-alltoall-nd")
def all_to_all_over_two_rings(i: Inputs) -> float:
    """Asked of a thousand times the bytes, where no hop counts."""
    return all_to_all_s(1000 * i["V_bytes"], rings(*i["axes"]), pinned(i)) / 1000


@asks("sh-q2-1-ag-x")
def gather_of_an_array_sharded_twice(i: Inputs) -> float:
    return all_gather_s(activation_bytes(i["B"], i["D"], "bf16") / i["Y"], rings(4), pinned(i))


@asks("sh-q2-2-ag-xy")
def gather_over_both_axes(i: Inputs) -> float:
    return all_gather_s(activation_bytes(i["B"], i["D"], "bf16"), rings(4, 4), pinned(i))


@asks("sh-q2-2-latency")
def latency_over_both_axes(i: Inputs) -> float:
    return all_gather_s(1, rings(*i["axes"]), V5E)


@asks("sh-q2-3-ar-z")
def all_reduce_of_an_array_sharded_twice(i: Inputs) -> float:
    operand = activation_bytes(i["B"], i["D"], "bf16") / (i["X"] * i["Y"])
    return all_reduce_s(operand, rings(4), pinned(i))


@asks("sh-q3-latency-ag")
def gather_of_a_vector(i: Inputs) -> float:
    return all_gather_s(array_bytes(i["B"], "bf16"), rings(i["X"]), pinned(i))


@asks("sh-q7-tp-times")
def tensor_parallel_block(i: Inputs) -> list[float]:
    block = weights(i["B"], 2 * i["D"] * i["F"] / i["chips"], pinned(i))
    moved = activation_bytes(i["B"], i["D"], "bf16")
    axes = lines(*i["axes"])
    ici_s = all_gather_s(moved, axes, pinned(i)) + reduce_scatter_s(moved, axes, pinned(i))
    return [block.compute_s, block.hbm_s, ici_s]


@asks("sh-q9-ratio")
def gather_of_operand_over_scatter_of_result(i: Inputs) -> float:
    rows = 10_000_000
    gathered, scattered = (activation_bytes(rows, i[width], "bf16") for width in ("M", "K"))
    return all_gather_s(gathered, rings(16), V5E) / reduce_scatter_s(scattered, rings(16), V5E)


@asks("sh-summary-ag")
def gather_over_rings(i: Inputs) -> float:
    return all_gather_s(i["V_bytes"], rings(*[16] * i["num_axes"]), pinned(i))


@asks("sh-summary-uni")
def gather_over_a_line_of_given_bandwidth(i: Inputs) -> float:
    return all_gather_s(i["V_bytes"], lines(i["X"]), with_constants(link=i["bw"]))


@asks("inf-decode-tici-matmul", "app-4x8-t-ici")
def gather_of_activations(i: Inputs) -> float:
    """Asked of a thousand times the rows, where no hop counts."""
    return all_gather_s(activation_bytes(1000 * i["B"], i["D"], "bf16"), rings(16), pinned(i)) / 1000


@asks("inf-q7-1d-3axis")
def megatron_over_three_rings(i: Inputs) -> float:
    moved = activation_bytes(1000 * i["B"], i["D"], "bf16")
    axes = rings(*[4] * i["axes"])
    return (all_gather_s(moved, axes, pinned(i)) + reduce_scatter_s(moved, axes, pinned(i))) / 1000


@asks("trn-prefill-fwd-tp-tcomms")
def megatron_over_one_ring(i: Inputs) -> float:
    on = with_constants(link=i["W"] / 2)
    moved = activation_bytes(i["B"], i["D"], "bf16")
    return all_gather_s(moved, rings(8), on) + reduce_scatter_s(moved, rings(8), on)


@asks("gpu-q2-3-allgather", "gpu-pq1-ag-exact")
def gather_through_a_switch(i: Inputs) -> float:
    gathered = i["V"] if "V" in i else array_bytes(i["B"] * i["F"], "bf16")
    return all_gather_s(gathered, gpus(i["N"]), chip("h100"))


@asks("gpu-a2a-node")
def all_to_all_through_a_switch(i: Inputs) -> float:
    return all_to_all_s(i["V"], gpus(i["N"]), chip("h100"))


@asks("gpu-q2-1-node-bw")
def bandwidth_of_a_node(i: Inputs) -> float:
    h100 = chip("h100")
    return math.prod(h100.max_slice) * h100.ici_bytes_per_s


def gpus(count: int) -> tuple[TorusAxis, ...]:
    return parse_slice(chip("h100"), str(count)).axes
