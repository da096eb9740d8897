"""Block tables of one mesh: every legal option of attention, MLP and vocabulary, priced for every batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil

import numpy as np

from planner.problem import costs, hbm
from planner.problem.costs import total_s
from planner.problem.machine import Machine
from planner.problem.options import (
    ATTENTION_ROLES,
    MLP_ROLES,
    Mode,
    Option,
    Residual,
    attention_rules,
    mlp_rules,
    mode_tuples,
    role_tuples,
)
from planner.problem.problem import NS, UNIT_BYTES, Block, MeshTable
from planner.problem.rules import Axes, GenerateRules, PrefillRules, copied_kv

LANES = 128


@dataclass(frozen=True)
class Load:
    """What a step is priced and sized for. Lengths are tokens."""

    batches: tuple[int, ...]
    prompt: int
    """Tokens of the bucket that holds the mean prompt."""
    longest: int
    """Tokens of the longest bucket: prefill memory is sized for it."""
    smallest: int
    """Tokens of the shortest bucket: tokens must cut it evenly."""
    mean_context: float
    max_context: int
    page_tokens: int


@dataclass(frozen=True)
class Row:
    """One option with its prices: seconds, and bytes per chip for each batch."""

    option: object
    residual: tuple[Residual, ...]
    prefill_s: float
    generate_s: tuple[float, ...]
    bytes: tuple[int, ...]
    legal: tuple[bool, ...]


Allowed = Callable[[GenerateRules, PrefillRules], bool]


def mesh_table(machine: Machine, load: Load, allowed: dict[str, Allowed]) -> MeshTable:
    """Every option of every block on one mesh. `allowed` filters the options of a block by its rules (pins)."""
    residuals = {layout: index for index, layout in enumerate(product(Residual, repeat=len(machine.mesh)))}
    blocks = (
        block("attention", attention_rows(machine, load, allowed["attention"]), residuals, load),
        block("mlp", mlp_rows(machine, load, allowed["mlp"]), residuals, load),
        block("vocab", vocab_rows(machine, load, allowed["vocab"]), residuals, load),
    )
    return MeshTable(str(machine.slice), machine.slice.chips, machine.mesh, len(residuals), blocks)


def block(name: str, rows: Iterator[Row], residuals: dict[tuple[Residual, ...], int], load: Load) -> Block:
    """Rows as integer arrays: nanoseconds and 64 KiB units, both rounded up."""
    found = list(rows)
    shape = (len(found), len(load.batches))
    return Block(
        name,
        tuple(row.option for row in found),
        np.array([residuals[row.residual] for row in found], dtype=np.int64),
        np.array([ceil(row.prefill_s * NS) for row in found], dtype=np.int64),
        np.array([[ceil(s * NS) for s in row.generate_s] for row in found], dtype=np.int64).reshape(shape),
        np.array([[-(-b // UNIT_BYTES) for b in row.bytes] for row in found], dtype=np.int64).reshape(shape),
        np.array([row.legal for row in found], dtype=np.bool_).reshape(shape),
    )


def names_of(machine: Machine) -> Axes:
    """The mesh axes' names."""
    return tuple(axis.name for axis in machine.mesh)


def axis_sizes(machine: Machine) -> tuple[int, ...]:
    """The mesh axes' sizes."""
    return tuple(axis.size for axis in machine.mesh)


def attention_rows(machine: Machine, load: Load, allowed: Allowed) -> Iterator[Row]:
    """Legal attention options: roles of each axis for generate, then modes for prefill."""
    names = names_of(machine)
    priced: dict[tuple[GenerateRules, PrefillRules], tuple[float, int]] = {}
    for roles in role_tuples(axis_sizes(machine), ATTENTION_ROLES):
        stored, _ = attention_rules(names, Option(roles, (Mode.SAME,) * len(names)))
        if not legal_heads(stored, machine) or not legal_d_model(stored, machine):
            continue
        generate = GeneratePrice(machine, load, stored)
        for modes in mode_tuples(axis_sizes(machine), roles):
            option = Option(roles, modes)
            stored, rules = attention_rules(names, option)
            if not divides(load.smallest, rules, machine) or not allowed(stored, rules):
                continue
            key = stored._replace(batch=()), rules
            if key not in priced:
                priced[key] = prefill_attention_price(stored, rules, machine, load)
            yield generate.row(option, option.residual, *priced[key])


def prefill_attention_price(
    stored: GenerateRules, rules: PrefillRules, machine: Machine, load: Load
) -> tuple[float, int]:
    """Seconds and bytes of prefill attention; how generate cuts its batch does not matter to them."""
    parts = costs.prefill_attention_parts(stored, rules, load.prompt, machine)
    held = hbm.prefill_attention_bytes(stored, rules, load.longest, machine.sizes, machine.ways)
    return total_s(parts, machine), held


def divides(tokens: int, rules: PrefillRules, machine: Machine) -> bool:
    """Whether a prompt of `tokens` is cut evenly, by the token axes and where rows are scattered over d_model axes."""
    return tokens % machine.ways(rules.tokens + rules.d_model) == 0


