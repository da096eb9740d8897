"""What matters of a difference, in sentences."""

from collections.abc import Iterator

from planner.diff.schema import CATALOGUE, NOTHING_ELSE, Alone, Decision, Input, Limit, Number, PlanDiff
from planner.diff.words import amount, change_text, counted, joined, plain_text
from planner.plan.units import digits, seconds_text

LEAST_PERCENT = 0.05
"""Changes below this are not worth a sentence; tables show them."""
LEAST_SHARE = 0.005
COST = "service.chip_seconds_per_million_tokens"
MONEY = "service.money_per_million_tokens"
FORCED_SHORTLY = {
    "rewrite_weights": "weights must be converted",
    "reshard_weights": "weights must be resharded",
    "drop_kv_cache": "running KV caches cannot be kept",
}
CATALOGUE_TEXT = "the cost model or the chip catalogue"
MORE_IS_BETTER = ("service.tokens_per_s", "hbm.headroom")
JUDGED = ("service.ttft_s", "service.tpot_s", "service.tokens_per_s", COST, MONEY, "chips", "hbm.headroom")
"""Numbers that are better or worse; the others are means to these."""
SHORT = {
    "service.ttft_s": "TTFT",
    "service.tpot_s": "TPOT",
    "service.tokens_per_s": "throughput",
    COST: "cost",
    MONEY: "price",
    "hbm.headroom": "HBM headroom",
    "generate.step_s": "generate step",
    "prefill.step_s": "prefill",
    "chips": "chips",
}


def is_empty(diff: PlanDiff) -> bool:
    """Whether nothing at all differs."""
    return diff.infeasible is None and not diff.changes


def headline(diff: PlanDiff) -> str:
    """What matters in one sentence, without its full stop."""
    if diff.infeasible is not None:
        name = plain_text(diff.head if diff.infeasible.side == "head" else diff.base)
        return f"No feasible plan for {diff.infeasible.side} ({name})"
    if is_empty(diff):
        return "No changes"
    steps = list(step_clauses(diff))
    clauses = [*steps, *cost_clauses(diff), *chip_clauses(diff), *stored_clauses(diff)]
    if not clauses:
        return unmoved(diff)
    if not steps:
        clauses.insert(0, "steps unchanged")
    opening = "another model: " if "replace_model" in diff.forces else "" if diff.inputs else "no input changed, but "
    return capitalised(opening + ", ".join(clauses))


def unmoved(diff: PlanDiff) -> str:
    """The sentence of a difference without visible consequence."""
    if diff.decisions:
        return f"{counted(len(diff.decisions), 'decision', 'decisions')} changed, and no prediction moved visibly"
    if diff.inputs:
        changed = counted(len(diff.inputs), "input", "inputs")
        return f"{changed} changed, and the plan stays the same: no decision, prediction or stored byte differs"
    if any(NOTHING_ELSE in change.reasons for change in diff.changes):
        return "Predictions moved by less than 0.05% though nothing else did"
    return "Only notes differ: names, runner-ups, proof"


def step_clauses(diff: PlanDiff) -> Iterator[str]:
    """How the steps moved."""
    for address, title in (("generate.step_s", "generate step"), ("prefill.step_s", "prefill")):
        number = diff.number(address)
        if number is not None and visible(number):
            word = "shorter" if number.change < 0 else "longer"
            yield f"{title} {size(number)} {word}"


def cost_clauses(diff: PlanDiff) -> Iterator[str]:
    """How cost moved, in money where both plans know it."""
    number = diff.number(MONEY) or diff.number(COST)
    if number is not None and visible(number):
        yield f"cost per million tokens {'down' if number.change < 0 else 'up'} {size(number)}"


def chip_clauses(diff: PlanDiff) -> Iterator[str]:
    """Chips that come or go."""
    number = diff.number("chips")
    if number is not None and number.change:
        more = "more" if number.change > 0 else "fewer"
        yield f"{digits(abs(number.change))} {more} chips"


