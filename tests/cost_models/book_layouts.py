"""Questions about how arrays lie on a mesh, and about the layouts of a layer."""

from math import sqrt

from book_cases import V5E, Inputs, asks, rings, with_constants
from book_collectives import BIG
from book_rooflines import ways_before_ici

from cost_models.bounds import (
    best_2d_ways,
    chips_where_2d_wins,
    gathered_rows_per_chip_before_ici,
    megatron_ways_before_ici,
)
from cost_models.collectives import all_to_all_s, bandwidth_bytes_per_s
from cost_models.counting import attention_parameters, mlp_parameters, vocabulary_parameters
from cost_models.layouts import kv_by_batch_ici_s, two_d_ici_s
from cost_models.matmul import hbm_s
from cost_models.shards import chip_bytes, local_shape, mesh_bytes, replicas


@asks("sh-code-local-shapes")
def shapes_on_a_chip(i: Inputs) -> list[int]:
    mesh = {"X": i["X"], "Y": i["Y"]}
    specs = [[[axis] if axis else [] for axis in i[key]] for key in ("A_spec", "B_spec")]
    first, second = (local_shape(i[key], spec, mesh) for key, spec in zip("AB", specs, strict=True))
    return [*first, *second]


@asks("sh-popquiz-total-bytes")
def bytes_with_replicas(i: Inputs) -> int:
    mesh = {"X": 8, "Y": 2, "Z": i["replicas_Z"]}
    return mesh_bytes(i["shape"], [["X"], ["Y"]], mesh, "int8")


@asks("sh-q1-replication-ratio")
def copies_of_a_shard(i: Inputs) -> int:
    return replicas([["X"], []], {axis: i[axis] for axis in "XYZ"})


@asks("tf-q2-replicated-flops")
def copies_of_a_product(i: Inputs) -> int:
    return replicas([["X"], ["Y"]], {axis: i[axis] for axis in "XYZ"})


@asks("sh-empirical-peak-bytes-per-device")
def bytes_on_a_device(i: Inputs) -> int:
    return chip_bytes([int(i["array_bytes"])], [["X"]], {"X": i["X"]}, "int8")


@asks("sh-alltoall-chunks")
def chunks_that_cross_a_chip(i: Inputs) -> float:
    ring = rings(i["N"])
    moved_bytes = all_to_all_s(BIG, ring, V5E) * bandwidth_bytes_per_s(ring, V5E)
    return moved_bytes / (BIG / i["N"] ** 2)


@asks("sh-q4-strategy2-xmax")
def ways_of_a_gathered_matmul(i: Inputs) -> float:
    return ways_of_one_matmul(i["D"], i["alpha_ici"])


@asks("sh-q4-strategy2-dmin")
def width_of_a_gathered_matmul(i: Inputs) -> float:
    return 1 / ways_of_one_matmul(1, i["alpha_ici"])


@asks("trn-tp-F-for-8way")
def width_of_eight_ways(i: Inputs) -> float:
    return i["Y"] / ways_before_ici(1, rings(16), with_constants(peak=i["alpha"], link=0.5))


def ways_of_one_matmul(width: int, alpha: float) -> float:
    on = with_constants(peak=alpha, link=0.5)
    sizes = {"activation_bytes_per_element": 2, "matmuls": 1}
    return megatron_ways_before_ici(width, rings(16), compute_dtype="bf16", chip=on, **sizes)


@asks("trn-mixed-bound")
def rows_of_gathered_and_sharded_weights(i: Inputs) -> float:
    """M_X * M_Y = 2: weights gathered over two rings, Megatron over one."""
    on = with_constants(peak=i["alpha"], link=0.5)
    return gathered_rows_per_chip_before_ici(i["F"], rings(*[16] * i["MxMy"]), rings(16), compute_dtype="bf16", chip=on)


@asks("inf-kv-shard-alltoall-count")
def exchanges_of_a_cache_by_batch(i: Inputs) -> float:
    sequences, q_heads, head_dim = 10**6, 64, 128
    one = all_to_all_s(2 * sequences * q_heads * head_dim, rings(16), V5E)
    return kv_by_batch_ici_s(sequences, q_heads, head_dim, 2, rings(16), V5E) / one


@asks("inf-q7-2d-coefficient")
def coefficient_of_the_best_2d_mesh(i: Inputs) -> float:
    """128 chips, for which the best ways are whole numbers: 4 and 4 x 8."""
    chips, rows, d_model = 128, 10**6, 8192
    d_ff = d_model * i["F_over_D"]
    assert best_2d_ways(chips, d_model, d_ff) == (4, 32)
    x, y, z = rings(4, 4, 8)
    seconds = two_d_ici_s(rows, d_model, d_ff, 2, (x,), (y, z), V5E)
    return seconds * sqrt(chips) * bandwidth_bytes_per_s((x,), V5E) / (rows * d_model)


@asks("inf-q7-2d-xopt")
def best_ways_over_d_model(i: Inputs) -> float:
    return best_2d_ways(i["N"], 1, i["F_over_D"])[0]


@asks("inf-q7-2d-yzopt")
def best_ways_over_d_ff(i: Inputs) -> float:
    return best_2d_ways(i["N"], 1, i["F_over_D"])[1]


@asks("inf-q7-breakeven", "inf-q7-breakeven-llama70b")
def chips_where_two_dimensions_win(i: Inputs) -> float:
    return chips_where_2d_wins(1, i["F_over_D"])


@asks("inf-q6-1-int8-fullshard")
def experts_sharded_with_everything(i: Inputs) -> list[float]:
    return memory_of_experts(i, each=1, attention_ways=i["Y"] * i["Z"])


@asks("inf-q6-1-int8-attn-replicated-over-Z")
def experts_sharded_apart(i: Inputs) -> list[float]:
    return memory_of_experts(i, each=1, attention_ways=i["Y"])


@asks("inf-q6-1-bf16-attn-replicated-over-Z")
def experts_sharded_apart_in_bf16(i: Inputs) -> list[float]:
    return memory_of_experts(i, each=2, attention_ways=i["Y"])


def memory_of_experts(i: Inputs, *, each: int, attention_ways: int) -> list[float]:
    """Bytes of a chip, the time to read them, and the HBM that is left."""
    experts = i["L"] * mlp_parameters(i["D"], i["F"], experts=i["E"])
    rest = i["L"] * attention_parameters(i["D"], i["N"], i["K"], i["H"])
    rest += vocabulary_parameters(i["V"], i["D"], tied=True)
    stored = each * (experts / (i["Y"] * i["Z"]) + rest / attention_ways)
    return [stored, hbm_s(stored, with_constants(hbm=i["W_hbm"])), i["hbm_bytes"] - stored]
