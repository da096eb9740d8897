"""The published JSON schema describes every difference that is written, and knows every key of it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planner.commands import schema_command
from tests.diff.test_cases import FOLDERS
from tests.golden import Golden

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan-diff.schema.json"


def strict(schema: Any) -> Any:
    """The schema with every object closed: what a record does not list is an error."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {key: strict(item) for key, item in schema.items()} | closed
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def test_the_published_schema_is_that_of_the_command(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema_command("diff") == 0
    golden(PUBLISHED, capsys.readouterr().out)


@pytest.mark.parametrize("case", FOLDERS)
def test_every_review_validates(case: Path) -> None:
    schema = strict(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads((case / "diff.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)


@pytest.mark.parametrize("key", ["summary", "numbers", "decisions", "policy", "infeasible"])
def test_a_review_that_lacks_a_key_does_not_validate(key: str) -> None:
    schema = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    data = json.loads((FOLDERS[0].values[0] / "diff.json").read_text(encoding="utf-8"))  # type: ignore[operator]
    del data[key]
    with pytest.raises(jsonschema.ValidationError, match=key):
        jsonschema.Draft202012Validator(schema).validate(data)
