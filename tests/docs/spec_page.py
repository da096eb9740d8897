"""The reference page of spec files, made from the classes that read them."""

from cost_models.chips import chips
from cost_models.stacks import step_stacks
from planner.spec import bundled_models, json_schema
from planner.spec.hf_families import FAMILIES
from planner.spec.pins import PINS, pin_problem
from tests.docs.schema_words import Schema, default_words, row, section_name, sections, type_words

INTRO = """# The spec file

Generated from the classes that read specs. `shardwright schema` prints the same as JSON schema, which editors use;
`shardwright check SPEC --resolved` prints a spec with every default filled in. An unknown key is an error.
"""
SHORT = {
    "hardware": "One of `slice`, `slices`, `max_chips` is required.",
    "model": "Either `config` is required, or every size without a default; what stands beside `config` wins.",
}


def spec_page() -> str:
    """The page as Markdown."""
    pages = [INTRO]
    for path, section in sections(json_schema()):
        pages.append(section_text(path, section))
    return "\n".join([*pages, pins_text(), names_text()])


def section_text(path: str, section: Schema) -> str:
    """A heading, a sentence, and a table of one section's keys."""
    parts = [f"## {path or 'The whole file'}", "", section["description"].replace("\n", " ")]
    parts += [SHORT[path]] if path in SHORT else []
    parts += ["", row("key", "value", "default", "is"), row(*["---"] * 4)]
    for key, field in section["properties"].items():
        below = f" [below](#{anchor(path, key)})" if type_words(field) == "section" else ""
        said = described(field).replace("\n", " ")
        parts.append(row(f"`{key}`", type_words(field) + below, default_of(path, key, field, section), said))
    return "\n".join([*parts, ""])


def described(field: Schema) -> str:
    """What a key is; a schema leaves out what its section says in the same words."""
    name = section_name(field)
    return str(field.get("description") or (json_schema()["$defs"][name]["description"] if name else ""))


def default_of(path: str, key: str, field: Schema, section: Schema) -> str:
    """The default; sizes of a model are taken from its config."""
    sizes = section["anyOf"][1]["required"] if path == "model" else ()
    return "from `config`" if key in sizes else default_words(key, field, section)


def anchor(path: str, key: str) -> str:
    """How Markdown names the heading of a section."""
    return f"{path}.{key}".lstrip(".").replace(".", "")


def pins_text() -> str:
    """The addresses that can be pinned, and with what."""
    parts = ["## Pins", "", "Choices that are already made: the plan is the best one with them.", ""]
    parts += [row("address", "value"), row("---", "---")]
    parts += [row(f"`{address}`", pin_words(address)) for address in PINS]
    return "\n".join([*parts, ""])


def pin_words(address: str) -> str:
    """What a pin may be, as the message to whoever writes something else tells it."""
    problem = pin_problem(address, None) or ""
    return problem.partition(" must be ")[2].rpartition(", not ")[0]


def names_text() -> str:
    """The names that a spec may use."""
    names = {
        "Bundled models (`model.config`)": bundled_models(),
        "Families (`model.family`)": tuple(FAMILIES),
        "Chips (`hardware.chip`)": tuple(chip.name for chip in chips()),
        "Software (`hardware.stack`)": tuple(stack.name for stack in step_stacks()),
    }
    lists = [f"**{what}**: {', '.join(f'`{name}`' for name in each)}.\n" for what, each in names.items()]
    return "\n".join(["## Names", "", *lists])
