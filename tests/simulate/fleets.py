"""Plans with a fleet, made of plans without."""

from typing import Any

from planner.plan.records import Fleet, Pool, Tails, Transfer
from planner.plan.schema import Plan


def with_workload(plan: Plan, workload: dict[str, Any], limits: dict[str, str] | None = None) -> Plan:
    """The plan with other entries in its spec's workload, and other limits."""
    spec = {**plan.spec, "workload": {**plan.spec["workload"], **workload}}  # type: ignore[dict-item]
    return plan.model_copy(update={"spec": {**spec, **({"limits": limits} if limits else {})}})


def interleaved(plan: Plan, rate: float, slices: int, tails: Tails | None = None) -> Plan:
    """The plan on some slices that requests reach at a rate."""
    fleet = Fleet(
        mode="interleaved",
        requests_per_s=rate,
        slices=slices,
        chips=slices * len(plan.mesh.chips),
        slot_utilization=0.5,
        prefill_utilization=0.25,
        tails=tails,
    )
    return with_workload(plan, {"requests_per_s": rate}).model_copy(update={"fleet": fleet})


def disaggregated(plan: Plan, rate: float, slices: int, prefill_slices: int, transfer_s: float = 0.0) -> Plan:
    """The plan on some slices that generate and others, cut the same way, that read prompts."""
    chips = (slices + prefill_slices) * len(plan.mesh.chips)
    fleet = interleaved(plan, rate, slices).fleet
    assert fleet is not None
    apart = {
        "mode": "disaggregated",
        "prefill_slices": prefill_slices,
        "chips": chips,
        "transfer": Transfer(link="dcn", bytes=0, seconds=transfer_s),
    }
    pool = Pool(slice=plan.slice, mesh=plan.mesh, padding=plan.padding, hbm=plan.hbm)
    prefill = plan.prefill.model_copy(update={"stored": plan.generate.rules})
    changed = {"fleet": fleet.model_copy(update=apart), "pool": pool, "prefill": prefill}
    return with_workload(plan, {"requests_per_s": rate}).model_copy(update=changed)


def closed(plan: Plan) -> Plan:
    """The plan without a request rate in its spec."""
    workload = {key: value for key, value in plan.spec["workload"].items() if key != "requests_per_s"}  # type: ignore[attr-defined]
    return plan.model_copy(update={"spec": {**plan.spec, "workload": workload}})
