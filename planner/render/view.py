"""PackageView: everything the templates print, decided here.

A template holds no arithmetic: each name, tuple of mesh axes and yes-or-no it needs is a field of the view.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from planner.plan.schema import Collective, GenerateRules, Mesh, Plan, PrefillRules
from planner.render.model import ModelSizes, RenderError, read_model
from planner.render.shapes import Shape, full_shape, tiny_shape

Axes = tuple[str, ...]

TPU_CHIPS = frozenset({"v4", "v5e", "v5p", "v6e", "7x"})
KERNEL_COMBINED_HEADS = frozenset({2, 4, 8, 16})
"""Keys and values per chip (2 * KV heads) that jax's ragged paged attention accepts and scatters without a copy."""
ONE_GATHER_CHIPS = 16
"""An all_gather over several mesh axes stays one all_gather up to this many chips; beyond, it goes axis by axis."""

ATTENTION_WEIGHTS = {
    "w_q": {"d_model": 2, "q_heads": 0},
    "w_kv": {"d_model": 2, "kv_heads": 0},
    "w_o": {"d_model": 2, "q_heads": 0},
    "w_q_scale": {"q_heads": 0},
    "w_kv_scale": {"kv_heads": 0},
    "w_o_scale": {"d_model": 0},
}
MLP_WEIGHTS = {
    "w_in": {"d_model": 0, "d_ff": 2},
    "w_down": {"d_model": 1, "d_ff": 0},
    "w_in_scale": {"d_ff": 1},
    "w_down_scale": {"d_model": 0},
}
"""Stored weight -> dimension of each logical axis in one layer's array, in the order in which prefill gathers them."""


@dataclass(frozen=True)
class Reduction:
    """How partial sums over d_model are added up: rows scattered, or summed everywhere, then cut locally."""

    value: str
    group: str
    scattered: Axes = ()
    summed: Axes = ()
    sliced: Axes = ()

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls of the package's collectives, each of which turns `value` into the next `value`."""
        steps = (("reduce_scatter_rows", "SCATTERED"), ("all_reduce", "SUMMED"), ("own_slice", "SLICED"))
        return tuple(
            f"{call}({self.value}, sharding.{self.group}_{part})" for call, part in steps if getattr(self, part.lower())
        )


@dataclass(frozen=True)
class Group:
    """A named part of the rule tables that one collective works on."""

    name: str
    axes: Axes
    meaning: str


@dataclass(frozen=True)
class GenerateView:
    """The generate step: its table, and what follows from it."""

    rules: GenerateRules
    step_ms: str
    binds: str
    scattered_slots: Axes
    exchanged_slots: Axes
    qkv: Reduction
    q: Reduction
    kv: Reduction
    hidden: Reduction
    drops_head_padding: bool


@dataclass(frozen=True)
class GatherStep:
    """An all_gather over the axes of `group`, joined on dimension `dim` of one layer's array."""

    group: str
    dim: int


@dataclass(frozen=True)
class WeightGather:
    """How a weight becomes what prefill multiplies; d_model first."""

    weight: str
    steps: tuple[GatherStep, ...]


@dataclass(frozen=True)
class PrefillView:
    """The prefill step: its table, and what follows from it."""

    rules: PrefillRules
    step_ms: str
    binds: str
    tokens: int
    own_tokens: Axes
    attention_tokens: Axes
    attention_summed: Axes
    mlp_tokens: Axes
    mlp_summed: Axes
    gathered_d_model: Axes
    gathered_q_heads: Axes
    gathered_kv_heads: Axes
    gathered_d_ff: Axes
    attention_gathers: tuple[WeightGather, ...]
    mlp_gathers: tuple[WeightGather, ...]
    hidden: Reduction
    embedding_steps: tuple[str, ...]
    embedding_summed: Axes
    drops_head_padding: bool
    picks_kv_heads: bool


@dataclass(frozen=True)
class RuleRow:
    """One logical axis in both tables, as people read it."""

    logical: str
    prefill: str
    generate: str


def _cell(axes: Axes | None) -> str:
    """Mesh axes in words; None means that the phase has no such logical axis."""
    if axes is None:
        return ""
    return ", ".join(axes) if axes else "replicated"