class GeneratePrice:
    """The generate side of attention options that share their roles: priced once, used for every prefill mode."""

    def __init__(self, machine: Machine, load: Load, stored: GenerateRules) -> None:
        sizes, ways = machine.sizes, machine.ways
        self.legal = tuple(batch % ways(stored.batch) == 0 for batch in load.batches)
        self.seconds = tuple(
            total_s(costs.generate_attention_parts(stored, batch, load.mean_context, machine), machine)
            if legal
            else 0.0
            for batch, legal in zip(load.batches, self.legal, strict=True)
        )
        weights = hbm.attention_weights_bytes(stored, sizes, ways)
        self.bytes = tuple(
            weights + hbm.kv_cache_bytes(stored, batch, load.max_context, load.page_tokens, sizes, ways)
            for batch in load.batches
        )

    def row(self, option: Option, residual: tuple[Residual, ...], prefill_s: float, held: int) -> Row:
        """The row of one prefill mode, which takes `prefill_s` and keeps `held` bytes."""
        kept = tuple(own + held for own in self.bytes)
        return Row(option, residual, prefill_s, self.seconds, kept, self.legal)


def legal_heads(rules: GenerateRules, machine: Machine) -> bool:
    """Whether heads can be cut this way.

    A KV shard holds whole heads and at most half of the shards' heads are padding; a copied KV shard holds one head, so
    that the query heads split over its copies all read it.
    """
    sizes, ways = machine.sizes, machine.ways
    heads = sizes.heads(rules, ways)
    return heads.kv_padded < 2 * sizes.kv_heads and (not copied_kv(rules) or heads.kv_local == 1)


def legal_d_model(rules: GenerateRules, machine: Machine) -> bool:
    """Whether d_model divides; on a TPU each part is whole lanes, since a narrower one is padded to them anyway."""
    ways = machine.ways(rules.d_model)
    lanes = LANES if machine.chip.kind == "tpu" and ways > 1 else 1
    return machine.sizes.d_model % (ways * lanes) == 0


def legal_d_ff(rules: GenerateRules, machine: Machine) -> bool:
    """Whether d_ff can be cut this way without more padding than it has columns in one part."""
    ways = machine.ways(rules.d_ff)
    lanes = LANES if machine.chip.kind == "tpu" and ways > 1 else 1
    return machine.sizes.d_ff >= ways * lanes


def mlp_rows(machine: Machine, load: Load, allowed: Allowed) -> Iterator[Row]:
    """Legal MLP options."""
    names, sizes, ways = names_of(machine), machine.sizes, machine.ways
    for roles in role_tuples(axis_sizes(machine), MLP_ROLES):
        stored, _ = mlp_rules(names, Option(roles, (Mode.SAME,) * len(names)))
        if not legal_d_model(stored, machine) or not legal_d_ff(stored, machine):
            continue
        seconds = tuple(total_s(costs.generate_mlp_parts(stored, b, machine), machine) for b in load.batches)
        weights = hbm.mlp_weights_bytes(stored, sizes, ways)
        for modes in mode_tuples(axis_sizes(machine), roles):
            option = Option(roles, modes)
            stored, rules = mlp_rules(names, option)
            if not divides(load.smallest, rules, machine) or not allowed(stored, rules):
                continue
            prefill_s = total_s(costs.prefill_mlp_parts(stored, rules, load.prompt, machine), machine)
            kept = weights + hbm.prefill_mlp_bytes(stored, rules, load.longest, sizes, ways)
            yield same_for_all(option, option.residual, prefill_s, seconds, kept)


def same_for_all(
    option: object, residual: tuple[Residual, ...], prefill_s: float, seconds: tuple[float, ...], kept: int
) -> Row:
    """A row that is legal, and keeps the same bytes, for every batch."""
    return Row(option, residual, prefill_s, seconds, (kept,) * len(seconds), (True,) * len(seconds))


def vocab_rows(machine: Machine, load: Load, allowed: Allowed) -> Iterator[Row]:
    """Vocabulary over any subset of axes, for every residual layout that the other blocks may ask for."""
    names, sizes, ways = names_of(machine), machine.sizes, machine.ways
    cutting = tuple(axis.name for axis in machine.mesh if axis.size > 1)
    subsets = [axes for size in range(len(cutting) + 1) for axes in combinations(cutting, size)]
    priced: dict[GenerateRules, tuple[float, ...]] = {}
    layouts = product(*(Residual if size > 1 else (Residual.WHOLE,) for size in axis_sizes(machine)))
    for layout, vocab in product(layouts, subsets):
        stored, rules = vocab_rules(names, layout, vocab)
        legal = divides(load.smallest, rules, machine) and legal_d_model(stored, machine)
        if not legal or not allowed(stored, rules):
            continue
        prefill_s = total_s(costs.prefill_vocab_parts(rules, load.prompt, machine), machine)
        if stored not in priced:
            steps = (costs.generate_vocab_parts(stored, batch, machine) for batch in load.batches)
            priced[stored] = tuple(total_s(parts, machine) for parts in steps)
        seconds = priced[stored]
        weights = hbm.vocab_weights_bytes(stored, sizes, ways) + hbm.prefill_vocab_bytes(load.longest, sizes)
        kept = tuple(weights + hbm.logits_bytes(stored, batch, sizes, ways) for batch in load.batches)
        yield Row(vocab, layout, prefill_s, seconds, kept, (True,) * len(kept))


def vocab_rules(names: Axes, layout: tuple[Residual, ...], vocab: Axes) -> tuple[GenerateRules, PrefillRules]:
    """The tables that the vocabulary block sees: its own axes and the residual stream's."""
    pairs = list(zip(names, layout, strict=True))
    kept = tuple(n for n, r in pairs if r is Residual.D_MODEL)
    gathered = tuple(n for n, r in pairs if r is Residual.D_MODEL_TOKENS)
    stored = GenerateRules(d_model=kept + gathered, vocab=vocab)
    rules = PrefillRules(
        tokens=tuple(n for n, r in pairs if r in (Residual.TOKENS, Residual.D_MODEL_TOKENS)),
        d_model=kept,
        vocab=vocab,
    )
    return stored, rules
