"""The strategy space: what each mesh axis may do in each block, and the rule tables that follow.

A block takes one role per mesh axis for generate, which is also how its weights are stored, and one mode for prefill:
compute on the axis as generate does, shard tokens and gather activations around the block (sequence parallel), or
shard tokens and gather the weights. It may do so with a second copy of the weights, stored by roles of its own. Blocks
meet only in the residual stream, so a choice is legal when their residual layouts agree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from planner.problem.rules import NO_COPIES, Axes, GenerateRules, PrefillRules, Rules


class Role(StrEnum):
    """What a mesh axis cuts in generate (and in the stored weights of the block)."""

    NONE = "none"
    DATA = "data"
    D_MODEL = "d_model"
    D_MODEL_BATCH = "d_model_batch"
    KV_HEADS = "kv_heads"
    COPIED_KV = "copied_kv"
    HEADS_BATCH = "heads_batch"
    HEADS_TOKENS = "heads_tokens"
    D_FF = "d_ff"
    D_FF_ROWS = "d_ff_rows"
    EXPERT_FF = "expert_ff"
    EXPERT_FF_ROWS = "expert_ff_rows"
    EXPERTS = "experts"
    EXPERTS_ROWS = "experts_rows"
    VOCAB = "vocab"
    VOCAB_D_MODEL = "vocab_d_model"
    VOCAB_ROWS = "vocab_rows"


class Mode(StrEnum):
    """How prefill uses an axis: as generate does, sequence parallel, or with gathered weights."""

    SAME = "same"
    SEQUENCE = "sequence"
    GATHERED = "gathered"


Stream = Literal["whole", "d_model", "batch"]
"""What a mesh axis cuts in the residual stream of generate."""


PrefillStream = Literal["whole", "d_model", "tokens"]
"""What a mesh axis cuts in the residual stream of prefill."""


class Residual(NamedTuple):
    """What a mesh axis cuts in the residual stream of both phases."""

    generate: Stream
    prefill: PrefillStream


HEAD_ROLES = (Role.KV_HEADS, Role.COPIED_KV, Role.HEADS_BATCH, Role.HEADS_TOKENS)
WEIGHT_D_ROLES = (Role.D_MODEL, Role.D_MODEL_BATCH)
D_ROLES = (*WEIGHT_D_ROLES, Role.VOCAB_D_MODEL)
FF_ROLES = (Role.D_FF, Role.D_FF_ROWS)
EXPERT_FF_ROLES = (Role.EXPERT_FF, Role.EXPERT_FF_ROWS)
EXPERT_ROLES = (Role.EXPERTS, Role.EXPERTS_ROWS)
VOCAB_CUTS = (Role.VOCAB, Role.VOCAB_D_MODEL, Role.VOCAB_ROWS)
ROW_ROLES = (Role.DATA, Role.D_FF_ROWS, Role.EXPERT_FF_ROWS, Role.EXPERTS_ROWS, Role.VOCAB_ROWS)
WIDTH_ROLES = (*HEAD_ROLES, *FF_ROLES, *EXPERT_FF_ROLES, *EXPERT_ROLES)
ROLES: Mapping[str, tuple[Role, ...]] = {
    "attention": (Role.NONE, Role.DATA, *WEIGHT_D_ROLES, *HEAD_ROLES),
    "mlp": (Role.NONE, Role.DATA, Role.D_MODEL, *FF_ROLES),
    "experts": (Role.NONE, Role.DATA, Role.D_MODEL, *EXPERT_FF_ROLES, *EXPERT_ROLES),
    "vocab": (Role.NONE, Role.DATA, Role.D_MODEL, *VOCAB_CUTS),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One role and one mode per mesh axis, for one block.

    `stored`: the roles of a second copy of its weights, which prefill reads; None where both phases read the same. The
    vocabulary needs no copy: there it is the residual stream alone that prefill lays out another way.
    """

    roles: tuple[Role, ...]
    modes: tuple[Mode, ...]
    stored: tuple[Role, ...] | None = None

    @property
    def read(self) -> tuple[Role, ...]:
        """How the weights that prefill reads are stored."""
        return self.roles if self.stored is None else self.stored

    @property
    def residual(self) -> tuple[Residual, ...]:
        """The residual layout this option needs on each mesh axis."""
        triples = zip(self.roles, self.read, self.modes, strict=True)
        return tuple(Residual(stream(role), prefill_stream(read, mode)) for role, read, mode in triples)


def stream(role: Role) -> Stream:
    """What a role needs of its axis in the residual stream of generate."""
    if role in D_ROLES:
        return "d_model"
    return "batch" if role in ROW_ROLES else "whole"


