"""Questions about trees of switches, the data-center network, host links, and the rates inside a chip."""

from dataclasses import replace

from book_cases import H100, V5E, V5P, Inputs, asks, lines, multiply, pinned, rings, with_constants
from book_collectives import BIG, gpus
from book_rooflines import ways_before_ici

from cost_models.bounds import critical_rows, ici_intensity
from cost_models.chips import Chip, chip
from cost_models.collectives import all_gather_s
from cost_models.cores import (
    matrix_unit_flops_per_cycle,
    matrix_unit_flops_per_s,
    systolic_flops_per_s,
    vector_flops_per_s,
    vector_intensity,
    vector_lanes,
    vmem_intensity,
)
from cost_models.moe import ragged_fraction
from cost_models.networks import (
    Level,
    gpu_levels,
    host_s,
    levels_of,
    link_intensity,
    megatron_ways_across_domains,
    tree_all_reduce_s,
    tree_all_to_all_s,
    tree_gather_s,
)
from cost_models.torus import parse_slice

B200, GB200 = chip("b200"), chip("gb200")
MANY = 10**6
"""GPUs of a domain beside which the share that a GPU holds already does not count."""


def of_peak(peak: float, on: Chip = V5E) -> Chip:
    return replace(on, peak_flops_per_s=dict.fromkeys(on.peak_flops_per_s, peak))


@asks("gpu-nvlink-h100", "gpu-nvlink-b200", "gpu-v5p-egress")
def bandwidth_out_of_a_chip(i: Inputs) -> float:
    by_links = {(18, 25e9): H100, (18, 50e9): B200, (6, 90e9): V5P}
    return by_links[i["links"], i["link"]].egress_bytes_per_s


@asks("gpu-q2-2-bisection")
def bandwidth_within_a_node(i: Inputs) -> float:
    return gpu_levels(H100)[0].total_bytes_per_s


@asks("gpu-node-egress-h100")
def bandwidth_out_of_an_h100_node(i: Inputs) -> float:
    return gpu_levels(H100)[1].bytes_per_s


@asks("gpu-node-egress-gb200")
def bandwidth_out_of_a_gb200_rack(i: Inputs) -> float:
    return gpu_levels(GB200)[1].bytes_per_s


@asks("gpu-su-leaf-bw")
def bandwidth_of_the_leaves(i: Inputs) -> float:
    return gpu_levels(H100)[1].total_bytes_per_s


@asks("gpu-spine-bw", "gpu-spine-bw-appB")
def bandwidth_of_the_spine(i: Inputs) -> float:
    return gpu_levels(H100)[2].total_bytes_per_s


@asks("gpu-tree-ag-bw")
def gather_bandwidth_by_level(i: Inputs) -> list[float]:
    return [Level("level", ways, each).gather_bytes_per_s for ways, each in zip(i["D"], i["W"], strict=True)]


@asks("gpu-q4-5-two-node-ag")
def gather_bandwidth_of_two_nodes(i: Inputs) -> list[float]:
    assert (i["W"], i["W_node"]) == (H100.ici_bytes_per_s, gpu_levels(H100)[1].bytes_per_s)
    return [level.gather_bytes_per_s for level in levels_of(16, H100)]


@asks("gpu-q2-3-allgather-approx")
def gather_of_all_bytes(i: Inputs) -> float:
    return all_gather_s(i["V"], lines(MANY), H100)


@asks("gpu-pq1-ag-approx")
def gather_of_all_activations(i: Inputs) -> float:
    return all_gather_s(2 * i["B"] * i["F"], lines(MANY), H100)


@asks("gpu-xnode-ag")
def gather_over_the_network(i: Inputs) -> float:
    return tree_gather_s(i["V"], [Level("leaf", MANY, i["W_node"])])


@asks("gpu-q4-1-ag-spine")
def gather_over_a_leaf(i: Inputs) -> float:
    return tree_gather_s(i["B"], levels_of(8 * i["M"], H100))


