"""Infeasible settings in words: in groups by what they break, or one by one."""

from collections.abc import Iterator

from planner.plan.units import bytes_text, seconds_text
from planner.sweep.schema import Conflict, Infeasible, Sweep, Values
from planner.sweep.words import plural

LIMITS = {
    "hbm": "HBM per chip",
    "ttft": "limits.ttft",
    "tpot": "limits.tpot",
    "ttft_p95": "limits.ttft_p95",
    "tpot_p95": "limits.tpot_p95",
    "fleet_chips": "hardware.fleet_chips",
}


def reason_lines(sweep: Sweep, everything: bool) -> Iterator[str]:
    """Why settings are infeasible: a line for each group, with `everything` a line for each setting below it."""
    for group in groups(sweep):
        yield f"infeasible: {group_text(group)}"
        if everything:
            yield from (f"  {values_text(each.values)}: {each.reason}" for each in group)


def groups(sweep: Sweep) -> list[list[Infeasible]]:
    """Infeasible settings that break the same limits, or have the same other reason."""
    found: dict[object, list[Infeasible]] = {}
    for each in sweep.infeasible:
        key = tuple(conflict.limit for conflict in each.conflicts) or each.reason
        found.setdefault(key, []).append(each)
    return list(found.values())


def group_text(group: list[Infeasible]) -> str:
    """One group: how many settings, and for each limit what is needed and what there is."""
    count = plural(len(group), "setting")
    slices = ", ".join(dict.fromkeys(str(each.values["slice"]) for each in group))
    if not group[0].conflicts:
        return f"{count} (slice {slices}): {group[0].reason}"
    columns = list(zip(*(each.conflicts for each in group), strict=True))
    told = "; ".join(need_text(list(column)) for column in columns)
    together = "limits that cannot be kept together: " if len(columns) > 1 else ""
    return f"{count} (slice {slices}): {together}{told}"


def need_text(conflicts: list[Conflict]) -> str:
    """One limit over a group: `HBM per chip: 15.2 to 22 GB needed, 14.7 GB available`."""
    limit = conflicts[0].limit
    text = {"hbm": bytes_text, "fleet_chips": chips_text}.get(limit, seconds_text)
    needs = list(dict.fromkeys(text(pick(each.need for each in conflicts)) for pick in (min, max)))
    haves = list(dict.fromkeys(text(pick(each.have for each in conflicts)) for pick in (min, max)))
    least = " to ".join(needs)
    return (
        f"{LIMITS[limit]}: at least {least} needed, {' to '.join(haves)} {'available' if limit == 'hbm' else 'allowed'}"
    )


def chips_text(chips: float) -> str:
    """A number of chips."""
    return plural(int(chips), "chip")


def values_text(values: Values) -> str:
    """A setting in words: `slice 4x4, batch 8`."""
    return ", ".join(f"{name.removeprefix('generate.')} {value}" for name, value in values.items())