@dataclass(frozen=True)
class PackageView:
    """What a rendered package is made of."""

    name: str
    chip: str
    slice: str
    digest: str
    accuracy: str
    mesh: Mesh
    model: ModelSizes
    full: Shape
    tiny: Shape
    generate: GenerateView
    prefill: PrefillView
    groups: tuple[Group, ...]
    on_tpu: bool
    uses_kernel: bool
    gathers_candidates_at_once: bool
    masks_vocab: bool

    @property
    def header(self) -> str:
        """The first line of every rendered file, without its comment sign."""
        return (
            f"Rendered from plan.yaml (sha256 {self.digest[:8]}). "
            "Do not edit: `shardwright render plan.yaml` overwrites this file."
        )

    @property
    def rule_rows(self) -> tuple[RuleRow, ...]:
        """The two tables side by side."""
        prefill, generate = dict(self.prefill.rules), dict(self.generate.rules)
        logical = ("tokens", "batch", "d_model", "q_heads", "kv_heads", "d_ff", "vocab")
        return tuple(RuleRow(axis, _cell(prefill.get(axis)), _cell(generate.get(axis))) for axis in logical)

    @property
    def chips(self) -> int:
        """Chips of the mesh."""
        return len(self.mesh.chips)

    @property
    def int8(self) -> bool:
        """Whether weights are stored as int8 with a scale per output channel."""
        return self.model.weights_dtype == "int8"

    @property
    def casts_weights(self) -> bool:
        """Whether a weight changes its dtype before it is multiplied."""
        return self.model.weights_dtype != self.model.activations_dtype

    @property
    def casts_kv(self) -> bool:
        """Whether keys and values change their dtype on the way into the cache and out of it."""
        return self.model.kv_dtype != self.model.activations_dtype


def package_view(plan: Plan, digest: str) -> PackageView:
    """The view of `plan`; raises RenderError for what rendered packages do not support."""
    model = read_model(plan)
    sizes = {axis.name: axis.size for axis in plan.mesh.axes}
    _check_rules(plan, sizes)
    full, tiny = full_shape(plan, model, sizes), tiny_shape(plan, model, sizes)
    copied = _without(plan.generate.rules.q_heads, plan.generate.rules.kv_heads + plan.generate.rules.batch)
    if copied and full.kv_heads_stored > full.kv_shards:
        raise RenderError(f"plan {plan.name}: KV heads are copied over {copied[0]} though a chip holds several of them")
    generate = _generate_view(plan, full)
    prefill = _prefill_view(plan, full, sizes, model.weights_dtype == "int8")
    on_tpu = plan.chip in TPU_CHIPS
    combined = 2 * full.kv_heads_stored // _ways(plan.generate.rules.kv_heads, sizes)
    bf16 = model.kv_dtype == model.activations_dtype == "bf16"
    kernel = on_tpu and bf16 and model.head_dim == 128 and combined in KERNEL_COMBINED_HEADS
    return PackageView(
        name=plan.name,
        chip=plan.chip,
        slice=plan.slice,
        digest=digest,
        accuracy=plan.accuracy,
        mesh=plan.mesh,
        model=model,
        full=full,
        tiny=tiny,
        generate=generate,
        prefill=prefill,
        groups=_groups(generate, prefill),
        on_tpu=on_tpu,
        uses_kernel=kernel,
        gathers_candidates_at_once=_ways(plan.generate.rules.vocab, sizes) <= ONE_GATHER_CHIPS,
        masks_vocab=full.vocab_stored != full.vocab,
    )


def _ways(axes: Axes, sizes: Mapping[str, int]) -> int:
    return prod(sizes[axis] for axis in axes)


def _without(axes: Axes, removed: Axes) -> Axes:
    return tuple(axis for axis in axes if axis not in removed)


def _shared(axes: Axes, kept: Axes) -> Axes:
    return tuple(axis for axis in axes if axis in kept)


