"""`--over PATH=V1,V2`: the text, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.problem.build import batch_steps
from planner.spec import PINS, Diagnostic, SpecErrors
from planner.spec.diagnostic import Position

SLICE, BATCH = "slice", "generate.batch"
ALSO = {"hardware.slice": SLICE, "hardware.slices": SLICE, **{f"pins.{address}": address for address in PINS}}
RANGE = ".."
LARGEST_BATCH = 1 << 20


@dataclass(frozen=True)
class Axis:
    """One path with its values as they were written; `text` is what the user gave."""

    path: str
    values: tuple[str, ...]
    text: str

    def override(self, value: str) -> str:
        """The `--set` that makes one value: a pin's, or a field's own."""
        return f"pins.{self.path}={value}" if self.path in PINS else f"{self.path}={value}"


def read_axes(over: Sequence[str]) -> list[Axis]:
    """The axes, with repeated values once; raises SpecErrors with everything that is wrong with their form."""
    axes: list[Axis] = []
    problems: list[Diagnostic] = []
    for text in over:
        path, equals, listed = (part.strip() for part in text.partition("="))
        path = ALSO.get(path, path)
        values = tuple(dict.fromkeys(split_values(listed)))
        if not path or not equals or not all(values):
            problems.append(wrong(text, f'"{text}" is not of the form path=value,value', "for example slice=2x4,4x4"))
        elif path in {axis.path for axis in axes}:
            problems.append(wrong(text, f"{path} is given twice", "list its values in one --over"))
        else:
            axes.append(Axis(path, values, text))
    if problems:
        raise SpecErrors(problems)
    return axes


def split_values(text: str) -> Iterator[str]:
    """The values between commas; a comma inside brackets belongs to its value."""
    depth, value = 0, ""
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0:
            yield value.strip()
            value = ""
        else:
            value += letter
    yield value.strip()


def batch_numbers(axis: Axis) -> tuple[int, ...]:
    """Batches in their order: numbers, and ranges `A..B` of 2^i and 3*2^i with both ends."""
    found: set[int] = set()
    problems: list[Diagnostic] = []
    for value in axis.values:
        first, dots, last = value.partition(RANGE)
        ends = [int(end) if end.strip().isdecimal() else 0 for end in ((first, last) if dots else (first, first))]
        if not 0 < ends[0] <= ends[1] <= LARGEST_BATCH:
            message = f'{BATCH} must be whole numbers above 0 or a range such as 1..64, not "{value}"'
            problems.append(wrong(axis.text, message, None))
        else:
            found |= {batch for batch in batch_steps(ends[1]) if batch >= ends[0]} if dots else set()
            found |= set(ends)
    if problems:
        raise SpecErrors(problems)
    return tuple(sorted(found))


def wrong(text: str, message: str, hint: str | None) -> Diagnostic:
    """What is wrong with one `--over`."""
    return Diagnostic("over", message, text.partition("=")[0], Position(f"--over {text}"), hint)
