"""Plan, Plan -> PlanDiff: what differs, in numbers and by address, and what follows from it."""

from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue

from planner.diff.decisions import decisions
from planner.diff.facts import Facts, facts
from planner.diff.forced import deployment, forced
from planner.diff.inputs import changed_inputs
from planner.diff.placement import resharded, rewritten
from planner.diff.schema import (
    NOTHING_ELSE,
    RESHARDS_KV_CACHE,
    RESHARDS_WEIGHTS,
    REWRITES_KV_CACHE,
    REWRITES_WEIGHTS,
    Action,
    Change,
    Kind,
    Limit,
    Number,
    PlanDiff,
    Unit,
)
from planner.plan.schema import Plan

RESHARDS = {"weights": RESHARDS_WEIGHTS, "kv_cache": RESHARDS_KV_CACHE}
REWRITES = {"weights": REWRITES_WEIGHTS, "kv_cache": REWRITES_KV_CACHE}

NUMBERS: tuple[tuple[str, str, Unit], ...] = (
    ("service.ttft_s", "TTFT", "s"),
    ("service.tpot_s", "TPOT", "s"),
    ("service.tokens_per_s", "throughput", "tokens/s"),
    ("service.chip_seconds_per_million_tokens", "cost of a million tokens", "chip-s"),
    ("service.money_per_million_tokens", "price of a million tokens", "money"),
    ("chips", "chips", "chips"),
    ("generate.step_s", "generate step", "s"),
    ("prefill.step_s", "prefill", "s"),
    ("hbm.total", "HBM per chip", "bytes"),
    ("hbm.headroom", "HBM headroom", "share"),
    ("hbm.weights", "HBM: weights", "bytes"),
    ("hbm.copies", "HBM: second copies", "bytes"),
    ("hbm.kv_cache", "HBM: KV cache", "bytes"),
    ("hbm.activations", "HBM: activations", "bytes"),
    ("hbm.logits", "HBM: logits", "bytes"),
    ("hbm.free", "HBM: free", "bytes"),
)
BOTH = ("service.money_per_million_tokens",)
"""Numbers that are told where both plans have them; the others where one does."""
DERIVED: Mapping[str, Callable[[Plan], float]] = {
    "chips": lambda plan: float(plan.chips),
    "hbm.headroom": lambda plan: headroom(plan),
}
REACHED: Mapping[str, Callable[[Plan], float | None]] = {
    "ttft": lambda plan: plan.service.ttft_s,
    "tpot": lambda plan: plan.service.tpot_s,
    "ttft_p95": lambda plan: plan.fleet.tails.ttft_p95_s if plan.fleet and plan.fleet.tails else None,
    "tpot_p95": lambda plan: plan.fleet.tails.tpot_p95_s if plan.fleet and plan.fleet.tails else None,
}


def compare(base: Plan, head: Plan) -> PlanDiff:
    """The difference of two plans; causes only where they are plain without solving anything."""
    before, after = facts(base), facts(head)
    changes = [change for kind in before for change in changed(kind, before, after)]
    changes = [with_stored(change, base, head) for change in changes if not follows(change, base, head)]
    changes.sort(key=lambda change: (list(before).index(change.kind), change.address))
    inputs = changed_inputs(base.spec, head.spec)
    attribution, decided_otherwise = decisions(base, head, inputs)
    forces = tuple(forced(base, head, changes, inputs))
    return PlanDiff(
        base=base.name,
        head=head.name,
        numbers=numbers(base, head),
        limits=tuple(limits(base, head)),
        inputs=inputs,
        decisions=decided_otherwise,
        attribution=attribution,
        forced=forces,
        order=tuple(deployment(base, head, frozenset(each.force for each in forces))),
        changes=tuple(without_cause(changes)),
        unchanged={kind: unchanged(kind, before, after) for kind in before},
    )


