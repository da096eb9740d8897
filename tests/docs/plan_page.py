"""The reference page of plan files, made from the classes that write them."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from planner.plan import records, schema
from planner.plan.schema import FORMAT_VERSION, Plan
from tests.docs.schema_words import Schema, default_words, row, section_name, type_words

INTRO = f"""# The plan file

Generated from the classes that write plans, in the order of the file. This is format {FORMAT_VERSION}. Sizes are
bytes, times are seconds. An unknown key is an error; what is optional and absent is left out. `spec` is the resolved
spec, see [the spec file](spec.md). A plan is not edited: change the spec and plan again.
"""
UNITS = (
    ("money_per_million_tokens", "money"),
    ("chip_seconds_per_million_tokens", "chip-seconds"),
    ("tokens_per_s", "tokens/s"),
    ("requests_per_s", "requests/s"),
    ("tokens_per_step", "tokens"),
    ("bytes_per_chip", "bytes"),
    ("_bytes", "bytes"),
    ("bytes", "bytes"),
    ("_s", "s"),
    ("seconds", "s"),
    ("_tokens", "tokens"),
    ("tokens", "tokens"),
    ("utilization", "part of one"),
)
OTHER_UNITS = {
    "Prefill.chunk": "tokens",
    "Prefill.buckets": "tokens",
    "Generate.context": "tokens",
    "Speculation.acceptance": "part of one",
    "Near.within": "part of one",
    "RunnerUp.objective_ratio": "ratio",
    "Proof.value": "ns",
    "Proof.bound": "ns",
}


def plan_page() -> str:
    """The page as Markdown."""
    whole = Plan.model_json_schema()
    classes = {"Plan": whole, **whole["$defs"]}
    order = dict(places("Plan", classes))
    return "\n".join([INTRO, *(class_text(name, paths, classes[name]) for name, paths in order.items())])


def places(name: str, classes: dict[str, Schema]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every class of a plan with the paths where it stands, in the order of the file."""
    found: dict[str, list[str]] = {}

    def visit(name: str, path: str) -> None:
        found.setdefault(name, []).append(path)
        for key, field in classes[name]["properties"].items():
            for inner in section_names(field):
                visit(inner, f"{path}.{key}".lstrip("."))

    visit(name, "")
    yield from ((name, tuple(paths)) for name, paths in found.items())


def section_names(field: Schema) -> tuple[str, ...]:
    """The classes that a field may hold."""
    found = (section_name(each) for each in field.get("anyOf", [field]))
    return tuple(name for name in found if name is not None)


def class_text(name: str, paths: tuple[str, ...], section: Schema) -> str:
    """A heading, where it stands, what it is, and a table of its keys."""
    parts = [f"## {name}", ""]
    parts += [f"At {', '.join(f'`{path}`' for path in paths)}.", ""] if paths != ("",) else []
    parts += [" ".join(str(section.get("description", "")).split()), ""]
    parts += [row("key", "value", "unit", "default", "is"), row(*["---"] * 5)]
    for key, field in section["properties"].items():
        inner = ", ".join(f"[{each}](#{each.lower()})" for each in section_names(field))
        words = type_words(field).replace("section or section", "section").replace("section", inner)
        parts.append(row(f"`{key}`", words, unit(name, key), default_words(key, field, section), said(name, key)))
    return "\n".join([*parts, ""])


def unit(name: str, key: str) -> str:
    """The unit of a number, by its name."""
    if f"{name}.{key}" in OTHER_UNITS:
        return OTHER_UNITS[f"{name}.{key}"]
    if name == "Hbm":
        return "bytes"
    if name.endswith("Rules"):
        return ""
    return next((unit for ending, unit in UNITS if key.endswith(ending)), "")


def said(name: str, key: str) -> str:
    """What stands below a field in the source; empty where the class's own text says it."""
    return docstrings(schema).get((name, key)) or docstrings(records).get((name, key), "")


@cache
def docstrings(module: ModuleType) -> dict[tuple[str, str], str]:
    """(class, field) -> the text below the field."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            for field, text in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    found[node.name, ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found