@asks("gpu-xnode-a2a")
def all_to_all_over_two_nodes(i: Inputs) -> float:
    return tree_all_to_all_s(i["V"], levels_of(8 * i["M"], H100))


@asks("gpu-a2a-sparse")
def ragged_all_to_all(i: Inputs) -> float:
    return ragged_fraction(i["k"], i["N"]) * tree_all_to_all_s(i["V"], levels_of(i["N"], H100))


@asks("gpu-pq2-sparse-ratio")
def ragged_over_full(i: Inputs) -> float:
    return ragged_fraction(i["k"], i["N"])


@asks("gpu-sharp-theory")
def gain_of_sums_in_the_switch(i: Inputs) -> float:
    node = levels_of(8, H100)
    return tree_all_reduce_s(BIG, node) / tree_all_reduce_s(BIG, node, sharp=True)


@asks("gpu-q4-3-sharp-ar")
def all_reduce_in_the_switch(i: Inputs) -> float:
    return tree_all_reduce_s(2 * i["D"] * i["F"] / i["Y"], levels_of(8, H100), sharp=True)


@asks("gpu-q4-4-spine-ar")
def all_reduce_in_the_spine(i: Inputs) -> float:
    return tree_all_reduce_s(2 * i["D"] * i["F"], [Level("spine", 4, i["bw"])], sharp=True)


@asks("gpu-dp-roofline")
def link_intensities(i: Inputs) -> list[float]:
    return [link_intensity(each, with_constants(peak=i["C"]), "bf16") for each in i["W"]]


@asks("gpu-q5-1-b200-dp", "gpu-q5-2-3-pp-roofline")
def node_intensity(i: Inputs) -> float:
    return link_intensity(i["W"], with_constants(peak=i["C"]), "bf16")


@asks("trn-dcn-intensity-v5p")
def dcn_intensity(i: Inputs) -> float:
    return link_intensity(V5P.known("dcn_bytes_per_s"), V5P, "bf16")


@asks("gpu-ep-threshold")
def width_of_experts_over_many_nodes(i: Inputs) -> float:
    """Of the eighth of a node's network that one GPU has."""
    return link_intensity(i["W_node"] / 8, with_constants(peak=i["C"]), "bf16")


@asks("gpu-dp-2node")
def intensity_of_two_nodes(i: Inputs) -> float:
    on = with_constants(peak=i["base"])
    return link_intensity(Level("leaf", i["X"], 1).gather_bytes_per_s, on, "bf16")


@asks("gpu-dp-moe")
def intensity_of_experts(i: Inputs) -> float:
    on = with_constants(peak=2 * i["base"], hbm=1)
    return critical_rows(1, "bf16", on, experts=i["E"], experts_per_token=i["k"])


@asks("gpu-gb200-roofline-gain")
def intensity_over_that_of_gb200(i: Inputs) -> float:
    gb200 = link_intensity(i["bw_ratio"], with_constants(peak=i["flops_ratio"]), "bf16")
    return link_intensity(1, with_constants(peak=1), "bf16") / gb200


@asks("gpu-tp-limit")
def ways_in_a_node_and_beyond(i: Inputs) -> list[float]:
    return [ways_before_ici(i["F"], gpus(8), replace(of_peak(alpha, H100), ici_bytes_per_s=1)) for alpha in i["alpha"]]


@asks("gpu-q5-2-3-tp")
def ways_in_an_h100_node(i: Inputs) -> float:
    """The intensity that the case gives appears nowhere else; that of an H100 node is 2200."""
    return ways_before_ici(i["F"], gpus(8), of_peak(9.9e14, H100))


@asks("gpu-tp-limit-2node")
def ways_over_two_nodes(i: Inputs) -> float:
    on = of_peak(9.9e14, H100)
    return megatron_ways_across_domains(i["F"], on, activation_bytes_per_element=2, compute_dtype="bf16")


@asks("trn-dcn-per-host")
def network_of_a_host(i: Inputs) -> float | None:
    return V5P.dcn_bytes_per_s_per_host