def numbers(base: Plan, head: Plan) -> tuple[Number, ...]:
    """The quantities of the summary table, changed or not."""
    found = []
    for address, title, unit in NUMBERS:
        before, after = quantity(base, address), quantity(head, address)
        told = [value for value in (before, after) if value is not None]
        if len(told) == 2 or (told and address not in BOTH):
            found.append(Number(address=address, title=title, unit=unit, base=before or 0.0, head=after or 0.0))
    return tuple(found)


def quantity(plan: Plan, address: str) -> float | None:
    """The number of a plan at `address`, if it has one."""
    if address in DERIVED:
        return DERIVED[address](plan)
    section, field = address.split(".")
    value = getattr(getattr(plan, section), field)
    return None if value is None else float(value)


def headroom(plan: Plan) -> float:
    """The part of HBM that is left free, on the chips that have least of it."""
    return min(each.free / each.capacity for each in (plan.hbm, *([plan.pool.hbm] if plan.pool else [])))


def limits(base: Plan, head: Plan) -> Iterator[Limit]:
    """The limits of the head spec and what both plans reach."""
    written = head.spec.get("limits")
    for address, value in written.items() if isinstance(written, dict) else ():
        reached = REACHED.get(address)
        if reached is not None:
            limit_s = float(str(value).removesuffix(" s"))
            yield Limit(address=address, limit_s=limit_s, base_s=reached(base), head_s=reached(head))


def changed(kind: Kind, before: Facts, after: Facts) -> Iterator[Change]:
    """The changes of one kind, in address order."""
    for address in sorted(before[kind].keys() | after[kind].keys()):
        base, head = before[kind].get(address), after[kind].get(address)
        if base != head:
            action: Action = "change"
            if address not in before[kind]:
                action = "add"
            elif address not in after[kind]:
                action = "remove"
            moved = kind == "collective" and action == "change" and untimed(base) == untimed(head)
            yield Change(kind="prediction" if moved else kind, address=address, action=action, base=base, head=head)


def unchanged(kind: Kind, before: Facts, after: Facts) -> int:
    """How many addresses of a kind have the same value in both."""
    return sum(value == after[kind].get(address) for address, value in before[kind].items())


def follows(change: Change, base: Plan, head: Plan) -> bool:
    """Whether a change is said already by another: the chips of a mesh follow from its axes and the slice."""
    if change.address == "pool.mesh.chips":
        if base.pool is None or head.pool is None:
            return True
        base, head = base.at("prefill"), head.at("prefill")
    elif change.address != "mesh.chips":
        return False
    return (base.slice, base.mesh.axes) != (head.slice, head.mesh.axes)


def untimed(collectives: JsonValue) -> list[dict[str, JsonValue]]:
    """The collectives of one address without their predicted seconds."""
    assert isinstance(collectives, list)
    return [{k: v for k, v in each.items() if k != "seconds"} for each in collectives if isinstance(each, dict)]


def with_stored(change: Change, base: Plan, head: Plan) -> Change:
    """A change with what it means for stored arrays."""
    if (stored := rewritten(base, head, change.address)) is not None:
        return change.model_copy(update={"reasons": (REWRITES[stored],)})
    if change.kind not in ("choice", "layout"):
        return change
    reasons = tuple(RESHARDS[stored] for stored in resharded(base, head, change.address))
    return change.model_copy(update={"reasons": reasons})


def without_cause(changes: list[Change]) -> Iterator[Change]:
    """The changes; predictions that nothing else explains are marked.

    Inputs, slice, mesh and the generate table (weights are stored by it) explain every prediction; what else changed
    in prefill explains prefill and the memory.
    """
    causes = [change.address for change in changes if change.kind in ("input", "choice", "layout", "collective")]
    only_prefill = all(address.startswith("prefill.") for address in causes)
    for change in changes:
        explained = bool(causes) and not (only_prefill and change.address.startswith("generate."))
        if change.kind == "prediction" and not explained:
            yield change.model_copy(update={"reasons": (NOTHING_ELSE,)})
        else:
            yield change
