"""YAML text -> values that remember where they were written."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

from planner.spec.diagnostic import Diagnostic, Position, SpecErrors, UnreadableSpec

Scalar = str | int | float | bool | None
KeyPath = tuple[str | int, ...]

# A spec has a few hundred nodes; aliases can multiply a small file into more than memory holds.
MAX_NODES = 20_000
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Node:
    """A value and its place: a scalar, a list, or a mapping of entries."""

    value: "Scalar | list[Node] | dict[str, Entry]"
    position: Position

    @property
    def plain(self) -> object:
        """The value without positions, as JSON would hold it."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain for item in self.value]
        return self.value

    @property
    def entries(self) -> "dict[str, Entry]":
        """The entries of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def get(self, *path: str) -> "Node | None":
        """The node at `path` below this one, if it is there."""
        node: Node | None = self
        for key in path:
            entry = node.entries.get(key) if node else None
            node = entry.node if entry else None
        return node

    def with_entry(self, key: str, entry: "Entry") -> "Node":
        """This mapping with `key` set to `entry`; a known key keeps its place."""
        return replace(self, value={**self.entries, key: entry})

    def without(self, *keys: str) -> "Node":
        """This mapping less `keys`."""
        return replace(self, value={key: entry for key, entry in self.entries.items() if key not in keys})


@dataclass(frozen=True)
class Entry:
    """A key of a mapping: where the key stands, and its value."""

    key: Position
    node: Node

    @property
    def place(self) -> Position:
        """The value's place, or the key's where the value is left empty."""
        return self.node.position if self.node.position.length else self.key


def locate(root: Node, path: KeyPath, *, key: bool = False) -> Position:
    """The place of the value at `path` (of its key with `key`), or of its nearest written ancestor's key."""
    node, place = root, root.position
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node.value, dict) and part in node.value:
            entry = node.value[str(part)]
            place = entry.place if last and not key else entry.key
            node = entry.node
        elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            place = node.position
        else:
            break
    return place


