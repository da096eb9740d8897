"""Prefill in pipeline stages: a mesh axis along which each group of chips holds and computes a part of the layers.

S stages read S prefills at once, each a stage behind the one before. Every stage takes as long as the slowest, which
also looks up tokens or makes logits, and then sends its rows of the residual stream on:

    a prefill   T = T_layers + S (T_vocab + T_permute)          a prefill ends every T / S

T_layers are all layers on the chips of one stage. A stage keeps its part of their weights, and all of the vocabulary's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from cost_models.collectives import permute_s
from cost_models.meshes import Mesh
from cost_models.roofline import Roofline
from cost_models.torus import MeshAxis
from planner.problem.machine import Machine
from planner.problem.primitives import Collective, Program, residual_bytes
from planner.problem.rules import PrefillRules
from planner.problem.sizes import Sizes

ONCE_A_STAGE = ("prefill.embedding", "prefill.logits", "prefill.sampling", "prefill.step")


@dataclass(frozen=True)
class Pipeline:
    """The axis along which layers are cut; of one chip for none."""

    axis: MeshAxis

    @property
    def stages(self) -> int:
        """Groups of layers."""
        return self.axis.size

    def staged(self, mesh: Mesh) -> Mesh:
        """The mesh of one stage: the axis has one chip there."""
        return tuple(replace(axis, size=1) if axis.name == self.axis.name else axis for axis in mesh)

    def whole(self, mesh: Mesh) -> Mesh:
        """The mesh of all stages, from that of one."""
        return tuple(self.axis if axis.name == self.axis.name else axis for axis in mesh)

    def kept(self, name: str, layer_bytes: int) -> int:
        """Weights of a block on a chip, from those of all layers."""
        return layer_bytes if name == "vocab" else ceil(layer_bytes / self.stages)

    def vocab_s(self, seconds: float, machine: Machine) -> float:
        """Seconds of the vocabulary in all stages; the fixed cost of a layer is that of its own stage alone."""
        return self.stages * seconds - (self.stages - 1) * machine.sizes.layers * machine.stack.layer_s

    def permute(self, rules: PrefillRules, tokens: int, program: Program, prompts: int) -> Collective:
        """Rows of the residual stream on their way to the next stage: at the end of every stage's turn, also of the
        last, which waits for the others to send."""
        rows = prompts * tokens // program.ways(rules.tokens)
        moved = ceil(residual_bytes(rows, rules, program))
        return Collective("prefill.pipeline.rows", "permute", (self.axis.name,), moved, self.stages)

    def collectives(self, found: Iterable[Collective], permute: Collective) -> list[Collective]:
        """Collectives of a prefill through all stages, from those of all layers and one vocabulary: each stage looks up
        tokens and makes logits, though only the first and the last need them."""
        each_stage = (
            each._replace(repeats=each.repeats * self.stages) if each.address.startswith(ONCE_A_STAGE) else each
            for each in found
        )
        return [*each_stage, permute]

    def permute_s(self, planned: Collective, machine: Machine) -> float:
        """Seconds of one of them."""
        return permute_s(planned.bytes, self.axis, machine.chip, machine.stack)

    def parts(self, parts: dict[str, Roofline], permutes: Collective, machine: Machine) -> dict[str, Roofline]:
        """Rooflines of a prefill through all stages, from those of all layers and one vocabulary."""
        found = {address: part * (self.stages if address in ONCE_A_STAGE else 1) for address, part in parts.items()}
        step, layers_s = parts["prefill.step"], machine.sizes.layers * machine.stack.layer_s
        found["prefill.step"] = replace(step, fixed_s=self.vocab_s(step.fixed_s, machine))
        assert layers_s <= step.fixed_s, "the fixed cost of a step has that of its layers"
        found["prefill.pipeline"] = Roofline(ici_s=permutes.repeats * self.permute_s(permutes, machine))
        return found


def pipelines(mesh: Mesh, sizes: Sizes) -> Iterator[Pipeline | None]:
    """None, and every axis that cuts the layers evenly; layers that are not alike are not cut."""
    yield None
    if sizes.mixture and sizes.sparse_layers != sizes.layers:
        return
    for axis in mesh:
        if axis.size > 1 and sizes.layers % axis.size == 0:
            yield Pipeline(axis)
