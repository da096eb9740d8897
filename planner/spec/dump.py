"""A Spec -> YAML that loads to the same Spec; and the JSON schema of what may be written."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from planner.spec.fields import INPUT_KEYS
from planner.spec.model import Model
from planner.spec.pins import written
from planner.spec.schema import Hardware, Serving, Spec, Speculation, Workload


def spec_to_data(spec: Spec) -> dict[str, Any]:
    """The resolved spec as plain data in canonical order, as its file spells it; what is absent is left out."""
    data: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["limits"] = {key: f"{value!r} s" for key, value in data["limits"].items()}
    data["pins"] = {address: written(address, value) for address, value in sorted(spec.pins.items())}
    return {key: value for key, value in data.items() if value != {}}


def spec_to_yaml(spec: Spec) -> str:
    """The resolved spec as the text of a spec file."""
    yaml = YAML()
    yaml.width = 4096
    stream = StringIO()
    yaml.dump(_with_flow_lists(spec_to_data(spec)), stream)
    return stream.getvalue()


def json_schema() -> dict[str, Any]:
    """JSON schema of a spec file, for editors: what a user may write, short forms included."""
    schema = Spec.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for section, keys in INPUT_KEYS.items():
        short = {key: {"type": "string", "description": text} for key, text in keys.items()}
        definitions[section.__name__]["properties"] = {**short, **definitions[section.__name__]["properties"]}
    hardware, model = definitions[Hardware.__name__], definitions[Model.__name__]
    hardware["required"].remove("slices")
    hardware["properties"]["max_chips"]["type"] = "integer"
    hardware["oneOf"] = [{"required": [key]} for key in ("slice", "slices", "max_chips")]
    del hardware["properties"]["stack"]["default"]
    model["anyOf"] = [{"required": ["config"]}, {"required": model.pop("required")}]
    workload = definitions[Workload.__name__]
    del workload["properties"]["max_context"]["default"]
    workload["required"].remove("concurrency")
    workload["anyOf"] = [{"required": [key]} for key in ("concurrency", "requests_per_s")]
    written_s = {"type": "string", "pattern": r"^\s*[0-9.eE+-]+\s*(s|ms|us|min)?\s*$"}
    limits = schema["$defs"]["Limits"]["properties"]
    for name, limit in limits.items():
        limit["anyOf"].insert(0, written_s)
        if name in ("ttft", "tpot"):
            parts = {part: {"anyOf": [written_s, {"type": "number"}]} for part in ("mean", "p95")}
            limit["anyOf"].append({"type": "object", "properties": parts, "additionalProperties": False})
    drafting = definitions[Speculation.__name__]["properties"]["draft_step"]
    drafting["anyOf"] = [
        written_s,
        {"type": drafting.pop("type"), "exclusiveMinimum": drafting.pop("exclusiveMinimum")},
    ]
    chunks = [{"enum": ["auto", "off"]}, {"type": "integer", "minimum": 1}]
    definitions[Serving.__name__]["properties"]["chunked_prefill"] |= {"anyOf": chunks, "default": "off"}
    return schema


def _with_flow_lists(value: Any) -> Any:
    """`value` with its lists marked to be printed on one line."""
    if isinstance(value, dict):
        return {key: _with_flow_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        items = CommentedSeq(value)
        items.fa.set_flow_style()
        return items
    return value
