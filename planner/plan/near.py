"""The least-change plan: what differs from an earlier plan, as prices of options, and in words.

    change = bytes of weights that the busiest chip must receive, block by block    (in 64 KiB units)
    then     how many of slice, mesh, batch and KV-cache layout differ
    then     how many of attention, MLP and experts are cut another way in prefill

One integer holds all three, the first most significant (`change_price`), so the solver minimises them in this order.
"""

from dataclasses import dataclass, replace
from fractions import Fraction as Ratio
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from cost_models.torus import mesh_coordinates
from planner.errors import CannotRun, PlanFileError
from planner.plan.file import read_plan
from planner.plan.machine import machine_of, rules_of
from planner.plan.moves import Boxes, Places, received_bytes
from planner.plan.schema import Near, Plan
from planner.problem.build import Built
from planner.problem.machine import Machine
from planner.problem.options import RULES
from planner.problem.pins import BLOCK_FIELDS
from planner.problem.problem import UNIT_BYTES, Block, Ints, MeshTable, Problem
from planner.problem.rules import GenerateRules, PrefillRules, Rules
from planner.problem.sizes import Sizes
from planner.spec.base import Fraction

SHAPE = (
    "layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab", "tied", "gated", "mixture", "latent"
)  # fmt: skip
CHOICE_PRICE, PREFILL_PRICE = 4, 1
BYTES_PRICE = 32
"""Above what all choices (4 of them) and three prefill blocks can add up to."""


@dataclass(frozen=True)
class Earlier:
    """An earlier plan, what it is called, and how far from the optimum a plan near it may be."""

    plan: Plan
    name: str
    within: Ratio

    @classmethod
    def of(cls, plan: Plan, name: str, within: float = 0.01) -> "Earlier":
        """`within` as the decimal fraction that was written."""
        return cls(plan, name, Ratio(repr(within)))


def read_earlier(path: Path, within: str | None) -> Earlier:
    """The plan in a file, and a tolerance such as `1%` or `0.01`; raises PlanFileError and CannotRun."""
    plan = read_plan(path)
    if within is None:
        return Earlier.of(plan, path.name)
    try:
        tolerance = TypeAdapter(Fraction).validate_python(within if within.strip() else "empty")
    except ValidationError:
        message = f'--within "{within}" is not a part of one from 0 to below 1; write 1% or 0.01'
        raise CannotRun(message) from None
    return Earlier.of(plan, path.name, tolerance)


@dataclass(frozen=True)
class Layout:
    """Where one plan, or one option of one, keeps and cuts things."""

    machine: Machine
    rules: Rules
    boxes: Boxes

    @classmethod
    def of(cls, machine: Machine, rules: Rules) -> "Layout":
        """The layout of rule tables on a machine."""
        return cls(machine, rules, Boxes(rules.generate, machine.sizes, places_of(machine)))


def places_of(machine: Machine) -> Places:
    """The places of a machine's mesh."""
    return Places({axis.name: axis.size for axis in machine.mesh}, mesh_coordinates(machine.mesh, machine.slice))


def refuse_another_model(earlier: Earlier, sizes: Sizes) -> None:
    """Layouts of different model shapes cannot be compared."""
    own = machine_of(earlier.plan).sizes
    for name in SHAPE:
        before, now = getattr(own, name), getattr(sizes, name)
        if before != now:
            raise PlanFileError(
                f"{earlier.name} is a plan of another model: its {name} is {before}, and the spec's is {now}; "
                "give --near a plan of the same model"
            )


def with_changes(built: Built, earlier: Earlier) -> Problem:
    """The problem with the change of every option against an earlier plan."""
    refuse_another_model(earlier, built.machines[0].sizes)
    old = Layout.of(machine_of(earlier.plan), rules_of(earlier.plan))
    batch = earlier.plan.generate.batch
    tables = (table_with_changes(table, old, built.problem.batches, batch) for table in built.problem.meshes)
    return replace(built.problem, meshes=tuple(tables))


