"""A document -> a Spec, or every reason why it is none."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from planner.spec.base import Section
from planner.spec.diagnostic import Diagnostic, shown
from planner.spec.document import KeyPath, Node, dotted, locate
from planner.spec.fields import addresses, fields, keys, section_at, subsection
from planner.spec.finding import Finding, Rule, rule_name
from planner.spec.nearest import nearest
from planner.spec.rules import RULES
from planner.spec.schema import Spec

S = TypeVar("S", bound=Section)


def validate(root: Node, unknown: Iterable[KeyPath] = ()) -> tuple[Spec | None, tuple[Diagnostic, ...]]:
    """The spec in `root` and what is wrong with it; the spec is None when something is.

    Nothing is said about values missing below a path in `unknown`: why they are missing has been reported.
    """
    data = root.plain
    skipped = set(unknown)
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        found = _translate(root, details, skipped)
        invalid = {_known_part(path) for path in _invalid(root, details)}
        partial = _construct(Spec, data, (), invalid)
        return None, (*found, *_broken_rules(root, partial, complete=False))
    found = _broken_rules(root, spec, complete=True)
    return (None if found else spec), found


def is_consistent(spec: Spec) -> bool:
    """Whether a spec whose fields are valid keeps every rule across them."""
    return not any(finding for rule in RULES for finding in rule(spec))


def _broken_rules(root: Node, spec: Spec, *, complete: bool) -> tuple[Diagnostic, ...]:
    """A diagnostic for everything the rules find."""
    return tuple(diagnostic for rule in RULES for diagnostic in _broken_rule(root, spec, rule, complete=complete))


def _broken_rule(root: Node, spec: Spec, rule: Rule, *, complete: bool) -> tuple[Diagnostic, ...]:
    """A diagnostic for everything one rule finds, up to the first invalid field that it reads."""
    findings: list[Finding] = []
    try:
        findings.extend(rule(spec))
    except AttributeError:  # an invalid field is absent
        if complete:
            raise
    return tuple(
        Diagnostic(rule_name(rule), f.message, dotted(f.path), locate(root, f.path, key=f.on_key), f.hint)
        for f in findings
    )


def _construct(section: type[S], data: Any, path: KeyPath, invalid: set[KeyPath]) -> S:
    """A section that holds its valid fields only; reading another one raises AttributeError.

    `invalid` holds paths as `_known_part` gives them.
    """
    values: dict[str, Any] = {}
    absent: list[str] = []
    given = section.filled(data) if isinstance(data, dict) else {}
    for key, (name, info) in fields(section).items():
        here = (*path, key)
        below = subsection(info)
        if here in invalid:
            absent.append(name)
        elif below and isinstance(given.get(key), dict):
            values[name] = _construct(below, given[key], here, invalid)
        elif key in given:
            adapter: TypeAdapter[object] = TypeAdapter(_annotated(info))
            values[name] = adapter.validate_python(given[key])
    partial = section.model_construct(None, **values)
    for name in absent:
        partial.__dict__.pop(name, None)
    return partial


def _invalid(root: Node, details: list[ErrorDetails]) -> Iterator[KeyPath]:
    """The paths whose values cannot be relied on; of an unknown key, the one it was probably meant to be."""
    for detail in details:
        path = tuple(detail["loc"])
        if detail["type"] != "extra_forbidden":
            yield path
        elif meant := _meant_key(root, path):
            yield (*path[:-1], meant)


def _annotated(info: FieldInfo) -> Any:
    """The type of a field with its constraints."""
    return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation


def _known_part(loc: KeyPath) -> KeyPath:
    """The path of an error as far as the sections know it: an entry of a list or of pins counts as the whole."""
    for length in range(len(loc), 0, -1):
        parent = section_at(loc[: length - 1])
        if parent is not None and loc[length - 1] in keys(parent):
            return loc[:length]
    return loc


def _translate(root: Node, details: list[ErrorDetails], skipped: set[KeyPath]) -> tuple[Diagnostic, ...]:
    """Our diagnostics for pydantic's errors: a mistyped key takes the matching missing one with it."""
    found: list[Diagnostic] = []
    missing: dict[KeyPath, list[str]] = {}
    for detail in details:
        if detail["type"] == "missing" and tuple(detail["loc"][:-1]) not in skipped:
            missing.setdefault(tuple(detail["loc"][:-1]), []).append(str(detail["loc"][-1]))
    for detail in details:
        path = tuple(detail["loc"])
        if detail["type"] == "extra_forbidden":
            diagnostic, meant = _unknown_key(root, path)
            found.append(diagnostic)
            if meant in (lacking := missing.get(path[:-1], [])):
                lacking.remove(meant)
        elif detail["type"] != "missing":
            found.append(_bad_value(root, path, detail))
    found.extend(_missing_keys(root, path, lacking) for path, lacking in missing.items() if lacking)
    return tuple(found)