@asks("tpu-q6-pcie")
def time_over_pcie(i: Inputs) -> float:
    return host_s(i["bytes"], replace(V5E, pcie_bytes_per_s=i["pcie_bytes_per_s"]), i["links"])


@asks("inf-8xv5e-hbm")
def bytes_of_a_v5e_host(i: Inputs) -> int:
    return parse_slice(replace(V5E, hbm_bytes=i["hbm_bytes"]), "2x4").hbm_bytes


@asks("inf-prefix-hbm-8xv5e")
def gib_of_a_v5e_host(i: Inputs) -> float:
    return parse_slice(replace(V5E, hbm_bytes=i["hbm_gib"] << 30), "2x4").hbm_bytes / (1 << 30)


@asks("tpu-q2-v5e-pod-flops")
def peak_of_a_v5e_pod(i: Inputs) -> float:
    return parse_slice(pinned(i), "16x16").flops_per_s("bf16")


@asks("tpu-mxu-flops")
def peak_of_a_matrix_unit(i: Inputs) -> float:
    return matrix_unit_flops_per_s(V5E)


@asks("tpu-v5e-flops-from-mxus")
def peak_of_all_matrix_units(i: Inputs) -> float:
    return systolic_flops_per_s(V5E)


@asks("tpu-vmem-critical-intensity")
def on_chip_intensity(i: Inputs) -> float:
    on = replace(of_peak(i["alpha_hbm"]), vmem_bytes_per_s=i["ratio"])
    return vmem_intensity(on, "bf16")


@asks("tpu-vpu-flops-v5p")
def peak_of_a_vector_unit(i: Inputs) -> float:
    return vector_flops_per_s(replace(V5P, cores_per_chip=1))


@asks("rl-vpu-critical-intensity-v5p")
def vector_intensity_of_v5p(i: Inputs) -> float:
    """Of the rounded rate that the case gives for a core."""
    clock = i["vpu_flops_per_s_per_core"] / V5P.known("vector_lanes_per_core")
    return vector_intensity(replace(V5P, clock_hz=clock))


@asks("gpu-q1-1-h100-cores")
def lanes_of_an_h100(i: Inputs) -> float:
    return vector_lanes(H100)


@asks("gpu-q1-1-b200-cores")
def lanes_of_a_b200(i: Inputs) -> float:
    return vector_lanes(B200)


@asks("gpu-q1-1-v5p-alus")
def lanes_of_a_v5p(i: Inputs) -> float:
    return vector_lanes(V5P)


@asks("gpu-q1-2-vector-flops")
def vector_peak_by_clock(i: Inputs) -> list[float]:
    return [vector_flops_per_s(replace(H100, clock_hz=clock)) for clock in i["clock"]]


@asks("gpu-q1-5-smem")
def shared_memory_of_an_h100(i: Inputs) -> int | None:
    return H100.vmem_bytes


@asks("gpu-q1-6-b200-clock")
def clock_of_a_b200(i: Inputs) -> float | None:
    return B200.clock_hz


@asks("gpu-b200-tc-flops-per-cycle", "gpu-h100-tc-flops-per-cycle")
def operations_of_a_tensor_core_and_cycle(i: Inputs) -> float:
    on = H100 if i["sms"] == H100.cores_per_chip else B200
    return matrix_unit_flops_per_cycle(replace(of_peak(i["C"], on), clock_hz=i["clock"]), "bf16")


@asks("trn-fsdp-3axis")
def intensity_of_three_rings(i: Inputs) -> float:
    return ici_intensity(rings(*[4] * i["axes"]), with_constants(peak=i["alpha"], link=0.5), "bf16")


@asks("rl-dot-intensity")
def intensity_of_a_dot_product(i: Inputs) -> float:
    """Asked of vectors a million times as long, where the last addition and the result do not count."""
    product = multiply(1, 1e6 * i["N"], 1)
    return product.compute_s * V5E.flops_per_s("bf16") / (product.hbm_s * V5E.hbm_bytes_per_s)