def table_with_changes(table: MeshTable, old: Layout, batches: tuple[int, ...], batch: int) -> MeshTable:
    """One mesh's table; a change of slice, mesh or batch is charged to every option of attention."""
    base = Layout.of(table.source.machine, Rules(GenerateRules(), PrefillRules()))
    fixed = CHOICE_PRICE * (("slice" in moved_machine(base, old)) + ("mesh" in moved_machine(base, old)))
    moved: Ints = np.array([fixed + CHOICE_PRICE * (each != batch) for each in batches], dtype=np.int64)
    names = tuple(axis.name for axis in table.mesh)
    found: dict[object, int] = {}

    def changes(block: Block) -> Ints:
        tables = (Rules(*RULES[block.name](names, option)) for option in block.options)
        rows = [option_price(block.name, rules, base, old, found) for rules in tables]
        column = np.array(rows, dtype=np.int64).reshape(-1, 1)
        return column + (moved if block.name == "attention" else np.zeros_like(moved))

    return replace(table, price=lambda: tuple(replace(block, change=changes(block)) for block in table.blocks))


def option_price(name: str, rules: Rules, base: Layout, old: Layout, found: dict[object, int]) -> int:
    """The change of one option, its own part of slice, mesh and batch left out. `found` remembers stored layouts."""
    stored = name, rules.generate
    layout = replace(base, rules=rules, boxes=replace(base.boxes, rules=rules.generate))
    if stored not in found:
        units = -(-received_bytes(name, layout.boxes, kept_boxes(layout, old)) // UNIT_BYTES)
        cache = name == "attention" and cache_moves(layout, old)
        found[stored] = BYTES_PRICE * units + CHOICE_PRICE * cache
    return found[stored] + PREFILL_PRICE * (name != "vocab" and cut_differs(name, rules, old.rules))


def moved_machine(new: Layout, old: Layout) -> list[str]:
    """Which of slice and mesh differ."""
    before, now = old.machine, new.machine
    slices = (before.chip.name, before.slice.shape) != (now.chip.name, now.slice.shape)
    return [name for name, differs in (("slice", slices), ("mesh", before.mesh != now.mesh)) if differs]


def kept_boxes(new: Layout, old: Layout) -> Boxes | None:
    """The boxes that chips can keep from: none on another slice, or when weights are stored in another dtype."""
    same = new.machine.sizes.weight_bytes == old.machine.sizes.weight_bytes
    return old.boxes if same and "slice" not in moved_machine(new, old) else None


def cache_moves(new: Layout, old: Layout) -> bool:
    """Whether a chip holds another part of the KV cache."""
    return "slice" in moved_machine(new, old) or not new.boxes.same_cache(old.boxes)


def cut_differs(name: str, rules: Rules, old: Rules) -> bool:
    """Whether prefill cuts a block over other axes."""
    fields = BLOCK_FIELDS[name]["prefill"]
    return any(frozenset(getattr(rules.prefill, each)) != frozenset(getattr(old.prefill, each)) for each in fields)


def near_of(earlier: Earlier, machine: Machine, rules: Rules, batch: int) -> Near:
    """What a solution changes against the earlier plan."""
    old = Layout.of(machine_of(earlier.plan), rules_of(earlier.plan))
    new = Layout.of(machine, rules)
    moved = sum(received_bytes(block, new.boxes, kept_boxes(new, old)) for block in new.machine.sizes.blocks)
    changed = moved_machine(new, old)
    if batch != earlier.plan.generate.batch:
        changed.append("generate.batch")
    if cache_moves(new, old):
        changed.append("generate.kv_cache")
    changed += [f"prefill.{block}" for block in new.machine.sizes.blocks[:-1] if cut_differs(block, rules, old.rules)]
    return Near(
        plan=earlier.name,
        batch=earlier.plan.generate.batch,
        within=float(earlier.within),
        moved_bytes=moved,
        changed=tuple(changed),
    )
