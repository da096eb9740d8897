"""Why no layout is legal under pins, as far as it can be said: options with what is pinned, and what they break."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product

from cost_models.chips import chip
from cost_models.stacks import stack
from cost_models.torus import parse_slice
from planner.problem.build import load_of, meshes_of, pieces_of, pinned_slices
from planner.problem.legal import (
    LANES,
    divides,
    legal_batch,
    legal_d_ff,
    legal_d_model,
    legal_expert_ff,
    legal_experts,
    legal_heads,
)
from planner.problem.machine import Machine
from planner.problem.options import (
    ROLES,
    RULES,
    Option,
    mode_tuples,
    role_tuples,
)
from planner.problem.pins import Allowed, allowed_by
from planner.problem.rules import Axes, GenerateRules, PrefillRules, without
from planner.problem.sizes import sizes_of
from planner.problem.tables import Load
from planner.spec import PINS, Spec, resolutions


@dataclass(frozen=True)
class Tried:
    """One option with what is pinned: its residual layout, and the rules that it breaks, none for a legal one."""

    residual: tuple[tuple[str, str], ...]
    """What each mesh axis cuts in the residual stream of generate, and of prefill."""
    broken: tuple[str, ...]


def why_no_layout(spec: Spec) -> list[str]:
    """Sentences on why a spec whose pins leave no legal layout has none."""
    machines = machines_of(spec)
    if not machines:
        return [f"no mesh of {spec.hardware.chip} {' or '.join(pinned_slices(spec))} has the pinned axes"]
    loads = {machine.slice: load_of(spec, machine.slice) for machine in machines}
    by_mesh = [
        {block: list(options(block, machine, loads[machine.slice], spec)) for block in machine.sizes.blocks}
        for machine in machines
    ]
    if missing := list(missing_axes(spec, machines)):
        return missing
    found = [sentence for block in by_mesh[0] if (sentence := block_sentence(block, [m[block] for m in by_mesh]))]
    return found or [disagreement(by_mesh)]


def missing_axes(spec: Spec, machines: list[Machine]) -> Iterator[str]:
    """Pins that name an axis which no mesh has."""
    known = {name for machine in machines for axis in machine.mesh for name in (axis.name, axis.torus_axis)}
    for address, value in spec.pins.items():
        for axis in value if isinstance(value, tuple) and PINS[address] == "axes" else ():
            if axis not in known:
                slices = f"{spec.hardware.chip} {' or '.join(pinned_slices(spec))}"
                yield f"{address}: {axis} is not an axis of {slices}; its meshes have {', '.join(sorted(known))}"


def machines_of(spec: Spec) -> list[Machine]:
    """Every mesh of the slices that may be used."""
    machine_chip, sizes = chip(spec.hardware.chip), sizes_of(resolutions(spec)[0])
    slices = [parse_slice(machine_chip, text) for text in pinned_slices(spec)]
    return [
        Machine(machine_chip, stack(spec.hardware.stack), slice_, mesh, sizes)
        for slice_ in slices
        for mesh in meshes_of(spec, slice_)
    ]


def options(block: str, machine: Machine, load: Load, spec: Spec) -> Iterator[Tried]:
    """The options of a block on one mesh that have what is pinned, legal or not; of those over a copy the nearest to a
    legal one for each residual layout."""
    allowed = allowed_by(spec.pins, pieces_of(machine.mesh))[block]
    if not allowed.copied:
        yield from stored_once(block, machine, load, allowed)
    if spec.serving.strategies == "all" and allowed.copied is not False:
        yield from over_copies(block, machine, load, allowed)


def stored_once(block: str, machine: Machine, load: Load, allowed: Allowed) -> Iterator[Tried]:
    """The options of a block with one stored layout for both phases."""
    for option, stored, rules in tables_of(block, machine):
        if allowed.generate(stored) and allowed.prefill(stored, rules):
            broken = (
                stored_rules(block, stored, machine),
                token_rules(rules, machine, load),
                step_rules(stored, machine, load),
            )
            yield Tried(option.residual, tuple(chain(*broken)))


Side = tuple[tuple[str, ...], Axes]
"""What one side of an option over a copy asks of the other: the residual layout, and the axes that cut KV heads or the
vocabulary."""


def over_copies(block: str, machine: Machine, load: Load, allowed: Allowed) -> Iterator[Tried]:
    """The options of a block whose prefill reads a copy, each side the nearest to a legal one."""
    made: Side
    read: Side
    steps: dict[Side, tuple[str, ...]] = {}
    prefills: dict[Side, tuple[str, ...]] = {}
    for option, stored, rules in tables_of(block, machine):
        broken = tuple(stored_rules(block, stored, machine))
        if allowed.generate(stored):
            made = tuple(axis.generate for axis in option.residual), stored.kv_heads + stored.vocab
            keep_least(steps, made, (*broken, *step_rules(stored, machine, load)))
        if allowed.prefill(stored, rules):
            read = tuple(axis.prefill for axis in option.residual), rules.kv_heads + rules.vocab
            keep_least(prefills, read, (*broken, *token_rules(rules, machine, load)))
    found: dict[Side, tuple[str, ...]] = {}
    for ((stream, kept), first), ((tokens, cut), second) in product(steps.items(), prefills.items()):
        if block != "vocab" or set(kept) == set(cut):
            keep_least(found, (stream + tokens, ()), (*first, *second, *cache_rules(block, kept, cut)))
    for (residual, _), broken in found.items():
        half = len(residual) // 2
        yield Tried(tuple(zip(residual[:half], residual[half:], strict=True)), broken)


def keep_least(found: dict[Side, tuple[str, ...]], side: Side, broken: tuple[str, ...]) -> None:
    """Keep what breaks the fewest rules."""
    if side not in found or len(broken) < len(found[side]):
        found[side] = broken


def cache_rules(block: str, made: Axes, read: Axes) -> Iterator[str]:
    """What keeps prefill from leaving keys and values where generate keeps them."""
    beyond = without(read, made)
    if block == "attention" and beyond:
        yield f"prefill cuts KV heads over {','.join(beyond)}, over which generate keeps all of them on every chip"


def tables_of(block: str, machine: Machine) -> Iterator[tuple[Option, GenerateRules, PrefillRules]]:
    """Every option of a block on one mesh that stores weights once, and its tables."""
    names = tuple(axis.name for axis in machine.mesh)
    sizes = tuple(axis.size for axis in machine.mesh)
    for taken in role_tuples(sizes, ROLES[block]):
        for modes in mode_tuples(sizes, taken):
            option = Option(taken, modes)
            yield option, *RULES[block](names, option)


def stored_rules(block: str, stored: GenerateRules, machine: Machine) -> Iterator[str]:
    """What makes a way to store weights illegal, each rule in words."""
    sizes, ways = machine.sizes, machine.ways
    if block == "attention" and not legal_heads(stored, machine):
        yield heads_text(stored, machine)
    if not legal_d_model(stored, machine):
        yield f"d_model {sizes.d_model} does not divide into {ways(stored.d_model)} parts{lanes_text(machine)}"
    if block == "mlp" and not legal_d_ff(stored, machine):
        d_ff = min(each.d_ff for each in sizes.mlps)
        yield f"d_ff {d_ff} is too small for {ways(stored.d_ff)} parts{lanes_text(machine)}"
    if block == "experts" and not legal_expert_ff(stored, machine):
        parts = f"{ways(stored.expert_ff)} parts{lanes_text(machine)}"
        yield f"an expert's d_ff {sizes.experts.d_ff} is too small for {parts}"
    if block == "experts" and not legal_experts(stored, machine):
        yield f"{sizes.experts.experts} experts do not divide into {ways(stored.experts)} parts of whole experts"


def token_rules(rules: PrefillRules, machine: Machine, load: Load) -> Iterator[str]:
    """What makes a way to cut prompts illegal."""
    if not divides(load.smallest, rules, machine):
        cut = machine.ways(rules.tokens + rules.d_model)
        yield f"the shortest bucket of {load.smallest} tokens does not divide into {cut} parts"


def step_rules(stored: GenerateRules, machine: Machine, load: Load) -> Iterator[str]:
    """What makes a way to cut sequences illegal."""
    if not any(legal_batch(stored, batch, machine) for batch in load.batches):
        batches, axes = " or ".join(map(str, load.batches)), stored.rows + stored.batch
        yield f"a batch of {batches} does not divide {machine.ways(axes)} ways (over {','.join(axes)})"


def heads_text(stored: GenerateRules, machine: Machine) -> str:
    """Why heads cannot be cut as a table says."""
    sizes, heads = machine.sizes, machine.sizes.heads(stored, machine.ways)
    if sizes.latent and stored.kv_heads:
        return f"latent attention keeps one latent for all heads: nothing to cut over {','.join(stored.kv_heads)}"
    if heads.kv_padded >= 2 * sizes.kv_heads:
        return (
            f"{sizes.kv_heads} KV heads do not cut {heads.kv_ways} ways (over {','.join(stored.kv_heads)}): "
            "half or more of the shards' heads would be padding"
        )
    return (
        f"{heads.q_ways} chips cannot share a KV shard of {heads.kv_local} heads: "
        f"query heads split over copies of one KV head only (cut {sizes.kv_heads} KV heads further)"
    )


def lanes_text(machine: Machine) -> str:
    """On a TPU, that parts are whole lanes."""
    return f" of whole lanes of {LANES}" if machine.chip.kind == "tpu" else ""


def block_sentence(block: str, by_mesh: list[list[Tried]]) -> str | None:
    """Why a block has no legal option on any mesh; None if it has one."""
    tried = [each for options_ in by_mesh for each in options_]
    if not tried:
        return f"{block}: no way to cut it has what is pinned"
    nearest = min(tried, key=lambda each: len(each.broken))
    if not nearest.broken:
        return None
    return f"{block}: no option that has what is pinned is legal; the nearest: {nearest.broken[0]}"


def disagreement(by_mesh: list[dict[str, list[Tried]]]) -> str:
    """Which blocks cannot agree on the residual stream, though each has a legal option on its own."""
    legal = [
        {block: {each.residual for each in found if not each.broken} for block, found in mesh.items()}
        for mesh in by_mesh
    ]
    for first, second in combinations(by_mesh[0], 2):
        if not any(mesh[first] & mesh[second] for mesh in legal):
            return (
                f"{first} and {second} have options with what is pinned, "
                "but none that agree on how the residual stream is cut"
            )
    return "every block has options with what is pinned, but they do not all agree on how the residual stream is cut"