def _check_rules(plan: Plan, sizes: Mapping[str, int]) -> None:
    """Refuse tables outside the scheme of the rendered steps; the planner never makes one."""
    gen, pre = plan.generate.rules, plan.prefill.rules
    for phase, rules in (("generate", gen), ("prefill", pre)):
        for logical, axes in rules:
            if unknown := [axis for axis in axes if axis not in sizes]:
                raise RenderError(f"{phase}.{logical} names {unknown[0]}, which is no axis of the mesh {sorted(sizes)}")
    faults = {
        "generate.kv_heads must be the leading axes of generate.q_heads": gen.q_heads[: len(gen.kv_heads)] != gen.kv_heads,
        "generate.batch axes must come from generate.d_model, then from generate.q_heads": bool(
            _without(gen.batch, gen.d_model + _without(gen.q_heads, gen.kv_heads))
        ),
        "prefill.d_model must be the leading axes of generate.d_model": gen.d_model[: len(pre.d_model)] != pre.d_model,
        "prefill.kv_heads must be generate.kv_heads without the axes gathered from q_heads": pre.kv_heads
        != _shared(gen.kv_heads, pre.q_heads),
        "prefill.vocab must equal generate.vocab": pre.vocab != gen.vocab,
    }
    for fault, broken in faults.items():
        if broken:
            raise RenderError(f"plan {plan.name}: {fault}")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def _reduction(planned: tuple[Collective, ...], address: str, d_model: Axes, rows: Axes) -> Reduction:
    """The reduction at `address` over `d_model`, scattering those axes of `rows` for which the plan says so."""
    value = address.rpartition(".")[2]
    group = value.upper() if address.startswith("generate") else f"PREFILL_{value.upper()}"
    kinds = {c.axes: c.kind for c in planned if c.address == address}
    scattered = tuple(axis for axis in rows if kinds.get((axis,)) == "reduce_scatter")
    return Reduction(value, group, scattered, summed=_without(d_model, scattered), sliced=_without(rows, scattered))


def _hidden_reduction(planned: tuple[Collective, ...], address: str, d_model: Axes) -> Reduction:
    """As `_reduction`, for an MLP's hidden rows, which all chips need again when they are not scattered."""
    return replace(_reduction(planned, address, d_model, d_model), sliced=())


def _generate_view(plan: Plan, shape: Shape) -> GenerateView:
    rules, planned = plan.generate.rules, plan.generate.collectives
    rows = _shared(rules.batch, rules.d_model)
    exchanged = _shared(rules.batch, rules.q_heads)
    copied = _without(rules.q_heads, rules.kv_heads + exchanged)
    return GenerateView(
        rules=rules,
        step_ms=_milliseconds(plan.generate.step_s),
        binds=plan.generate.binds,
        scattered_slots=rows,
        exchanged_slots=exchanged,
        qkv=_reduction(planned, "generate.attention.qkv", rules.d_model, rows),
        q=_reduction(planned, "generate.attention.q", rules.d_model, rows),
        kv=_reduction(planned, "generate.attention.kv", rules.d_model, rows),
        hidden=_hidden_reduction(planned, "generate.mlp.hidden", rules.d_model),
        drops_head_padding=bool(exchanged) and not copied and shape.pads_heads_within_shards,
    )


def _prefill_view(plan: Plan, shape: Shape, sizes: Mapping[str, int], int8: bool) -> PrefillView:
    rules, stored = plan.prefill.rules, plan.generate.rules
    kept = _without(rules.q_heads, rules.kv_heads)
    local_kv_heads = shape.kv_heads_stored // _ways(stored.kv_heads, sizes)
    return PrefillView(
        rules=rules,
        step_ms=_milliseconds(plan.prefill.step_s),
        binds=plan.prefill.binds,
        tokens=plan.prefill.tokens,
        own_tokens=_without(rules.tokens, rules.q_heads),
        attention_tokens=_shared(rules.tokens, rules.q_heads),
        attention_summed=_without(rules.q_heads, rules.tokens),
        mlp_tokens=_shared(rules.tokens, rules.d_ff),
        mlp_summed=_without(rules.d_ff, rules.tokens),
        gathered_d_model=_without(stored.d_model, rules.d_model),
        gathered_q_heads=_without(stored.q_heads, rules.q_heads),
        gathered_kv_heads=_without(stored.kv_heads, rules.kv_heads),
        gathered_d_ff=_without(stored.d_ff, rules.d_ff),
        attention_gathers=_gathers(ATTENTION_WEIGHTS, stored, rules, int8),
        mlp_gathers=_gathers(MLP_WEIGHTS, stored, rules, int8),
        hidden=_hidden_reduction(plan.prefill.collectives, "prefill.mlp.hidden", rules.d_model),
        embedding_steps=_embedding_steps(rules),
        embedding_summed=_without(rules.vocab, rules.tokens),
        drops_head_padding=not kept and shape.pads_heads_within_shards,
        picks_kv_heads=bool(kept) and local_kv_heads > 1,
    )


