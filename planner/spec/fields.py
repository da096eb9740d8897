"""The keys a spec file may hold, read off the section classes."""

from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic.fields import FieldInfo

from planner.spec.base import Section
from planner.spec.model import Model
from planner.spec.pins import PINS
from planner.spec.schema import Hardware, Spec

# Keys that are read and then replaced: `config` by sizes, `slice` and `max_chips` by `slices`.
INPUT_KEYS: Mapping[type[Section], Mapping[str, str]] = {
    Model: {"config": "A Hugging Face config.json: a path beside the spec file, or the name of a bundled one."},
    Hardware: {
        "slice": "The one slice topology that may be used, such as 4x4.",
        "max_chips": "Any slice that the chip is sold in, with at most so many chips.",
    },
}


def fields(section: type[Section]) -> dict[str, tuple[str, FieldInfo]]:
    """YAML key -> attribute name and field."""
    return {info.alias or name: (name, info) for name, info in section.model_fields.items()}


def keys(section: type[Section]) -> tuple[str, ...]:
    """Every key that may be written in a section."""
    return (*INPUT_KEYS.get(section, {}), *fields(section))


def subsection(info: FieldInfo) -> type[Section] | None:
    """The section a field holds, or None for a plain value."""
    candidates = (info.annotation, *get_args(info.annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None)


def section_at(path: tuple[str | int, ...]) -> type[Section] | None:
    """The section at `path`, or None where there is none."""
    section: type[Section] | None = Spec
    for part in path:
        field = fields(section).get(str(part)) if section else None
        section = subsection(field[1]) if field else None
    return section


def addresses(section: type[Section] = Spec, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key that may be written, pins included."""
    for key in INPUT_KEYS.get(section, {}):
        yield (*prefix, key)
    for key, (_, info) in fields(section).items():
        yield (*prefix, key)
        if below := subsection(info):
            yield from addresses(below, (*prefix, key))
        elif (*prefix, key) == ("pins",):
            yield from (("pins", address) for address in PINS)
