"""What binds a phase, what its layouts are, and what the runner-up would cost."""

from planner.explain.collectives import collective_text
from planner.explain.explanation import Explanation, Subject
from planner.plan.schema import Generate, Prefill, Roofline, RunnerUp
from planner.plan.show import prompts_text
from planner.plan.units import RESOURCES, dearer_text, percent_text, seconds_text

LARGEST = 3


def explain_phase(subject: Subject, name: str) -> Explanation:
    """A whole phase."""
    phase = subject.phase(name)
    resources = shown_seconds(phase)
    by_resource = ", ".join(
        f"{RESOURCES[key]} {seconds_text(value)} ({percent_text(value / phase.step_s)})"
        for key, value in sorted(resources.items(), key=lambda item: -item[1])
        if value
    )
    largest = sorted(phase.parts, key=lambda part: -part.total_s)[:LARGEST]
    parts = ", ".join(
        f"{part.address.partition('.')[2]} {seconds_text(part.total_s)} ({part.binds})" for part in largest
    )
    sentences = (
        f"{load_text(phase)}: {seconds_text(phase.step_s)} a step, bound by {RESOURCES[phase.binds]}",
        f"where the time goes, what overlaps counted once: {by_resource}",
        f"the largest parts: {parts}",
        *strategy_sentences(phase),
        collectives_sentence(phase),
        runner_up_sentence(phase.runner_up, phase),
    )
    return Explanation(name, sentences, {"seconds": phase.step_s, **{f"{k}_seconds": v for k, v in resources.items()}})


def load_text(phase: Prefill | Generate) -> str:
    """What one step works on."""
    if isinstance(phase, Prefill):
        return prompts_text(phase)
    if (told := phase.speculation) is None:
        return f"one token for each of {phase.batch} sequences"
    verified = f"{told.drafted_tokens} drafts verified for each of {phase.batch} sequences"
    return f"{verified}, which adds {told.tokens_per_step:.3g} tokens"


def shown_seconds(phase: Prefill | Generate) -> dict[str, float]:
    """Seconds of a step by resource, the smaller of compute and HBM hidden in each part; they add up to the step."""
    found = dict.fromkeys(RESOURCES, 0.0)
    for part in phase.parts:
        found[larger(part)] += part.total_s - part.ici_s - part.fixed_s
        found["ici"] += part.ici_s
        found["fixed"] += part.fixed_s
    return found


def larger(part: Roofline) -> str:
    """Which of compute and HBM is not hidden in a part."""
    return "compute" if part.compute_s > part.hbm_s else "hbm"


def strategy_sentences(phase: Prefill | Generate) -> list[str]:
    """The strategy of each block."""
    return [f"{block}: {text}" for block, text in dict(phase.strategy).items()]


def collectives_sentence(phase: Prefill | Generate) -> str:
    """How many collectives a step runs, and the dearest."""
    if not phase.collectives:
        return "no collectives"
    count = sum(each.count for each in phase.collectives)
    dearest = max(phase.collectives, key=lambda each: each.seconds)
    return f"{count} collectives a step; the dearest: {dearest.address}, {collective_text(dearest)}"


def runner_up_sentence(runner_up: RunnerUp | None, phase: Prefill | Generate) -> str:
    """The best plan whose table of this phase differs, and its price."""
    if runner_up is None:
        return "runner-up: none; no other layout of this phase is legal here and keeps the limits"
    differing = [f"{k} {v}" for k, v in dict(runner_up.strategy).items() if v != dict(phase.strategy)[k]]
    slower = runner_up.step_s - phase.step_s
    than = f"{seconds_text(abs(slower))} {'more' if slower >= 0 else 'less'}"
    price = f"{dearer_text(runner_up.objective_ratio)} in all"
    return f"runner-up: {'; '.join(differing)}: {seconds_text(runner_up.step_s)} a step, {than}; {price}"