def _gathers(
    weights: Mapping[str, Mapping[str, int]], stored: GenerateRules, rules: PrefillRules, int8: bool
) -> tuple[WeightGather, ...]:
    """The gathers of those `weights` (and of their scales when `int8`) that are stored on more axes than `rules` use."""
    gathers = []
    for weight, dims in weights.items():
        if weight.endswith("_scale") and not int8:
            continue
        cut = [axis for axis in dims if _without(getattr(stored, axis), getattr(rules, axis))]
        if cut:
            steps = tuple(GatherStep(f"GATHERED_{axis.upper()}", dims[axis]) for axis in cut)
            gathers.append(WeightGather(weight, steps))
    return tuple(gathers)


def _embedding_runs(rules: PrefillRules) -> list[tuple[bool, Axes]]:
    """Neighbouring token axes of one kind together: (does the vocabulary use them?, axes)."""
    runs: list[tuple[bool, Axes]] = []
    for axis in rules.tokens:
        scatters = axis in rules.vocab
        if runs and runs[-1][0] == scatters:
            runs[-1] = (scatters, (*runs[-1][1], axis))
        else:
            runs.append((scatters, (axis,)))
    return runs


def _embedding_steps(rules: PrefillRules) -> tuple[str, ...]:
    """Calls that bring the looked-up rows `x` into the residual's layout: sums scattered, slices kept, the rest summed."""
    calls = [
        f"{'reduce_scatter_rows' if scatters else 'own_slice'}(x, sharding.EMBEDDING_TOKENS_{index})"
        for index, (scatters, _) in enumerate(_embedding_runs(rules))
    ]
    if _without(rules.vocab, rules.tokens):
        calls.append("all_reduce(x, sharding.EMBEDDING_SUMMED)")
    if rules.d_model:
        calls.append("own_slice(x, PREFILL.d_model, dim=1)")
    return tuple(calls)


def _groups(gen: GenerateView, pre: PrefillView) -> tuple[Group, ...]:
    """Every named part of the tables; the package gets those that its other files mention."""
    reductions = (
        ("q, k and v", gen.qkv),
        ("q", gen.q),
        ("k and v", gen.kv),
        ("gate and up in generate", gen.hidden),
        ("gate and up in prefill", pre.hidden),
    )
    parts = [
        Group("SCATTERED_SLOTS", gen.scattered_slots, "batch axes that come with the reduction over d_model"),
        Group("EXCHANGED_SLOTS", gen.exchanged_slots, "batch axes that trade query heads for slots"),
    ]
    for what, part in reductions:
        parts += [
            Group(f"{part.group}_SCATTERED", part.scattered, f"d_model axes that scatter the rows of {what}"),
            Group(f"{part.group}_SUMMED", part.summed, f"d_model axes that sum {what} on every chip"),
            Group(f"{part.group}_SLICED", part.sliced, f"summed axes along which a chip keeps its rows of {what}"),
        ]
    parts += [
        Group("OWN_TOKENS", pre.own_tokens, "token axes on which attention keeps its own queries"),
        Group("QUERY_TOKENS", pre.own_tokens + pre.rules.d_model, "axes that hold different queries of one head"),
        Group("ATTENTION_TOKENS", pre.attention_tokens, "token axes gathered before attention, scattered after"),
        Group("ATTENTION_SUMMED", pre.attention_summed, "head axes over which attention's output is summed"),
        Group("MLP_TOKENS", pre.mlp_tokens, "token axes gathered before the MLP, scattered after"),
        Group("MLP_SUMMED", pre.mlp_summed, "d_ff axes over which the MLP's output is summed"),
        Group("GATHERED_D_MODEL", pre.gathered_d_model, "axes gathered from weights' d_model before prefill uses them"),
        Group("GATHERED_Q_HEADS", pre.gathered_q_heads, "axes gathered from w_q and w_o before prefill uses them"),
        Group("GATHERED_KV_HEADS", pre.gathered_kv_heads, "axes gathered from w_kv before prefill uses it"),
        Group("GATHERED_D_FF", pre.gathered_d_ff, "axes gathered from w_in and w_down before prefill uses them"),
        Group("EMBEDDING_SUMMED", pre.embedding_summed, "vocabulary axes over which prefill's embeddings are summed"),
    ]
    for index, (scatters, axes) in enumerate(_embedding_runs(pre.rules)):
        how = "scattered by the sum over the vocabulary" if scatters else "cut locally"
        parts.append(Group(f"EMBEDDING_TOKENS_{index}", axes, f"token axes of the embeddings, {how}"))
    return tuple(parts)