def _unknown_key(root: Node, path: KeyPath) -> tuple[Diagnostic, str]:
    """The diagnostic for a key nobody knows, and the key it was probably meant to be."""
    section = section_at(path[:-1]) or Spec
    key, where = str(path[-1]), dotted(path[:-1]) or "the spec"
    meant = _meant_key(root, path)
    elsewhere = next((dotted(a) for a in addresses() if a[-1] == key), None)
    if meant:
        hint = f'did you mean "{meant}"?'
    elif elsewhere:
        hint = f"did you mean {elsewhere}?"
    else:
        hint = f"known keys: {', '.join(keys(section))}"
    place = locate(root, path, key=True)
    return Diagnostic("unknown-key", f'unknown key "{key}" in {where}', dotted(path), place, hint), meant or ""


def _meant_key(root: Node, path: KeyPath) -> str | None:
    """The key that an unknown one was probably meant to be, rather one that its section does not have yet."""
    section, written = section_at(path[:-1]) or Spec, root.get(*map(str, path[:-1]))
    free = [known for known in keys(section) if written is None or known not in written.entries]
    return nearest(str(path[-1]), free) or nearest(str(path[-1]), keys(section))


def _missing_keys(root: Node, path: KeyPath, lacking: list[str]) -> Diagnostic:
    """One diagnostic for all the keys a section lacks."""
    where = dotted(path) or "the spec"
    names = ", ".join(f'"{key}"' for key in lacking)
    hint = None
    if path == ("model",):
        hint = "give them, or name a config.json with config"
    elif path == ("hardware",) and "slices" in lacking:
        hint = "write slice: 4x4 or slices: [4x4, 4x8]"
    plural = "keys" if len(lacking) > 1 else "key"
    return Diagnostic(
        "missing-key", f"{where} lacks the {plural} {names}", dotted(path), locate(root, path, key=True), hint
    )


def _bad_value(root: Node, path: KeyPath, detail: ErrorDetails) -> Diagnostic:
    """The diagnostic for a value of the wrong type, out of range, or not among the choices."""
    rule, demand, hint = _demand(detail)
    return Diagnostic(rule, f"{dotted(path) or 'the spec'} {demand}", dotted(path), locate(root, path), hint)


def _demand(detail: ErrorDetails) -> tuple[str, str, str | None]:
    """Rule, what the field demands against what it got, and a fix."""
    value, context = detail["input"], detail.get("ctx", {})
    got = shown(value)
    match detail["type"]:
        case "int_type" | "int_from_float" | "int_parsing":
            return "type", f"must be a whole number, not {got}", None
        case "float_type" | "float_parsing" | "finite_number":
            return "type", f"must be a number, not {got}", None
        case "bool_type":
            return "type", f"must be true or false, not {got}", None
        case "string_type":
            return "type", f"must be text, not {got}", f'write "{value}" in quotes' if isinstance(value, int) else None
        case "tuple_type" | "list_type":
            return "type", f"must be a list, not {got}", None
        case "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            return "type", f"must be a mapping, not {got}", None
        case "literal_error":
            return "choice", *_choice(value, str(context["expected"]))
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return "range", f"must be {_BOUNDS[detail['type']]} {next(iter(context.values())):g}, not {got}", None
        case "too_short" | "string_too_short":
            return "range", "must not be empty", None
        case "string_pattern_mismatch":
            return "name", f"cannot be {got}", "use letters, digits, dots, dashes and underscores"
        case kind:
            return kind, str(context.get("problem", detail["msg"])), context.get("hint")


_BOUNDS = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}


# Other names of a dtype that are common elsewhere.
SPELLINGS = {"bfloat16": "bf16", "fp32": "float32", "f32": "float32", "float": "float32", "i8": "int8", "s8": "int8"}


def _choice(value: object, expected: str) -> tuple[str, str | None]:
    """The demand of a field with named choices, and the nearest of them."""
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    close = SPELLINGS.get(value) or nearest(value, choices) if isinstance(value, str) else None
    wanted = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    return f"must be {wanted}, not {shown(value)}", f'did you mean "{close}"?' if close in choices else None
