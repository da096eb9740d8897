"""A JSON schema in words: the type, the range and the default of each key, as reference pages print them."""

import json
from collections.abc import Iterator
from typing import Any

from planner.spec.base import LARGEST_COUNT

Schema = dict[str, Any]
TIME = "time: `30 ms`, or a number of seconds"


def sections(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Every section of a schema with its dotted path, the whole first, each before what is in it."""

    def below(path: str, section: Schema) -> Iterator[tuple[str, Schema]]:
        yield path, section
        for key, field in section["properties"].items():
            name = section_name(field)
            if name is not None:
                yield from below(f"{path}.{key}".lstrip("."), schema["$defs"][name])

    return below("", schema)


def section_name(field: Schema) -> str | None:
    """The section that a field holds, alone, in a list, by key or not at all; None for a plain value."""
    for each in alternatives(field):
        if "$ref" in each:
            return str(each["$ref"].rsplit("/", 1)[-1])
        for inner in (each.get("items"), each.get("additionalProperties")):
            if isinstance(inner, dict) and (name := section_name(inner)):
                return name
    return None


def alternatives(field: Schema) -> list[Schema]:
    """The kinds of values a field may have, but for none."""
    return [each for each in field.get("anyOf", [field]) if each.get("type") != "null"]


def type_words(field: Schema) -> str:
    """What may be written: `whole number from 1`, `a` or `b`, list of texts."""
    kinds = alternatives(field)
    if any("ms|us" in each.get("pattern", "") for each in kinds):
        kinds = [each for each in kinds if each.get("type") not in ("string", "number")]
        return " or ".join([TIME, *map(kind_words, kinds)])
    return " or ".join(dict.fromkeys(map(kind_words, kinds)))


def kind_words(kind: Schema) -> str:
    """One kind of value."""
    if "enum" in kind or "const" in kind:
        return ", ".join(f"`{value}`" for value in kind.get("enum", [kind.get("const")]))
    if "$ref" in kind:
        return "section"
    if kind.get("type") == "array":
        return array_words(kind)
    if kind.get("type") == "object":
        return object_words(kind)
    if kind.get("type") in ("integer", "number"):
        return number_words(kind)
    return {"string": "text", "boolean": "`true` or `false`"}.get(str(kind.get("type")), "any value")


def array_words(kind: Schema) -> str:
    """A list, or a tuple of fixed length."""
    return f"list of {type_words(kind['items'])}" if "items" in kind else "list"


def object_words(kind: Schema) -> str:
    """A mapping, by its keys where these are fixed."""
    if "properties" in kind:
        return f"`{{{', '.join(kind['properties'])}}}`"
    values = kind.get("additionalProperties")
    return f"mapping to {type_words(values)}" if isinstance(values, dict) else "mapping"


def number_words(kind: Schema) -> str:
    """A number with its range, where there is one."""
    word = "whole number" if kind["type"] == "integer" else "number"
    low, high = kind.get("minimum"), kind.get("maximum")
    if low is not None and low == high:
        return f"`{low}`"
    high = None if high == LARGEST_COUNT else high
    parts = [
        f"from {low}" if low is not None else "",
        f"above {kind['exclusiveMinimum']}" if "exclusiveMinimum" in kind else "",
        f"to {high}" if high is not None else "",
        f"below {kind['exclusiveMaximum']}" if "exclusiveMaximum" in kind else "",
    ]
    return " ".join([word, *filter(None, parts)])


def default_words(key: str, field: Schema, section: Schema) -> str:
    """What holds where a key is absent."""
    if key in section.get("required", ()):
        return "required"
    if "default" not in field or field["default"] is None or section_name(field):
        return "–"
    return f"`{json.dumps(field['default'])}`" if field["default"] not in ({}, []) else "none"


def row(*cells: str) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