def prefill_stream(stored: Role, mode: Mode) -> PrefillStream:
    """What prefill needs of an axis in the residual stream, over weights that are stored so."""
    if mode is not Mode.SAME:
        return "tokens"
    return "d_model" if stored in D_ROLES else "whole"


_STORED: Mapping[Role, Role] = {
    Role.DATA: Role.NONE,
    Role.D_MODEL_BATCH: Role.D_MODEL,
    Role.HEADS_BATCH: Role.COPIED_KV,
    Role.HEADS_TOKENS: Role.COPIED_KV,
    Role.D_FF_ROWS: Role.D_FF,
    Role.EXPERT_FF_ROWS: Role.EXPERT_FF,
    Role.EXPERTS_ROWS: Role.EXPERTS,
    Role.VOCAB_ROWS: Role.VOCAB,
}


def stored_as(role: Role) -> Role:
    """The role that stands for all that store weights alike: prefill cannot tell them apart."""
    return _STORED.get(role, role)


def modes_of(role: Role) -> tuple[Mode, ...]:
    """The prefill modes a role allows; only one that cuts heads, d_ff or experts has a sequence-parallel form."""
    if role in WIDTH_ROLES:
        return (Mode.SAME, Mode.SEQUENCE, Mode.GATHERED)
    return (Mode.SAME, Mode.GATHERED)


def role_tuples(sizes: tuple[int, ...], roles: tuple[Role, ...]) -> list[tuple[Role, ...]]:
    """Every assignment of roles to mesh axes of these sizes, in a fixed order; an axis of one chip cuts nothing."""
    return list(product(*(roles if size > 1 else (Role.NONE,) for size in sizes)))


def mode_tuples(sizes: tuple[int, ...], roles: tuple[Role, ...]) -> list[tuple[Mode, ...]]:
    """Every assignment of prefill modes to axes with these sizes and roles."""
    pairs = zip(sizes, roles, strict=True)
    return list(product(*(modes_of(role) if size > 1 else (Mode.SAME,) for size, role in pairs)))


def axes_with(names: Axes, roles: tuple[Role, ...], *wanted: Role) -> Axes:
    """The mesh axes whose role is one of `wanted`, in the order of `wanted`, then of the mesh."""
    return tuple(name for role in wanted for name, own in zip(names, roles, strict=True) if own is role)


@cache
def attention_rules(names: Axes, option: Option) -> tuple[GenerateRules, PrefillRules]:
    """The attention part of both tables."""
    roles = option.roles
    generate = GenerateRules(
        rows=axes_with(names, roles, Role.DATA),
        batch=axes_with(names, roles, Role.D_MODEL_BATCH, Role.HEADS_BATCH),
        d_model=d_model_axes(names, option),
        q_heads=axes_with(names, roles, *HEAD_ROLES),
        kv_heads=axes_with(names, roles, Role.KV_HEADS),
        kv_tokens=axes_with(names, roles, Role.HEADS_TOKENS),
    )
    tokens, kept = token_axes(names, option)
    ordered = tuple(n for n in tokens if n not in generate.q_heads or n not in kept)
    prefill = PrefillRules(
        tokens=ordered + tuple(n for n in tokens if n not in ordered),
        d_model=tuple(n for n in generate.d_model if n in kept),
        q_heads=tuple(n for n in generate.q_heads if n in kept),
        kv_heads=tuple(n for n in generate.kv_heads if n in kept),
    )
    return generate, prefill


@cache
def mlp_rules(names: Axes, option: Option) -> tuple[GenerateRules, PrefillRules]:
    """The MLP part of both tables."""
    roles = option.roles
    generate = GenerateRules(
        rows=axes_in_mesh_order(names, roles, ROW_ROLES),
        d_model=d_model_axes(names, option),
        d_ff=axes_in_mesh_order(names, roles, FF_ROLES),
    )
    tokens, kept = token_axes(names, option)
    prefill = PrefillRules(
        tokens=tokens,
        d_model=tuple(n for n in generate.d_model if n in kept),
        d_ff=tuple(n for n in generate.d_ff if n in kept),
    )
    return generate, prefill