def dotted(path: KeyPath) -> str:
    """`("model", "layers")` -> `model.layers`; list positions in brackets."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UnreadableSpec([_whole_file(path, f"cannot read the file: {reason}")]) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        message = f"byte {error.start} (0x{byte:02x}, line {line}) is not UTF-8 text"
        raise UnreadableSpec([_whole_file(path, message)]) from None


def _whole_file(path: Path, message: str) -> Diagnostic:
    return Diagnostic("unreadable", message, "", Position(str(path)))


def parse(text: str, source: str) -> tuple[Node, tuple[Diagnostic, ...]]:
    """The document in `text`, with a diagnostic for each repeated key and each value a spec cannot hold.

    Raises SpecErrors when there is no document to speak of: a syntax error, or nothing at all.
    """
    builder = _Builder(source, text.splitlines())
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False
        root = yaml.compose(text)
    except (YAMLError, RecursionError, ValueError) as error:
        raise SpecErrors([builder.syntax_error(error)]) from None
    if root is None:
        raise SpecErrors([Diagnostic("empty", "the document is empty", "", builder.at(0, 0, 1))])
    try:
        return builder.build(root), tuple(builder.diagnostics)
    except RecursionError:
        raise SpecErrors([builder.syntax_error(RecursionError())]) from None


@dataclass
class _Builder:
    """Turns composed YAML nodes into ours, noting what is wrong on the way."""

    source: str
    lines: list[str]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    built: int = 0

    def at(self, line: int, column: int, length: int) -> Position:
        """The place at a line and column counted from 0."""
        text = self.lines[line] if line < len(self.lines) else ""
        return Position(self.source, line + 1, column + 1, length, text)

    def syntax_error(self, error: Exception) -> Diagnostic:
        """The parser's complaint in our form."""
        if isinstance(error, RecursionError):
            return Diagnostic("yaml", "the document is nested too deeply", "", self.at(0, 0, 1))
        if isinstance(error, ReaderError):
            before = "\n".join(self.lines)[: error.position]
            line = before.count("\n")
            column = len(before) - (before.rfind("\n") + 1)
            code = ord(error.character) if isinstance(error.character, str) else error.character
            return Diagnostic("yaml", f"character U+{code:04X} is not allowed", "", self.at(line, column, 1))
        if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
            mark = error.problem_mark
            context = f"{error.context}, " if error.context else ""
            line = min(mark.line, max(0, len(self.lines) - 1))
            column = mark.column if line == mark.line else len(self.lines[line])
            return Diagnostic("yaml", f"{context}{error.problem}", "", self.at(line, column, 1))
        return Diagnostic("yaml", str(error).splitlines()[0], "", self.at(0, 0, 1))

    def build(self, node: YamlNode) -> Node:
        """`node` and everything below it."""
        self.built += 1
        if self.built > MAX_NODES:
            raise SpecErrors(
                [Diagnostic("yaml", f"the document has more than {MAX_NODES} values", "", self.at(0, 0, 1))]
            )
        position = self.span(node)
        if not isinstance(node, ScalarNode) and str(node.tag) not in (f"{_TAG}map", f"{_TAG}seq"):
            self.report("yaml", f"tag {_short_tag(node)} means nothing in a spec", position)
        if isinstance(node, MappingNode):
            return Node(dict(self.entries(node)), position)
        if isinstance(node, SequenceNode):
            return Node([self.build(item) for item in node.value], position)
        assert isinstance(node, ScalarNode)
        return Node(self.scalar(node, position), position)

    def entries(self, node: MappingNode) -> Iterator[tuple[str, Entry]]:
        """The entries of a mapping; a repeated key is reported and its first value kept."""
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            place = self.span(key_node)
            if not isinstance(key_node, ScalarNode):
                self.report("yaml", "a key must be a word", place)
                continue
            key = without_surrogates(str(key_node.value))
            if key in seen:
                self.report("duplicate-key", f'key "{key}" is already set on line {seen[key]}', place)
                continue
            seen[key] = place.line or 0
            yield key, Entry(place, self.build(value_node))

    def scalar(self, node: ScalarNode, position: Position) -> Scalar:
        """The YAML 1.2 value of a scalar; dates stay text."""
        text = without_surrogates(str(node.value))
        kind = str(node.tag).removeprefix(_TAG)
        try:
            match kind:
                case "null":
                    return None
                case "bool":
                    return text.lower() in ("true", "yes", "on")
                case "int":
                    return int(text.replace("_", ""), 0 if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else 10)
                case "float":
                    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
                case "str" | "timestamp" | "merge" | "value":
                    return text
        except ValueError:
            self.report("yaml", f'"{_shortened(text)}" is not a number', position)
            return None
        self.report("yaml", f"tag {_short_tag(node)} means nothing in a spec", position)
        return text

    def span(self, node: YamlNode) -> Position:
        """Where a node is written; of several lines, the first."""
        start: StringMark = node.start_mark
        end: StringMark = node.end_mark
        if isinstance(node, ScalarNode) and not node.value and node.style is None:
            return self.at(start.line, start.column, 0)
        if end.line == start.line:
            return self.at(start.line, start.column, max(1, end.column - start.column))
        text = self.lines[start.line] if start.line < len(self.lines) else ""
        return self.at(start.line, start.column, max(1, len(text.rstrip()) - start.column))

    def report(self, rule: str, message: str, position: Position) -> None:
        """Note one diagnostic."""
        self.diagnostics.append(Diagnostic(rule, message, "", position))


def without_surrogates(text: str) -> str:
    """`text` with escaped surrogate pairs, as JSON writes characters beyond U+FFFF, made one character each.

    A half on its own is no character and becomes U+FFFD; neither could be printed or encoded.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _short_tag(node: YamlNode) -> str:
    """The tag of a node as a file writes it."""
    return str(node.tag).replace(_TAG, "!!")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
