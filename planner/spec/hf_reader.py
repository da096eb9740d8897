"""The fields of one Hugging Face config.json, typed, with the defaults of its class and the place of each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.spec.diagnostic import Diagnostic, Position, Severity, shown


@dataclass
class ConfigReader:
    """Reads fields out of `written`, then of `defaults`; a bad field becomes a problem and a harmless stand-in."""

    source: str
    text: str
    written: Mapping[str, object]
    defaults: Mapping[str, object]
    problems: list[Diagnostic] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    section: str = ""

    def get(self, name: str) -> object:
        """The value of a field; None when it is null, or absent and without a default."""
        self.seen.add(name)
        return self.written[name] if name in self.written else self.defaults.get(name)

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self._or_default(name, default)
        if type(value) is int and value > 0:
            return value
        self.wrong(name, "a whole number above 0", value)
        return 1

    def natural(self, name: str, default: int | None = None) -> int:
        """A whole number, 0 included."""
        value = self._or_default(name, default)
        if type(value) is int and value >= 0:
            return value
        self.wrong(name, "a whole number", value)
        return 0

    def real(self, name: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self._or_default(name, default)
        if type(value) in (int, float) and isinstance(value, int | float) and 0 < value < float("inf"):
            return float(value)
        self.wrong(name, "a number above 0", value)
        return 1.0

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._or_default(name, default)
        if isinstance(value, bool):
            return value
        self.wrong(name, "true or false", value)
        return False

    def word(self, name: str, default: str | None = None) -> str:
        """Text."""
        value = self._or_default(name, default)
        if isinstance(value, str) and value:
            return value
        self.wrong(name, "text", value)
        return "unknown"

    def mapping(self, name: str) -> "ConfigReader | None":
        """A reader of a nested mapping, which shares the problems of this one; None when there is none."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, dict):
            return ConfigReader(self.source, self.text, value, {}, self.problems, section=name)
        self.wrong(name, "a mapping", value)
        return None

    def items(self, name: str) -> list[object]:
        """A list; empty when there is none."""
        value = self.get(name)
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(name, "a list", value)
        return []

    def wrong(self, name: str, wanted: str, value: object) -> None:
        """Note that a field is not what it has to be."""
        if value is None and name not in self.written:
            self.report(name, f"{self.section or 'the config'} lacks {name}, {wanted}")
        else:
            self.report(name, f"{name} must be {wanted}, not {'null' if value is None else shown(value)}")

    def report(self, name: str, message: str, severity: Severity = "error") -> None:
        """Note a problem at the place of a field."""
        diagnostic = Diagnostic("config-field", message, "model.config", self.place(name), severity=severity)
        self.problems.append(diagnostic)

    def place(self, name: str) -> Position:
        """Where the file writes a field, or its section: at the last mention, where nested sizes stand."""
        mentions = list(re.finditer(rf'"{re.escape(name)}"(?=\s*:)', self.text))
        if mentions:
            return text_position(self.source, self.text, mentions[-1].start(), len(name) + 2)
        return self.place(self.section) if self.section not in ("", name) else Position(self.source)

    def _or_default(self, name: str, default: object) -> object:
        value = self.get(name)
        return default if value is None else value


def text_position(source: str, text: str, offset: int, length: int = 1) -> Position:
    """The place `offset` characters into a text."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start:] if end < 0 else text[start:end]
    return Position(source, text.count("\n", 0, offset) + 1, offset - start + 1, length, line)
