"""The compiler's memory of one chip against the plan's HBM budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.plan.records import Hbm
from planner.verify.build import Memory, Phase, Step

Verdict = Literal["equal", "within", "over", "under", "lost", "not judged"]
TOLERANCE = 0.01
"""Arguments may differ by this share: layouts pad arrays, and a step takes a few small inputs besides."""


@dataclass(frozen=True)
class MemoryLine:
    """One quantity in bytes per chip, as planned and as compiled."""

    what: str
    planned: int
    found: int
    verdict: Verdict

    @property
    def ok(self) -> bool:
        """Whether it is as planned."""
        return self.verdict in ("equal", "within", "not judged")


def with_one_layer_copied(hbm: Hbm, layers: int) -> Hbm:
    """The budget of a CPU device, whose matmuls read a copy of their layer's weights; no plan counts it."""
    layer = (hbm.weights + (hbm.copies or 0)) // layers
    return hbm.model_copy(update={"activations": hbm.activations + layer, "total": hbm.total + layer})


def memory_lines(phase: Phase, memory: Memory, hbm: Hbm, native: bool) -> tuple[MemoryLine, ...]:
    """What a phase is given, keeps in place, and adds. Temporaries are judged on the plan's own kind of chip only.

    The keys and values that one chunk of a prompt hands to the next are what prefill adds.
    """
    lines, passed_on = [], _passed_on(phase, memory)
    weights = hbm.weights + (hbm.copies or 0)
    given = {"prefill": weights, "generate": hbm.weights + hbm.kv_cache}
    if phase in given:
        found = memory.arguments - passed_on
        lines.append(MemoryLine("arguments", given[phase], found, _near(given[phase], found)))
    if phase in ("insert", "generate"):
        kept: Verdict = "equal" if memory.kept >= hbm.kv_cache else "lost"
        lines.append(MemoryLine("cache kept in place", hbm.kv_cache, memory.kept, kept))
    budget = hbm.activations + hbm.logits
    found = memory.added + passed_on
    added: Verdict = "within" if found <= budget else "over"
    lines.append(MemoryLine("temporaries and results", budget, found, added if native else "not judged"))
    return tuple(lines)


def total_lines(memories: Mapping[Step, Memory], hbm: Hbm, native: bool) -> tuple[MemoryLine, ...]:
    """The most that a chip holds while it serves: weights, cache, and what the largest step adds; and what it could.

    The code of the programs is in the reserve.
    """
    serving = [memory.arguments for step, memory in memories.items() if step.phase == "generate"]
    if not serving:
        return ()
    held = (hbm.copies or 0) + max(serving)
    found = held + max(memory.added + _passed_on(step.phase, memory) for step, memory in memories.items())
    return _against(hbm, "serving", found, native)


def pool_lines(memories: Mapping[Step, Memory], hbm: Hbm, native: bool) -> tuple[MemoryLine, ...]:
    """The same of a chip that only reads prompts."""
    weights = max((memory.arguments for step, memory in memories.items() if step.phase == "prefill"), default=0)
    handing = {step: weights + memory.arguments for step, memory in memories.items() if step.phase == "hand_over"}
    reading = {step: memory.arguments for step, memory in memories.items() if step.phase == "prefill"} | handing
    held = [given + memories[step].added for step, given in reading.items()]
    return _against(hbm, "reading prompts", max(held), native) if held else ()


def _against(hbm: Hbm, doing: str, found: int, native: bool) -> tuple[MemoryLine, ...]:
    # Small arrays, as page tables and the marks of sampling, are no items of a plan.
    total, available = hbm.total * (1 + TOLERANCE), hbm.available
    lines = (f"total while {doing}", hbm.total, total), ("a chip's HBM less its reserve", hbm.available, available)
    return tuple(
        MemoryLine(what, planned, found, ("within" if found <= most else "over") if native else "not judged")
        for what, planned, most in lines
    )


def _passed_on(phase: Phase, memory: Memory) -> int:
    """Bytes that one chunk of a prompt hands to the next."""
    return memory.kept if phase == "prefill" else 0


def _near(planned: int, found: int) -> Verdict:
    if abs(found - planned) <= TOLERANCE * planned:
        return "equal"
    return "over" if found > planned else "under"