@cache
def experts_rules(names: Axes, option: Option) -> tuple[GenerateRules, PrefillRules]:
    """The experts' part of both tables."""
    roles = option.roles
    generate = GenerateRules(
        rows=axes_in_mesh_order(names, roles, ROW_ROLES),
        d_model=d_model_axes(names, option),
        expert_ff=axes_in_mesh_order(names, roles, EXPERT_FF_ROLES),
        experts=axes_in_mesh_order(names, roles, EXPERT_ROLES),
    )
    tokens, kept = token_axes(names, option)
    prefill = PrefillRules(
        tokens=tokens,
        d_model=tuple(n for n in generate.d_model if n in kept),
        expert_ff=tuple(n for n in generate.expert_ff if n in kept),
        experts=tuple(n for n in generate.experts if n in kept),
    )
    return generate, prefill


def axes_in_mesh_order(names: Axes, roles: tuple[Role, ...], wanted: tuple[Role, ...]) -> Axes:
    """The mesh axes whose role is one of `wanted`, in the order of the mesh."""
    return tuple(name for name, role in zip(names, roles, strict=True) if role in wanted)


def d_model_axes(names: Axes, option: Option) -> Axes:
    """The axes that cut d_model in the stored weights, those that cut tokens in prefill last: gathers over them leave
    what is contiguous."""
    cut = [(name, mode) for name, role, mode in zip(names, option.roles, option.modes, strict=True) if role in D_ROLES]
    return tuple(name for last in (False, True) for name, mode in cut if (mode is not Mode.SAME) is last)


def token_axes(names: Axes, option: Option) -> tuple[Axes, Axes]:
    """The axes that cut tokens in prefill, and those on which prefill computes with the stored weights."""
    pairs = list(zip(names, option.modes, strict=True))
    tokens = tuple(name for name, mode in pairs if mode is not Mode.SAME)
    kept = tuple(name for name, mode in pairs if mode is not Mode.GATHERED)
    return tokens, kept


@cache
def vocab_rules(names: Axes, option: Option) -> tuple[GenerateRules, PrefillRules]:
    """The tables that the vocabulary block sees: its own axes and the residual stream's; its weights stay in place."""
    roles = option.roles
    vocab = axes_in_mesh_order(names, roles, VOCAB_CUTS)
    stored = GenerateRules(
        rows=axes_in_mesh_order(names, roles, ROW_ROLES), d_model=d_model_axes(names, option), vocab=vocab
    )
    tokens, kept = token_axes(names, option)
    return stored, PrefillRules(tokens=tokens, d_model=tuple(n for n in stored.d_model if n in kept), vocab=vocab)


RULES: Mapping[str, Callable[[Axes, Option], tuple[GenerateRules, PrefillRules]]] = {
    "attention": attention_rules,
    "mlp": mlp_rules,
    "experts": experts_rules,
    "vocab": vocab_rules,
}
OWN_AXES: Mapping[str, tuple[str, ...]] = {"mlp": ("d_ff",), "experts": ("expert_ff", "experts"), "vocab": ("vocab",)}
"""What each block beside attention says of the common tables; the residual stream is as attention says."""
STORED_AXES: Mapping[str, tuple[str, ...]] = {
    "attention": ("d_model", "q_heads", "kv_heads"),
    "mlp": ("d_model", "d_ff"),
    "experts": ("d_model", "expert_ff", "experts"),
}
"""The blocks whose weights may be stored twice, and the logical axes that cut them."""


class Tables(NamedTuple):
    """What one option says: the generate table, the table that stores what prefill reads, the prefill table."""

    generate: GenerateRules
    read: GenerateRules
    prefill: PrefillRules


def tables_of(block: str, names: Axes, option: Option) -> Tables:
    """The tables of an option of a block."""
    generate, prefill = RULES[block](names, Option(option.roles, option.modes))
    if option.stored is None:
        return Tables(generate, generate, prefill)
    return Tables(generate, *RULES[block](names, Option(option.stored, option.modes)))


def has_copy(block: str, option: Option) -> bool:
    """Whether an option stores the weights of its block twice."""
    return option.stored is not None and block in STORED_AXES


def rules_of(block: str, names: Axes, option: Option) -> Rules:
    """The tables of an option of one block alone."""
    generate, read, prefill = tables_of(block, names, option)
    return Rules(generate, prefill, {block: read} if has_copy(block, option) else NO_COPIES)


def merged_rules(names: Axes, options: Mapping[str, Option]) -> Rules:
    """The tables that options of all blocks make up."""
    found = rules_of("attention", names, options["attention"])
    stored, rules, copies = found.generate, found.prefill, dict(found.copies)
    for block, own in OWN_AXES.items():
        if block in options:
            each = rules_of(block, names, options[block])
            stored = stored._replace(**{name: getattr(each.generate, name) for name in own})
            rules = rules._replace(**{name: getattr(each.prefill, name) for name in own})
            copies |= each.copies
    return Rules(stored, rules, copies)
