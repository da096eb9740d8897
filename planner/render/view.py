"""PackageView: everything the templates print, decided here.

A template holds no arithmetic: each name, tuple of mesh axes and yes-or-no it needs is a field of the view.
"""

from dataclasses import dataclass

from planner.plan.records import Mesh, Pool
from planner.plan.schema import Plan
from planner.render.axes import Axes, axis_sizes, ways
from planner.render.generate import GenerateView, generate_view
from planner.render.model import ModelSizes, read_model
from planner.render.prefill import PrefillView, embedding_runs, prefill_view
from planner.render.reductions import milliseconds
from planner.render.rules import check_rules
from planner.render.shapes import Shape, full_shape, tiny_shape
from planner.render.stored import MATRICES, ReadTables, tables_read

DEVICE_KINDS = {
    "v4": ("TPU v4",),
    "v5e": ("TPU v5 lite", "TPU v5e"),
    "v5p": ("TPU v5",),
    "v6e": ("TPU v6 lite", "TPU v6e"),
    "7x": ("TPU7x", "TPU v7x"),
    "cpu": ("cpu",),
}
"""Chip of the catalogue -> what jax calls such a device; a GPU's name has that of its chip in it."""
ONE_GATHER_CHIPS = 16
"""An all_gather over several mesh axes stays one all_gather up to this many chips; beyond, it goes axis by axis."""


@dataclass(frozen=True)
class Group:
    """A named part of the rule tables that one collective works on."""

    name: str
    axes: Axes
    meaning: str


@dataclass(frozen=True)
class Entry:
    """The mesh axes of one logical axis that a table cuts."""

    logical: str
    axes: Axes


