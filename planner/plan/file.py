"""The plan file: canonical YAML out, a checked Plan in."""

import os
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from planner.errors import PlanFileError
from planner.plan.schema import FORMAT_VERSION, Plan

DIGITS = 6
Scalar = str | int | float | bool | None


def plan_to_yaml(plan: Plan) -> str:
    """The plan as its file: canonical order, six significant digits, one line for each small record."""
    yaml = YAML()
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = StringIO()
    yaml.dump(styled(plan.model_dump(mode="json", exclude_none=True)), stream)
    return stream.getvalue()


def styled(value: Any, depth: int = 0) -> Any:
    """Plain data with flow style for records and lists that hold only scalars and lists of scalars."""
    if isinstance(value, dict):
        mapping = CommentedMap({key: styled(item, depth + 1) for key, item in value.items()})
        if depth > 1 and all(is_flat(item) for item in value.values()):
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        sequence = CommentedSeq([styled(item, depth + 1) for item in value])
        if all(not isinstance(item, dict) for item in value):
            sequence.fa.set_flow_style()
        return sequence
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def is_flat(value: Any) -> bool:
    """Whether a value fits on the line of its record."""
    return not isinstance(value, dict) and not (isinstance(value, list) and any(isinstance(i, dict) for i in value))


def plan_from_yaml(text: str, source: str) -> Plan:
    """The plan in `text`; raises PlanFileError, which calls it `source`."""
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise PlanFileError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or "format_version" not in data:
        raise PlanFileError(
            f"{source}: not a plan: it has no format_version; `shardwright plan SPEC -o PLAN` writes one"
        )
    major = str(data["format_version"]).split(".")[0]
    if major != FORMAT_VERSION.split(".")[0]:
        raise PlanFileError(
            f"{source}: format_version {data['format_version']} is not {FORMAT_VERSION}; plan the spec again"
        )
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise PlanFileError(f"{source}: {where}: {first['msg']}{more}") from None


def read_plan(path: Path) -> Plan:
    """The plan in the file at `path`; raises PlanFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PlanFileError(f"{path}: cannot be read: {reason}") from None
    return plan_from_yaml(text, str(path))


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it: a failed write never loses the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
