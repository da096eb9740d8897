"""Every pair of a generate side and a prefill side of each block, over a copy or not, priced one by one.

The planner leaves out copies that others make needless, by an argument; here nothing is left out.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from planner.problem import hbm
from planner.problem.options import ROLES, Mode, Option, Role, mode_tuples, role_tuples, tables_of
from planner.problem.problem import NS, UNIT_BYTES, Block, Column, MeshTable, Problem
from planner.problem.rules import GenerateRules
from planner.problem.spaces import PREFILL_STREAMS, STREAMS
from planner.problem.tables import Pricer

STORED = {
    Role.DATA: Role.NONE,
    Role.D_MODEL_BATCH: Role.D_MODEL,
    Role.HEADS_BATCH: Role.COPIED_KV,
    Role.HEADS_TOKENS: Role.COPIED_KV,
    Role.D_FF_ROWS: Role.D_FF,
    Role.EXPERT_FF_ROWS: Role.EXPERT_FF,
    Role.EXPERTS_ROWS: Role.EXPERTS,
    Role.VOCAB_ROWS: Role.VOCAB,
}


def every_pair(problem: Problem) -> Problem:
    """A problem whose blocks have every legal pair."""
    return replace(problem, meshes=tuple(map(table_of_pairs, problem.meshes)))


def table_of_pairs(table: MeshTable) -> MeshTable:
    """The same of one mesh."""
    blocks = tuple(block_of_pairs(table, name) for name in table.source.machine.sizes.blocks)
    return replace(table, price=lambda: blocks)


def block_of_pairs(table: MeshTable, name: str) -> Block:
    """The legal pairs of one block."""
    options = list(options_of(table.source, name, table.source.load.even(table.chunk)))
    prefills = [prefill_price(table, name, option) for option in options]
    held = np.array([units for _, units in prefills], dtype=np.int64)

    def price(at: int) -> Column:
        priced = [generate_price(table, name, option.roles, at) for option in options]
        ns, kept, legal = (np.array(column) for column in zip(*priced, strict=True))
        return Column(ns.astype(np.int64), kept.astype(np.int64) + held, legal.astype(np.bool_))

    residual = np.array([residual_of(option) for option in options], dtype=np.int64)
    return Block(name, options, residual, np.array([ns for ns, _ in prefills], dtype=np.int64), price)


def options_of(pricer: Pricer, name: str, even: int):
    """The pairs of a block, each as an option; what they read is told where it is stored another way."""
    sizes, names = pricer.axis_sizes, pricer.names
    made = [roles for roles in role_tuples(sizes, ROLES[name]) if pricer.keeps_roles(name, roles)]
    stored = dict.fromkeys(
        stored_by(roles) for roles in role_tuples(sizes, ROLES[name]) if storable(pricer, name, roles)
    )
    every = [(each, modes) for each in stored for modes in mode_tuples(sizes, each)]
    read = [key for key in every if pricer.keeps_key(name, key, even)]
    for roles, (each, modes) in product(made, read):
        option = Option(roles, modes, None if each == stored_by(roles) else each)
        tables = tables_of(name, names, option)
        fits = set(tables.prefill.kv_heads) <= set(tables.generate.kv_heads)
        if fits and (name != "vocab" or tables.prefill.vocab == tables.generate.vocab):
            yield option


def stored_by(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """What weights are stored by."""
    return tuple(STORED.get(role, role) for role in roles)


def storable(pricer: Pricer, name: str, roles: tuple[Role, ...]) -> bool:
    """Whether weights may be stored so, whatever a step does with them."""
    return pricer.legal_stored(name, pricer.stored(name, roles))


def residual_of(option: Option) -> int:
    """The residual layout as a number."""
    found = 0
    for axis in option.residual:
        found = found * 9 + STREAMS.index(axis.generate) * 3 + PREFILL_STREAMS.index(axis.prefill)
    return found


def prefill_price(table: MeshTable, name: str, option: Option) -> tuple[int, int]:
    """Nanoseconds, and units that prefill holds, its copy among them."""
    pricer: Pricer = table.source
    _, read, rules = tables_of(name, pricer.names, option)
    seconds, held = pricer.prefill(
        name, GenerateRules() if name == "vocab" else read, rules, table.prompts, table.chunk
    )
    machine = pricer.machine
    copied = option.stored is not None and name != "vocab"
    copy = hbm.block_weights_bytes(name, read, machine.sizes, machine.ways) if copied else 0
    return -int(-seconds * NS // 1), -(-held // UNIT_BYTES) + -(-copy // UNIT_BYTES)


def generate_price(table: MeshTable, name: str, roles: tuple[Role, ...], at: int) -> tuple[int, int, bool]:
    """Nanoseconds, units, and whether the batch is cut evenly."""
    pricer: Pricer = table.source
    rules, batch = (
        tables_of(name, pricer.names, Option(roles, (Mode.SAME,) * len(roles))).generate,
        pricer.load.batches[at],
    )
    if batch % pricer.machine.ways(rules.rows + rules.batch):
        return 0, 0, False
    seconds, kept = pricer.generate(name, rules, batch, table.drafts)
    return -int(-seconds * NS // 1), -(-kept // UNIT_BYTES), True
