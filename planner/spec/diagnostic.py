"""What is wrong with an input, where it stands, and how that is printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import east_asian_width

Severity = Literal["error", "warning"]

SNIPPET_WIDTH = 120


@dataclass(frozen=True)
class Position:
    """A stretch of one source line; lines and columns count from 1.

    `line` is None where the source has no lines: a `--set` override, or a file that cannot be read.
    """

    source: str
    line: int | None = None
    column: int = 1
    length: int = 1
    text: str = ""

    @property
    def place(self) -> str:
        """`file:line:col`, or the source alone."""
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One finding: the rule it breaks, the address in the spec, the place in its source, and the nearest fix."""

    rule: str
    message: str
    path: str
    position: Position
    hint: str | None = None
    severity: Severity = "error"

    @property
    def headline(self) -> str:
        """`file:line:col: message; hint [rule]`, on one line."""
        kind = "" if self.severity == "error" else f"{self.severity}: "
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{self.position.place}: {kind}{self.message}{hint} [{self.rule}]"


class SpecErrors(Exception):
    """A spec that cannot be used, with every diagnostic found in it."""

    exit_code = 1

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(format_diagnostics(self.diagnostics))


class UnreadableSpec(SpecErrors):
    """A spec file that could not be opened or is not text."""

    exit_code = 2


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics by source (files in order of first mention, then overrides), line and column, without repeats."""
    unique = tuple(dict.fromkeys(diagnostics))
    sources = {source: rank for rank, source in enumerate(dict.fromkeys(d.position.source for d in unique))}

    def order(diagnostic: Diagnostic) -> tuple[bool, int, int, int]:
        place = diagnostic.position
        return place.line is None, sources[place.source], place.line or 0, place.column

    return tuple(sorted(unique, key=order))


def format_diagnostics(diagnostics: Sequence[Diagnostic]) -> str:
    """The text a person reads: each headline over its source line, then the count; ends without a newline."""
    blocks = ["\n".join([diagnostic.headline, *_snippet(diagnostic.position)]) for diagnostic in diagnostics]
    return "\n".join([*blocks, _count(diagnostics)])


def diagnostics_to_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, object]]:
    """The diagnostics as JSON-ready objects, in the given order."""
    return [
        {
            "severity": diagnostic.severity,
            "rule": diagnostic.rule,
            "message": diagnostic.message,
            "hint": diagnostic.hint,
            "path": diagnostic.path,
            "source": diagnostic.position.source,
            "line": diagnostic.position.line,
            "column": None if diagnostic.position.line is None else diagnostic.position.column,
            "length": None if diagnostic.position.line is None else diagnostic.position.length,
        }
        for diagnostic in diagnostics
    ]


def _snippet(position: Position) -> list[str]:
    """The source line with its number, underlined; nothing for a source without lines."""
    if position.line is None:
        return []
    text, start = _clipped(position.text.replace("\t", " ").rstrip(), position.column - 1)
    before = _cells(text[:start])
    under = max(1, _cells(text[start : start + position.length]))
    gutter = " " * len(str(position.line))
    return [
        f"{gutter} |",
        f"{position.line} | {text}".rstrip(),
        f"{gutter} | {' ' * before}^{'~' * (under - 1)}",
    ]


def _clipped(text: str, start: int) -> tuple[str, int]:
    """A line of at most SNIPPET_WIDTH characters that shows what stands at `start`, and where it stands there."""
    first = max(0, start - SNIPPET_WIDTH // 2) if len(text) > SNIPPET_WIDTH else 0
    head = "..." if first else ""
    tail = "..." if len(text) > first + SNIPPET_WIDTH else ""
    return head + text[first : first + SNIPPET_WIDTH] + tail, start - first + len(head)


def _cells(text: str) -> int:
    """Terminal columns `text` takes: wide characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _count(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors`, `1 error, 1 warning`."""
    counts = {kind: sum(d.severity == kind for d in diagnostics) for kind in ("error", "warning")}
    parts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count]
    return ", ".join(parts) or "0 errors"


def shown(value: object) -> str:
    """A value as a message quotes it."""
    match value:
        case None:
            return "empty"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
        case dict():
            return "a mapping"
        case list() | tuple():
            short = len(value) <= 6 and all(isinstance(item, str | int | float) for item in value)
            return f"[{', '.join(str(item) for item in value)}]" if short else "a list"
    return str(value)
