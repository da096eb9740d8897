"""The settings of a sweep: slices and batches as pins of a spec, everything else as the spec's own fields."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path

from planner.errors import CannotRun
from planner.problem.build import batches_of, pinned_slices
from planner.spec import Diagnostic, Spec, SpecErrors, load_spec
from planner.sweep.over import BATCH, SLICE, Axis, batch_numbers, read_axes
from planner.sweep.schema import Values

MOST_SETTINGS = 20_000


@dataclass(frozen=True)
class Case:
    """One spec on one slice; its batches are priced together.

    `own`: the spec is the swept one but for slices and pins, so that a plan of it may be among these points.
    """

    spec: Spec
    slice: str
    batches: tuple[int, ...]
    others: tuple[tuple[str, str], ...]
    own: bool

    def values(self, batch: int) -> Values:
        """The setting of one batch."""
        return {SLICE: self.slice, BATCH: batch, **dict(self.others)}

    def pinned(self, batch: int) -> Spec:
        """The spec of one setting, which `plan` would solve."""
        return with_pins(self.spec, {SLICE: self.slice, BATCH: batch})


@dataclass(frozen=True)
class Grid:
    """The spec as it is, what is varied with the values in their order, and the cases in that order."""

    spec: Spec
    over: dict[str, tuple[str | int, ...]]
    cases: tuple[Case, ...]

    @property
    def settings(self) -> int:
        """How many settings there are."""
        return sum(len(case.batches) for case in self.cases)


def read_grid(path: Path, overrides: Sequence[str] = (), over: Sequence[str] = ()) -> Grid:
    """The grid over a spec file. Raises SpecErrors for specs and values that are wrong, each told once."""
    spec = load_spec(path, overrides)
    axes = {axis.path: axis for axis in read_axes(over)}
    refuse_endless(prod(len(axis.values) for axis in axes.values()))
    others = [axis for name, axis in axes.items() if name not in (SLICE, BATCH)]
    cases: list[Case] = []
    problems: dict[Diagnostic, None] = {}
    for combination in product(*(axis.values for axis in others)):
        chosen = tuple(zip((axis.path for axis in others), combination, strict=True))
        try:
            changed = changed_spec(path, overrides, axes, dict(chosen))
            cases += cases_of(spec, changed, axes, chosen)
        except SpecErrors as error:
            problems |= dict.fromkeys(error.diagnostics)
    if problems:
        raise SpecErrors(tuple(problems))
    grid = Grid(spec, varied(cases, others), tuple(cases))
    refuse_endless(grid.settings)
    return grid


def grid_of(spec: Spec, slices: Sequence[str], batches: tuple[int, ...]) -> Grid:
    """The grid of a spec over slices and batches, whatever its own pins say of the two."""
    cases = tuple(Case(with_pins(spec, {SLICE: each}), each, batches, (), own=True) for each in slices)
    return Grid(spec, varied(cases, ()), cases)


def refuse_endless(settings: int) -> None:
    """Refuse what would run for hours."""
    if settings > MOST_SETTINGS:
        raise CannotRun(f"the sweep has {settings} settings, above {MOST_SETTINGS}; leave out values of --over")


def changed_spec(path: Path, overrides: Sequence[str], axes: dict[str, Axis], values: dict[str, str]) -> Spec:
    """The spec with these values, and with every slice of the sweep allowed; errors name the `--over` they are from."""
    sources = {axes[name].override(value): f"--over {name}={value}" for name, value in values.items()}
    if SLICE in axes:
        listed = f"hardware.slices=[{','.join(axes[SLICE].values)}]", f'pins.slice="{axes[SLICE].values[0]}"'
        sources |= dict.fromkeys(listed, f"--over {axes[SLICE].text}")
    try:
        return load_spec(path, (*overrides, *sources))
    except SpecErrors as error:
        labels = {f"--set {override}": label for override, label in sources.items()}
        raise SpecErrors([relabelled(each, labels) for each in error.diagnostics]) from None


def relabelled(diagnostic: Diagnostic, labels: dict[str, str]) -> Diagnostic:
    """The diagnostic with its source as the user wrote it."""
    source = diagnostic.position.source
    return replace(diagnostic, position=replace(diagnostic.position, source=labels.get(source, source)))


def cases_of(spec: Spec, changed: Spec, axes: dict[str, Axis], others: tuple[tuple[str, str], ...]) -> Iterator[Case]:
    """The cases of one changed spec, a slice each."""
    slices = changed.hardware.slices if SLICE in axes else pinned_slices(changed)
    batches = batch_numbers(axes[BATCH]) if BATCH in axes else default_batches(changed)
    own = without_choices(changed) == without_choices(spec)
    for slice_ in slices:
        yield Case(with_pins(changed, {SLICE: slice_}), slice_, batches, others, own)


def default_batches(spec: Spec) -> tuple[int, ...]:
    """What may be chosen under any objective: the pinned batch, or steps up to the concurrency."""
    return batches_of(spec.model_copy(update={"objective": "cost"}))


def with_pins(spec: Spec, pins: dict[str, str | int]) -> Spec:
    """The spec with more pins."""
    return spec.model_copy(update={"pins": {**spec.pins, **pins}})


def without_choices(spec: Spec) -> Spec:
    """The spec with nothing said of slices and pins: what is left prices a layout."""
    hardware = spec.hardware.model_copy(update={"slices": ("",)})
    return spec.model_copy(update={"hardware": hardware, "pins": {}})


def varied(cases: Sequence[Case], others: Sequence[Axis]) -> dict[str, tuple[str | int, ...]]:
    """Every value of everything that is varied."""
    return {
        SLICE: tuple(dict.fromkeys(case.slice for case in cases)),
        BATCH: tuple(sorted({batch for case in cases for batch in case.batches})),
        **{axis.path: axis.values for axis in others},
    }