@dataclass(frozen=True)
class Table:
    """A rule table as sharding.py prints it."""

    name: str
    prediction: str
    entries: tuple[Entry, ...]


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
    ttft_ms: str
    tpot_ms: str
    """Times to the first token and per token after it, as the plan predicts them for its load."""
    mesh: Mesh
    pool: Pool | None
    model: ModelSizes
    full: Shape
    tiny: Shape
    generate: GenerateView
    prefill: PrefillView
    read: ReadTables
    groups: tuple[Group, ...]
    devices: str
    device_kinds: tuple[str, ...]
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
    def on_cpu(self) -> bool:
        """Whether the plan is for CPU devices, which read the cache best in small blocks."""
        return self.devices == "cpu"

    @property
    def tables(self) -> tuple[Table, ...]:
        """The two tables, without the logical axes that they leave whole."""
        pre, gen = self.prefill, self.generate
        read = f"Predicted {pre.step_ms} ms for a prompt of {pre.tokens} tokens, bound by {pre.binds}."
        made = f"Predicted {gen.step_ms} ms a step of {self.full.batch} slots, bound by {gen.binds}."
        tables = [("PREFILL", read, dict(pre.rules)), ("GENERATE", made, dict(gen.rules))]
        if self.pool:
            stored = dict(self.read.attention) | {"layers": pre.layers}
            tables.append(("STORED", "How weights are stored on the slice that reads prompts.", stored))
            tables[0][2]["layers"] = pre.layers
        for block in pre.copied:
            told = dict(self.read.attention if block == "attention" else self.read.mlp)
            name = "MLP" if block == "mlp" else block
            what = f"How the second copy of the {name} weights is stored, which prefill reads."
            tables.append((f"COPIED_{block.upper()}", what, told))
        return tuple(
            Table(name, prediction, tuple(Entry(logical, axes) for logical, axes in rules.items() if axes))
            for name, prediction, rules in tables
        )

    @property
    def rule_rows(self) -> tuple[RuleRow, ...]:
        """The two tables side by side."""
        prefill, generate = dict(self.prefill.rules), dict(self.generate.rules)
        logical = ("tokens", "rows", "batch", "d_model", "q_heads", "kv_heads", "kv_tokens", "d_ff", "vocab")
        return tuple(RuleRow(axis, _cell(prefill.get(axis)), _cell(generate.get(axis))) for axis in logical)

    @property
    def reads_its_own(self) -> bool:
        """Whether prefill reads weights that are stored for it alone."""
        return self.pool is not None or bool(self.prefill.copied)

    @property
    def cuts_vocab(self) -> bool:
        """Whether the vocabulary is cut in some phase."""
        return bool(self.generate.rules.vocab or self.prefill.rules.vocab)

    @property
    def vocab_is_cut_twice(self) -> bool:
        """Whether several mesh axes cut the vocabulary in some phase."""
        return max(len(self.generate.rules.vocab), len(self.prefill.rules.vocab)) > 1

    @property
    def vocab_axes(self) -> str:
        """What the steps' functions call the axes that cut the vocabulary: each phase has its own on its slices."""
        return "axes" if self.pool else "GENERATE.vocab"

    @property
    def copied_matrices(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each block of whose weights prefill reads a second copy, with its arrays."""
        scales = ("", "_scale") if self.int8 else ("",)
        return tuple(
            (block, tuple(f"{name}{end}" for end in scales for name in MATRICES[block]))
            for block in self.prefill.copied
        )

    @property
    def chips(self) -> int:
        """Chips of the mesh."""
        return len(self.mesh.chips)

    @property
    def has_collectives(self) -> bool:
        """Whether chips exchange anything."""
        return any(table.entries for table in self.tables)

    @property
    def int8(self) -> bool:
        """Whether weights are stored as int8 with a scale per output channel."""
        return self.model.weights_dtype == "int8"

    @property
    def casts_cache(self) -> bool:
        """Whether keys and values are kept in another dtype than they are made in."""
        return self.model.kv_dtype != self.model.activations_dtype

    @property
    def casts_weights(self) -> bool:
        """Whether a weight changes its dtype before it is multiplied."""
        return self.model.weights_dtype != self.model.activations_dtype


def package_view(plan: Plan, digest: str) -> PackageView:
    """The view of `plan`; raises RenderError for what rendered packages do not support."""
    model = read_model(plan)
    check_rules(plan, model)
    full, tiny = full_shape(plan, model), tiny_shape(plan, model)
    generate = generate_view(plan, full, axis_sizes(plan, "generate"))
    phases = (("generate", plan.generate.rules), ("prefill", plan.prefill.rules))
    prefill = prefill_view(plan, full, model)
    most_vocab = max(ways(rules.vocab, axis_sizes(plan, phase)) for phase, rules in phases)
    return PackageView(
        name=plan.name,
        chip=plan.chip,
        slice=plan.slice,
        digest=digest,
        accuracy=plan.accuracy,
        ttft_ms=milliseconds(plan.service.ttft_s),
        tpot_ms=milliseconds(plan.service.tpot_s),
        mesh=plan.mesh,
        pool=plan.pool,
        model=model,
        full=full,
        tiny=tiny,
        generate=generate,
        prefill=prefill,
        read=tables_read(plan),
        groups=_groups(generate, prefill),
        devices="cpu" if plan.chip == "cpu" else "auto",
        device_kinds=DEVICE_KINDS.get(plan.chip, (plan.chip.upper(),)),
        gathers_candidates_at_once=most_vocab <= ONE_GATHER_CHIPS,
        masks_vocab=max(full.vocab_stored, full.read.vocab_stored) != full.vocab,
    )


def _groups(gen: GenerateView, pre: PrefillView) -> tuple[Group, ...]:
    """Every named part of the tables; the package gets those that its other files mention."""
    reductions = (
        ("q, k and v", gen.qkv),
        ("q", gen.q),
        ("k and v", gen.kv),
        ("outputs of cut tokens", gen.merged),
        ("gate and up in generate", gen.hidden),
        ("the MLP's output", gen.mlp_out),
        ("looked-up embeddings", gen.lookup),
        ("gate and up in prefill", pre.hidden),
    )
    parts = [
        Group("SCATTERED_SLOTS", gen.scattered_slots, "batch axes that come with the reduction over d_model"),
        Group("EXCHANGED_SLOTS", gen.exchanged_slots, "batch axes that trade query heads for slots"),
        Group("CACHED_SLOTS", gen.cached_slots, "axes that cut the slots of the KV cache"),
        Group("MLP_ROWS", gen.mlp_rows, "row axes gathered before the MLP, cut again after"),
        Group("VOCAB_ROWS", gen.vocab_rows, "row axes gathered before the logits"),
    ]
    for what, part in reductions:
        parts += [
            Group(f"{part.group}_SCATTERED", part.scattered, f"d_model axes that scatter the rows of {what}"),
            Group(f"{part.group}_SUMMED", part.summed, f"d_model axes that sum {what} on every chip"),
            Group(f"{part.group}_SLICED", part.sliced, f"summed axes along which a chip keeps its rows of {what}"),
        ]
    parts += [
        Group("OWN_TOKENS", pre.own_tokens, "token axes on which attention keeps its own queries"),
        Group("PROMPTS", pre.prompt_axes, "token axes that cut whole prompts"),
        Group("PROMPT_TOKENS", pre.prompt_tokens, "token axes on which attention keeps its own queries of a prompt"),
        Group("QUERY_TOKENS", pre.own_tokens + pre.rules.d_model, "axes that hold different queries of one head"),
        Group("ATTENTION_TOKENS", pre.attention_tokens, "token axes gathered before attention, scattered after"),
        Group("ATTENTION_SUMMED", pre.attention_summed, "head axes over which attention's output is summed"),
        Group("MLP_TOKENS", pre.mlp_tokens, "token axes gathered before the MLP, scattered after"),
        Group("MLP_SUMMED", pre.mlp_summed, "d_ff axes over which the MLP's output is summed"),
        Group("HEADS_WITHIN_KV", pre.within_kv, "axes that cut the query heads of a KV shard"),
        Group(
            "GATHERED_D_MODEL",
            pre.gathered_attention_d_model,
            "axes gathered from weights' d_model before prefill uses them",
        ),
        Group(
            "GATHERED_ATTENTION_D_MODEL",
            pre.gathered_attention_d_model,
            "axes gathered from d_model of attention's weights",
        ),
        Group("GATHERED_MLP_D_MODEL", pre.gathered_mlp_d_model, "axes gathered from d_model of the MLP's weights"),
        Group("INSERTED_KV_HEADS", pre.keeping.axes, "axes along which the cache keeps a part of prefill's KV heads"),
        Group("GATHERED_Q_HEADS", pre.gathered_q_heads, "axes gathered from w_q and w_o before prefill uses them"),
        Group("GATHERED_KV_HEADS", pre.gathered_kv_heads, "axes gathered from w_kv before prefill uses it"),
        Group("GATHERED_D_FF", pre.gathered_d_ff, "axes gathered from w_in and w_down before prefill uses them"),
        Group("EMBEDDING_SUMMED", pre.embedding_summed, "vocabulary axes over which prefill's embeddings are summed"),
    ]
    for index, (scatters, axes) in enumerate(embedding_runs(pre.rules)):
        how = "scattered by the sum over the vocabulary" if scatters else "cut locally"
        parts.append(Group(f"EMBEDDING_TOKENS_{index}", axes, f"token axes of the embeddings, {how}"))
    return tuple(parts)
