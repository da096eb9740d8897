"""A spec file and overrides -> a Spec, or every diagnostic at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from planner.spec.diagnostic import Diagnostic, Position, SpecErrors, sort_diagnostics
from planner.spec.document import Node, parse, read_text
from planner.spec.expand import expand
from planner.spec.overrides import apply_overrides
from planner.spec.schema import Spec
from planner.spec.validate import validate


class Lines(Protocol):
    """Tells where the value at a path of the spec is set: `line 7`, `--set hardware.slice=2x2`, or "" for nowhere."""

    def __call__(self, *path: str) -> str: ...


def load_spec(path: Path, overrides: Sequence[str] = ()) -> Spec:
    """The resolved spec in the file at `path`, with each `path=value` of `overrides` set; raises SpecErrors."""
    return load_with_lines(path, overrides)[0]


def load_with_lines(path: Path, overrides: Sequence[str] = ()) -> tuple[Spec, Lines]:
    """As `load_spec`, with where each value of it is set."""
    return text_with_lines(read_text(path), str(path), path.parent, overrides)


def text_with_lines(text: str, source: str, folder: Path, overrides: Sequence[str] = ()) -> tuple[Spec, Lines]:
    """As `load_with_lines`, of a text that `source` names; a relative `model.config` is looked up from `folder`."""
    spec, diagnostics, root = _read(text, source, folder, overrides)
    if spec is None:
        raise SpecErrors(diagnostics)

    def lines(*address: str) -> str:
        *parents, last = address
        above = root.get(*parents)
        entry = above.entries.get(last) if above else None
        if entry is None:
            return ""
        return entry.place.source if entry.place.line is None else f"line {entry.place.line}"

    return spec, lines


def check_spec(path: Path, overrides: Sequence[str] = ()) -> tuple[Spec | None, tuple[Diagnostic, ...]]:
    """The spec at `path`, None when it has errors, and every error and warning, sorted. Raises UnreadableSpec."""
    return spec_from_text(read_text(path), str(path), path.parent, overrides)


def spec_from_text(
    text: str, source: str, folder: Path, overrides: Sequence[str] = ()
) -> tuple[Spec | None, tuple[Diagnostic, ...]]:
    """As `check_spec`, of a text that `source` names; a relative `model.config` is looked up from `folder`."""
    return _read(text, source, folder, overrides)[:2]


def _read(
    text: str, source: str, folder: Path, overrides: Sequence[str]
) -> tuple[Spec | None, tuple[Diagnostic, ...], Node]:
    """The spec, what is wrong with it, and its document with short forms written out."""
    try:
        root, problems = parse(text, source)
    except SpecErrors as error:
        return None, error.diagnostics, Node({}, Position(source))
    root, override_problems = apply_overrides(_rooted(root), overrides)
    root, short_form_problems, lacking = expand(root, folder)
    spec, value_problems = validate(root, lacking)
    found = sort_diagnostics([*problems, *short_form_problems, *value_problems, *override_problems])
    return (None if any(d.severity == "error" for d in found) else spec), found, root


def spec_from_data(data: Mapping[str, object]) -> Spec:
    """The spec a resolved mapping holds, such as the one in a plan file; raises pydantic's ValidationError."""
    return Spec.model_validate(data)


def _rooted(root: Node) -> Node:
    """The document with its own place at the top: the first line of it, not all of it."""
    return replace(root, position=replace(root.position, length=max(1, len(root.position.text.rstrip()))))
