"""A Hugging Face config.json, bundled or the user's own -> the sizes of a model section."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planner.spec.diagnostic import Diagnostic, Position, SpecErrors
from planner.spec.document import read_text
from planner.spec.hf_defaults import CLASS_DEFAULTS, TEXT_CLASSES, UNREAD
from planner.spec.hf_families import FAMILIES, Sizes
from planner.spec.hf_reader import ConfigReader, text_position
from planner.spec.nearest import nearest, nearest_few

BUNDLED = Path(__file__).parent / "models"


def bundled_models() -> tuple[str, ...]:
    """The names of the model shapes that come with shardwright."""
    return tuple(sorted(path.stem for path in BUNDLED.glob("*.json")))


def import_config(name: object, folder: Path, place: Position) -> tuple[Sizes, tuple[Diagnostic, ...]]:
    """The sizes in the config.json that `name` means, a path from `folder` or a bundled name, and its problems.

    `place` is where the spec names it. The sizes are empty when there are errors.
    """
    try:
        path, source = _find(name, folder, place)
        reader, family = _open(read_text(path), source)
    except SpecErrors as error:
        return {}, tuple(replace(diagnostic, path="model.config") for diagnostic in error.diagnostics)
    sizes = {"family": family, **FAMILIES[family](reader)}
    _warn_unread(reader)
    problems = tuple(dict.fromkeys(reader.problems))
    return ({} if any(p.severity == "error" for p in problems) else sizes), problems


def _find(name: object, folder: Path, place: Position) -> tuple[Path, str]:
    """The file that `name` means, and how messages call it."""
    if not isinstance(name, str) or not name:
        raise _failure("config", "model.config must be the name of a config.json", place)
    for path in (folder / name, folder / name / "config.json"):
        if os.path.isfile(path):  # unlike Path.is_file, no error for a name that no file can have
            return path, str(path)
    stem = name.removeprefix("hf_configs/").removesuffix(".json")
    if stem in bundled_models():
        return BUNDLED / f"{stem}.json", f"{stem}.json (bundled)"
    close = ", ".join(nearest_few(stem, bundled_models()))
    message = f'there is no file "{name}" beside the spec and no bundled model of that name'
    raise _failure("config", message, place, f"the nearest bundled names are {close}")


def _open(text: str, source: str) -> tuple[ConfigReader, str]:
    """A reader of the language model in a config.json, and its family."""
    data = _json(text, source)
    kind, nested = data.get("model_type"), data.get("text_config")
    fields, family = data, kind
    if isinstance(kind, str) and kind in TEXT_CLASSES:
        if not isinstance(nested, dict):
            raise _failure("config-field", f"text_config must be a mapping in a {kind} file", Position(source))
        fields, family = {**data, **nested}, TEXT_CLASSES[kind]
    reader = ConfigReader(source, text, fields, CLASS_DEFAULTS.get(str(family), {}))
    if not isinstance(family, str) or family not in FAMILIES:
        raise _unknown_family(reader, family)
    return reader, family


def _json(text: str, source: str) -> Mapping[str, object]:
    """The mapping that a JSON text holds."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise _failure("json", error.msg.lower(), text_position(source, text, error.pos)) from None
    except (RecursionError, ValueError) as error:
        raise _failure("json", str(error), text_position(source, text, 0)) from None
    if not isinstance(data, dict):
        raise _failure("json", "a config.json holds one mapping", text_position(source, text, 0))
    return data


def _unknown_family(reader: ConfigReader, family: object) -> SpecErrors:
    """What to say of a model_type that is absent or never heard of."""
    known = sorted({*FAMILIES, *TEXT_CLASSES})
    if family is None:
        reader.report("model_type", "model_type is missing")
    elif not isinstance(family, str):
        reader.wrong("model_type", "text", family)
    else:
        close = nearest(family, known)
        reader.report("model_type", f'model_type "{family}" is not known')
        if close:
            reader.problems[-1] = replace(reader.problems[-1], hint=f'did you mean "{close}"?')
    problem = reader.problems[-1]
    return SpecErrors([replace(problem, hint=problem.hint or f"known types: {', '.join(known)}")])


def _warn_unread(reader: ConfigReader) -> None:
    """A warning for each field that is neither read nor known to be without consequence."""
    for name in reader.written:
        if name not in reader.seen and name not in UNREAD and not name.startswith("_"):
            reader.report(name, f"{name} is not read; see that it changes neither sizes nor arithmetic", "warning")


def _failure(rule: str, message: str, place: Position, hint: str | None = None) -> SpecErrors:
    return SpecErrors([Diagnostic(rule, message, "model.config", place, hint)])
