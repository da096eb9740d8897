"""What goes from one program to the next, and whether it arrives as it is expected there.

An array that comes out of a program in another layout than the next one takes it in is copied at every step, or makes
jax compile again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.verify.build import Program


def changed_hands(programs: Sequence[Program], apart: bool = False) -> Iterator[str]:
    """Arrays that a program leaves, or is given, otherwise than another one takes them, a sentence each.

    Where phases are on slices of their own, prefill is `apart`: its weights are others, and what it makes is handed
    over.
    """
    if apart:
        reading = [program for program in programs if program.step.phase in ("prefill", "hand_over")]
        yield from changed_hands(reading)
        programs = [program for program in programs if program not in reading]
    for taker in programs:
        for name, wanted in taker.inputs.items():
            told = set()
            for giver in programs:
                found = giver.outputs.get(name)
                if found is not None and _meet(giver, taker, name) and not _same(found, wanted):
                    told.add(f"{name}: {giver.step.name} leaves it as {_text(found)}")
            yield from (f"{each}, {taker.step.name} takes it as {_text(wanted)}" for each in sorted(told))
    yield from _read_otherwise(programs)


def _meet(giver: Program, taker: Program, name: str) -> bool:
    """Whether what one program leaves is given to the other; keys and values are those of one bucket."""
    return not name.startswith("kv") or giver.step.bucket == taker.step.bucket


def _read_otherwise(programs: Sequence[Program]) -> Iterator[str]:
    """Weights that one program takes otherwise than the first that has them."""
    first: dict[str, tuple[Program, Any]] = {}
    for program in programs:
        for name, wanted in program.inputs.items():
            if not name.startswith("weights") or wanted.sharding is None:  # a step that does not read it has no place
                continue
            other, found = first.setdefault(name, (program, wanted))
            if not _same(found, wanted):
                yield (
                    f"{name}: {other.step.name} takes it as {_text(found)}, "
                    f"{program.step.name} takes it as {_text(wanted)}"
                )


def _same(one: Any, other: Any) -> bool:
    """Whether two formats put an array in the same places in the same order."""
    dims = len(one.layout.major_to_minor)
    return bool(one.layout == other.layout and one.sharding.is_equivalent_to(other.sharding, dims))


def _text(format_: Any) -> str:
    """A format in a few words: which mesh axes cut which dimension, and the order of dimensions in memory."""
    return f"{format_.sharding.spec}, dimensions {format_.layout.major_to_minor} major first"
