"""The least-change plan: what differs from an earlier plan, as prices of options, and in words.

    change = bytes of weights that the busiest chip must receive, block by block    (in 64 KiB units)
    then     how many of slice, mesh, batch and KV-cache layout differ
    then     how many of attention, MLP and experts are cut another way in prefill

One integer holds all three, the first most significant (`change_price`), so the solver minimises them in this order.
"""

from dataclasses import dataclass, field, replace
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
from planner.problem.options import RULES, STORED_AXES, Mode, Option
from planner.problem.pins import BLOCK_FIELDS
from planner.problem.problem import UNIT_BYTES, Block, Ints, MeshTable, Problem
from planner.problem.rules import Axes, GenerateRules, PrefillRules, Rules
from planner.problem.sizes import Sizes
from planner.problem.spaces import Key, Roles, Space, code
from planner.problem.tables import Judged
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

    def storing(self, stored: GenerateRules) -> "Layout":
        """The same chips, with weights that are stored so."""
        return replace(self, boxes=replace(self.boxes, rules=stored))


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

    def block(name: str) -> Block:
        changes = SideChanges(name, names, base, old)
        found: Block = table.source.block(name, table.prompts, table.chunk, table.drafts, changes.of_key)
        space: Space = found.options  # type: ignore[assignment]
        column = changes.of_options(space).reshape(-1, 1)
        return replace(found, change=column + (moved if name == "attention" else np.zeros_like(moved)))

    return replace(table, price=lambda: tuple(map(block, base.machine.sizes.blocks)))


@dataclass(frozen=True)
class SideChanges:
    """The changes of the options of one block against an earlier plan, its own part of slice, mesh and batch left out:
    what generate's side changes, and what prefill's does."""

    name: str
    names: Axes
    base: Layout
    old: Layout
    _received: dict[GenerateRules, int] = field(default_factory=dict)
    _stored: dict[GenerateRules, int] = field(default_factory=dict)

    def of_options(self, space: Space) -> Ints:
        """The change of each option. The tokens that prefill cuts order the axes by which generate stores weights."""
        tokens = np.array([code((mode is not Mode.SAME for mode in modes), 2) for _, modes in space.keys])
        pairs, first, of = np.unique(
            np.stack([space.role_of, tokens[space.key_of]]), axis=1, return_index=True, return_inverse=True
        )
        stored = [
            self.of_stored(space.roles[pair[0]], space.keys[space.key_of[at]][1])
            for pair, at in zip(pairs.T, first, strict=True)
        ]
        judged = np.array([self.of_key(key)[1:] for key in space.keys], dtype=np.int64)
        found: Ints = np.array(stored, dtype=np.int64)[of.reshape(-1)]
        return found + judged[space.key_of, space.copied.astype(np.int64)]

    def of_stored(self, roles: Roles, modes: tuple[Mode, ...]) -> int:
        """Weights that chips must receive for generate, and a KV cache that is laid out otherwise."""
        stored = RULES[self.name](self.names, Option(roles, modes))[0]
        if stored not in self._stored:
            cache = self.name == "attention" and cache_moves(self.base.storing(stored), self.old)
            self._stored[stored] = BYTES_PRICE * self.received_units(stored) + CHOICE_PRICE * cache
        return self._stored[stored]

    def of_key(self, key: Key) -> Judged:
        """Another cut of prefill, and a copy that chips must receive."""
        stored, rules = RULES[self.name](self.names, Option(*key))
        if self.name not in STORED_AXES:
            return Judged()
        once = prefill_differs(self.name, Rules(stored, rules), self.old.rules)
        copied = prefill_differs(self.name, Rules(stored, rules, {self.name: stored}), self.old.rules)
        received = BYTES_PRICE * self.received_units(stored)
        return Judged(0, PREFILL_PRICE * once, PREFILL_PRICE * copied + received)

    def received_units(self, stored: GenerateRules) -> int:
        """Units of 64 KiB of the block that the busiest chip must receive when it is stored so."""
        if stored not in self._received:
            new = self.base.storing(stored)
            received = received_bytes(self.name, new.boxes, *kept_boxes(self.name, new, self.old))
            self._received[stored] = -(-received // UNIT_BYTES)
        return self._received[stored]


def moved_machine(new: Layout, old: Layout) -> list[str]:
    """Which of slice and mesh differ."""
    before, now = old.machine, new.machine
    slices = (before.chip.name, before.slice.shape) != (now.chip.name, now.slice.shape)
    return [name for name, differs in (("slice", slices), ("mesh", before.mesh != now.mesh)) if differs]


def kept_boxes(name: str, new: Layout, old: Layout) -> list[Boxes]:
    """The boxes of a block that chips can keep from: what generate read, and a copy; none on another slice, or when
    weights are stored in another dtype."""
    if new.machine.sizes.weight_bytes != old.machine.sizes.weight_bytes or "slice" in moved_machine(new, old):
        return []
    return [old.boxes, *([old.storing(old.rules.copies[name]).boxes] if name in old.rules.copies else [])]


def cache_moves(new: Layout, old: Layout) -> bool:
    """Whether a chip holds another part of the KV cache."""
    return "slice" in moved_machine(new, old) or not new.boxes.same_cache(old.boxes)


def prefill_differs(name: str, rules: Rules, old: Rules) -> bool:
    """Whether prefill cuts a block over other axes, or reads another copy of it, or one where there was none."""
    fields, stored = BLOCK_FIELDS[name]["prefill"], STORED_AXES[name]
    if (name in rules.copies) != (name in old.copies):
        return True
    return differ(rules.prefill, old.prefill, fields) or (
        name in old.copies and differ(rules.copies[name], old.copies[name], stored)
    )


def differ(new: GenerateRules | PrefillRules, old: GenerateRules | PrefillRules, fields: tuple[str, ...]) -> bool:
    """Whether some logical axes are cut over other mesh axes."""
    return any(frozenset(getattr(new, each)) != frozenset(getattr(old, each)) for each in fields)


def near_of(earlier: Earlier, machine: Machine, rules: Rules, batch: int) -> Near:
    """What a solution changes against the earlier plan."""
    old = Layout.of(machine_of(earlier.plan), rules_of(earlier.plan))
    new, blocks = Layout.of(machine, rules), machine.sizes.blocks
    stored = [(block, new.boxes) for block in blocks]
    stored += [(block, new.storing(copy).boxes) for block, copy in rules.copies.items()]
    moved = sum(received_bytes(block, boxes, *kept_boxes(block, new, old)) for block, boxes in stored)
    changed = moved_machine(new, old)
    if batch != earlier.plan.generate.batch:
        changed.append("generate.batch")
    if cache_moves(new, old):
        changed.append("generate.kv_cache")
    changed += [f"prefill.{block}" for block in blocks[:-1] if prefill_differs(block, rules, old.rules)]
    return Near(
        plan=earlier.name,
        batch=earlier.plan.generate.batch,
        within=float(earlier.within),
        moved_bytes=moved,
        changed=tuple(changed),
    )