def stored_clauses(diff: PlanDiff) -> Iterator[str]:
    """What becomes of weights and caches that servers hold; the first that says it all."""
    if "replace_model" in diff.forces:
        return
    told = [text for force, text in FORCED_SHORTLY.items() if force in diff.forces]
    yield from told[:1]


def visible(number: Number) -> bool:
    """Whether a number moved by enough to be told."""
    return abs(number.percent if number.percent is not None else number.change) >= LEAST_PERCENT


def size(number: Number) -> str:
    """How far a number moved, without its sign."""
    return amount(abs(number.change), number) if number.percent is None else f"{digits(abs(number.percent))}%"


def capitalised(text: str) -> str:
    """A sentence with its first letter large."""
    return text[:1].upper() + text[1:]


def better_and_worse(diff: PlanDiff) -> Iterator[str]:
    """What gets better and what worse, of what users and owners see."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for number in diff.numbers:
        if number.address in JUDGED and (
            visible(number) if number.unit != "share" else abs(number.change) >= LEAST_SHARE
        ):
            more = number.change > 0
            found[more == (number.address in MORE_IS_BETTER)].append(moved_text(number))
    if diff.numbers and not any(found.values()):
        yield "Nothing that users or owners of the service see gets better or worse."
    for word, listed in (("Better", found[True]), ("Worse", found[False])):
        if listed:
            yield f"{word}: {', '.join(listed)}."
    if diff.numbers and not diff.limits:
        yield "The head spec sets no limits on TTFT and TPOT."
    if COST in {each.address for each in diff.numbers} and diff.number(MONEY) is None and other_chips(diff):
        yield (
            "The chips differ, and so does the price of a chip-second: hardware.price_per_chip_hour in both specs "
            "would tell which is cheaper."
        )


def other_chips(diff: PlanDiff) -> bool:
    """Whether the kind of chip changed."""
    return any(change.address == "chip" for change in diff.of("choice"))


def moved_text(number: Number) -> str:
    """A number and how far it moved: `TPOT −23.4%`."""
    sign = "−" if number.change < 0 else "+"
    if number.unit == "chips":
        return f"{digits(abs(number.change))} {'fewer' if number.change < 0 else 'more'} chips"
    if number.unit == "share":
        return f"{SHORT[number.address]} {change_text(number)}"
    return f"{SHORT[number.address]} {sign}{size(number)}"


def limit_text(limit: Limit) -> str:
    """A limit and what head makes of it."""
    name = limit.address.upper().replace("_P95", " of 95%")
    text = f"{name} at most {seconds_text(limit.limit_s)}: head {reached_text(limit.head_s, limit)}"
    return f"{text}, base {reached_text(limit.base_s, limit)}"


def reached_text(reached_s: float | None, limit: Limit) -> str:
    """What a plan reaches against a limit."""
    if reached_s is None:
        return "does not tell"
    left = 100 * (limit.limit_s - reached_s) / limit.limit_s
    return (
        f"{seconds_text(reached_s)} ({digits(left)}% left)" if left >= 0 else f"{seconds_text(reached_s)} (breaks it)"
    )


def alone_text(found: Input) -> str:
    """What an input does alone."""
    if found.alone is None:
        return "nothing: no plan depends on it"
    match found.alone.verdict:
        case "infeasible":
            return "no feasible plan"
        case "invalid":
            return "cannot be planned without the others"
    if not found.alone.numbers:
        return "feasible"
    return ", ".join(moved_text(each) for each in told_alone(found.alone)) or "no visible change"


def told_alone(alone: Alone) -> Iterator[Number]:
    """The numbers of an input alone that are worth telling."""
    wanted = ("service.ttft_s", "service.tpot_s", "service.tokens_per_s", COST, "chips")
    yield from (each for each in alone.numbers if each.address in wanted and visible(each))


def why(diff: PlanDiff) -> str:
    """Where changes come from, in one sentence; nothing where tables say it."""
    if diff.infeasible is not None:
        return why_infeasible(diff)
    marked = sum(NOTHING_ELSE in change.reasons for change in diff.changes)
    if not marked and (diff.inputs or not diff.decisions):
        return f"{CATALOGUE_TEXT} changed since base was planned.".capitalize() if diff.repriced else ""
    moved = f"{counted(marked, 'prediction', 'predictions')} moved" if marked else ""
    if diff.inputs:
        return f"{moved} though nothing that explains it did: {CATALOGUE_TEXT} changed as well."
    decided = f"{counted(len(diff.decisions), 'decision', 'decisions')} changed" if diff.decisions else ""
    stays = "" if decided else ", and every decision stays"
    less = " A plan made with --near base may move less." if "reshard_weights" in diff.forces else ""
    told = joined([each for each in (moved, decided) if each])
    return f"No input changed, but {CATALOGUE_TEXT} did: {told}{stays}.{less}"


def repriced_text(diff: PlanDiff) -> str:
    """What base's own layouts would take by today's prices; nothing where these are those of base."""
    told = [f"the {n.title} {seconds_text(n.base)} -> {seconds_text(n.head)}" for n in diff.repriced]
    return f"With the decisions of base, today's prices alone move {joined(told)}." if told else ""


def why_infeasible(diff: PlanDiff) -> str:
    """Which input leaves a side without a plan."""
    assert diff.infeasible is not None
    if len(diff.inputs) == 1:
        return "No other input that a plan depends on changed."
    wanted = "infeasible" if diff.infeasible.side == "head" else "plan"
    alone = [each.address for each in diff.inputs if each.alone and each.alone.verdict == wanted]
    if not any(each.alone for each in diff.inputs):
        return ""
    does = "leaves base without a plan" if wanted == "infeasible" else "gives base a plan"
    return f"Alone, {' or '.join(alone)} {does}." if alone else f"No input {does} alone; they do together."


ATTRIBUTION = {
    "solved": "Causes were found by planning base with the inputs of head one at a time.",
    "only_input": "No other input that a plan depends on changed.",
    "no_input": "",
    "not_asked": "Which input caused which decision was not solved; --attribute does.",
    "too_many": "Too many inputs changed to tell which caused which decision.",
    "near": "A side was planned with --near an earlier plan, so inputs alone do not explain its decisions.",
}


def cause_text(decision: Decision) -> str:
    """Why something is decided otherwise."""
    listed = list(decision.causes)
    match decision.how:
        case "catalogue":
            return CATALOGUE_TEXT
        case "either":
            return f"{' or '.join(listed)}, each alone"
        case "together":
            return f"{joined(listed)} together" if len(listed) > 1 else f"{joined(listed)}, together with others"
        case "unknown":
            return "not solved"
    return joined(listed)


def grouped(diff: PlanDiff) -> Iterator[tuple[str, tuple[Decision, ...]]]:
    """The decisions by their cause, in the order of inputs."""
    causes = dict.fromkeys(cause_text(each) for each in diff.decisions)
    order = [each.address for each in diff.inputs] + [CATALOGUE]

    def rank(cause: str) -> tuple[bool, int]:
        plain = next((index for index, address in enumerate(order) if cause == address), len(order))
        return plain == len(order), plain

    for cause in sorted(causes, key=rank):
        yield cause, tuple(each for each in diff.decisions if cause_text(each) == cause)


def policy_sentence(diff: PlanDiff) -> str:
    """Whether the policy is kept, in one sentence; nothing without one."""
    if diff.policy is None:
        return ""
    counts = {
        word: sum(each.verdict == word for each in diff.policy.verdicts) for word in ("broken", "waived", "unknown")
    }
    rules = counted(len(diff.policy.verdicts), "rule", "rules")
    if counts["broken"]:
        return f"Policy broken: {counts['broken']} of {rules} of {diff.policy.policy}."
    if counts["unknown"]:
        return f"Policy not judged: {counts['unknown']} of {rules} of {diff.policy.policy}."
    waived = f", {counts['waived']} of them by a waiver" if counts["waived"] else ""
    return f"Policy kept: {rules} of {diff.policy.policy}{waived}."
