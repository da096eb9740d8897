"""The layers of a model as its floors see them: weights and widths, block by block, and attention between them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cost_models.attention import causal_pairs_in_window
from cost_models.matmul import compute_s, hbm_s
from cost_models.moe import Mixture, experts_touched
from planner.problem.chunks import steps_of
from planner.problem.legal import LANES
from planner.problem.links import Floats
from planner.problem.machine import Machine

if TYPE_CHECKING:
    from planner.problem.tables import Load


@dataclass(frozen=True)
class Shape:
    """Layers that are alike in one block: their weights, the widths that their two matmuls make and read, and what lies
    between them.

    `cut` of the parameters follow the width, which is cut in whole `units`, at least `least_units` to a chip; the
    others may lie in copies, and `gathered` of them are cut by d_model too. Seconds of a layer between the matmuls: of
    a prefill's step [prompts and chunks], and of a step [batches]. Of a `mixture` a row meets k of E experts, and rows
    read those that they meet together; the widths are those of k. `normed`: a norm comes before, which is summed where
    d_model is cut.
    """

    layers: int
    parameters: float
    cut: float
    units: int
    least_units: int
    out_width: float
    in_width: float
    gathered: float
    prefill_between_s: Floats
    step_between_s: Floats
    mixture: Mixture | None = None
    normed: bool = True

    @property
    def met(self) -> float:
        """The part of the weights that one row meets."""
        return self.mixture.experts_per_token / self.mixture.experts if self.mixture else 1.0

    def read(self, rows: Floats) -> Floats:
        """The part of the weights that `rows` meet together."""
        if self.mixture is None:
            return np.ones_like(rows)
        experts, per_token = self.mixture.experts, self.mixture.experts_per_token
        touched = (experts_touched(float(each), experts, per_token) / experts for each in rows.flat)
        return np.fromiter(touched, np.float64, rows.size).reshape(rows.shape)


def shapes(machine: Machine, load: "Load") -> tuple[Shape, ...]:
    """The weights of layers that are alike, block by block, without padding."""
    return attention_shape(machine, load), *mlp_shapes(machine), *expert_shapes(machine)


def attention_shape(machine: Machine, load: "Load") -> Shape:
    """Attention. Keys and values may be made where they are kept, so they do not travel; latents travel instead of the
    queries made of them, and what is made of latents is not cut by d_model."""
    sizes, heads = machine.sizes, (machine.sizes.q_heads, machine.sizes.kv_heads, machine.sizes.d_model)
    of_heads = [each for each in sizes.matrices if each.heads == "q"]
    made = sizes.q_made(sizes.q_heads)
    return Shape(
        layers=sizes.layers,
        parameters=sum(each.elements(*heads) for each in sizes.matrices),
        cut=sum(each.elements(*heads) for each in of_heads),
        units=sizes.q_heads,
        least_units=0,
        out_width=made,
        in_width=min(made, sizes.q_heads * sizes.out_dim),
        gathered=sum(each.elements(*heads) for each in of_heads if each.whole is None),
        prefill_between_s=scores_floor_s(machine, load),
        step_between_s=reads_floor_s(machine, load),
    )


def mlp_shapes(machine: Machine) -> list[Shape]:
    """The dense MLPs."""
    sizes, nothing, lanes = machine.sizes, np.zeros(1), least_lanes(machine)
    found = []
    for name, layers, d_ff in sizes.mlps:
        whole, normed = (sizes.inputs + 1) * sizes.d_model * d_ff, name == "d_ff"
        made = sizes.inputs * d_ff
        found.append(Shape(layers, whole, whole, d_ff, lanes, made, d_ff, whole, nothing, nothing, normed=normed))
    return found


def expert_shapes(machine: Machine) -> list[Shape]:
    """The experts of a mixture."""
    sizes, mixture, nothing = machine.sizes, machine.sizes.mixture, np.zeros(1)
    if mixture is None:
        return []
    units, width = mixture.experts * mixture.d_ff, mixture.experts_per_token * mixture.d_ff
    whole = (sizes.inputs + 1) * sizes.d_model * units
    made, lanes = sizes.inputs * width, least_lanes(machine)
    return [Shape(sizes.sparse_layers, whole, whole, units, lanes, made, width, whole, nothing, nothing, mixture)]


def least_lanes(machine: Machine) -> int:
    """Columns that a part of a width has at least."""
    return LANES if machine.chip.kind == "tpu" else 1


def reading_steps(load: "Load") -> tuple[Floats, Floats]:
    """The steps of each prefill of a load, and the rows of one."""
    steps = [(prompts, steps_of(load.prompt, chunk)) for prompts, chunk in load.readings]
    counts = np.array([each.number for _, each in steps], dtype=np.float64)
    return counts, np.array([prompts * each.tokens for prompts, each in steps], dtype=np.float64)


def scores_floor_s(machine: Machine, load: "Load") -> Floats:
    """Seconds of the scores of prefill attention in a layer and step, masked pairs left out, spread over all chips.

    However the tokens are cut, chunks together attend to the pairs of the whole prompt at least.
    """
    sizes, latent = machine.sizes, machine.sizes.latent
    attended = latent.query_head_dim + latent.value_dim if latent else 2 * sizes.head_dim
    pairs = sum(kind.layers * least_pairs(load.prompt, kind.window) for kind in sizes.kinds) / sizes.layers
    flops = 2 * np.array([prompts for prompts, _ in load.readings]) * pairs * sizes.q_heads * attended
    seconds = compute_s(1.0, sizes.compute_dtype, machine.chip) / machine.stack.attention_efficiency
    counts, _ = reading_steps(load)
    return flops * (seconds / machine.slice.chips) / counts


def least_pairs(prompt: int, window: int | None) -> float:
    """Tokens of a prompt and earlier ones that meet in a layer."""
    pairs = prompt * prompt / 2
    return pairs if window is None else min(pairs, causal_pairs_in_window(prompt, prompt, window))


def reads_floor_s(machine: Machine, load: "Load") -> Floats:
    """Seconds to read the KV cache of a layer in a step, spread over all chips."""
    sizes, chips = machine.sizes, machine.slice.chips
    elements = np.array(load.batches) * sizes.attended(load.mean_context) / sizes.layers * sizes.cached_dim
    return elements * hbm_s(sizes.least_kv_read_bytes / chips, machine.chip, machine.stack)
