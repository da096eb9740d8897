"""A difference held against a policy."""

from datetime import date

from planner.diff.policy import METRICS, UNEXPLAINED, Demand, Metric, Policy, Rule, Waiver
from planner.diff.schema import NOTHING_ELSE, Judgement, Number, PlanDiff, Verdict
from planner.diff.words import amount, change_text

ROUNDING = 1e-9


def judged(found: PlanDiff, policy: Policy, today: date) -> PlanDiff:
    """A difference with what a policy says of it on a day."""
    waivers = {each.allow: each for each in policy.waivers}
    verdicts = tuple(verdict(rule, found, waivers.get(rule.name), today) for rule in policy.rules)
    broken = {each.rule for each in verdicts if each.verdict in ("broken", "waived")}
    notes = tuple(note for each in policy.waivers if (note := waiver_note(each, each.allow in broken, today)))
    return found.model_copy(update={"policy": Judgement(policy=policy.source, verdicts=verdicts, notes=notes)})


def verdict(rule: Rule, found: PlanDiff, waiver: Waiver | None, today: date) -> Verdict:
    """What a rule says of a difference."""
    kept, told = held(rule, found)
    word = "unknown" if kept is None else "kept" if kept else "broken"
    told_waiver = ""
    if word == "broken" and waiver is not None:
        if waiver.until >= today:
            word, told_waiver = "waived", f"waived until {waiver.until}: {waiver.reason} ({waiver.place})"
        else:
            told_waiver = f"its waiver ended on {waiver.until} ({waiver.place})"
    wanted = rule.demand.text if rule.demand else "forbidden"
    return Verdict.model_validate(
        {
            "rule": rule.name,
            "demand": wanted,
            "place": rule.place,
            "verdict": word,
            "found": told,
            "waiver": told_waiver,
        }
    )


def held(rule: Rule, found: PlanDiff) -> tuple[bool | None, str]:
    """Whether a rule is kept, None where nothing tells, and what was found."""
    if found.infeasible is not None:
        return None, "there is no plan"
    if rule.demand is None:
        return forbidden_kept(rule.name, found)
    metric = METRICS[rule.name]
    number = next((each for address in metric.addresses if (each := found.number(address))), None)
    if number is None:
        return None, "no plan tells it"
    told = f"{amount(number.base, number)} -> {amount(number.head, number)}"
    return keeps(rule.demand, metric, number), told if number.change == 0 else f"{told}, {change_text(number)}"


def keeps(demand: Demand, metric: Metric, number: Number) -> bool:
    """Whether a number keeps a demand: a bound on head, or the worst change against base that is allowed."""
    if demand.sign in ("<=", ">="):
        over = number.head - demand.value
        return over <= ROUNDING if demand.sign == "<=" else over >= -ROUNDING
    change = number.percent if demand.relative else number.change
    if change is None:
        change = float("inf") if number.change > 0 else 0.0
    allowed = demand.value if demand.sign == "+" else -demand.value
    return change <= allowed + ROUNDING if metric.less_is_better else change >= allowed - ROUNDING


def forbidden_kept(name: str, found: PlanDiff) -> tuple[bool, str]:
    """Whether something forbidden does not happen, and what happens."""
    if name == UNEXPLAINED:
        count = sum(NOTHING_ELSE in change.reasons for change in found.changes)
        return not count, f"{count} predictions moved though nothing else did" if count else "does not happen"
    forced = next((each for each in found.forced if each.force == name), None)
    return forced is None, forced.text if forced else "does not happen"


def waiver_note(waiver: Waiver, broken: bool, today: date) -> str:
    """What is to be said of a waiver besides: that it has ended, or is not needed."""
    named = f"{waiver.place}: the waiver of {waiver.allow}"
    if waiver.until < today:
        return f"{named} ended on {waiver.until}; remove it or renew it: {waiver.reason}"
    return "" if broken else f"{named} until {waiver.until} is not needed by this change"
