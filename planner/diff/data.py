"""A difference as JSON.

`format_version`: a minor version adds keys, which readers ignore; a major one breaks, and readers refuse it.
"""

import json
from typing import Any

from pydantic import Field

from planner.diff.schema import FORMAT_VERSION, Number, PlanDiff
from planner.diff.sentences import better_and_worse, headline, policy_sentence, why
from planner.errors import ShardwrightError


class Document(PlanDiff):
    """The difference of two plans, as `shardwright diff --format json` writes it."""

    summary: tuple[str, ...] = Field(description="What matters, in sentences; the first is the headline.")


def diff_to_json(diff: PlanDiff) -> str:
    """The difference with its sentences, and each number's change and percent."""
    data = diff.model_dump(mode="json")
    told = [f"{headline(diff)}.", policy_sentence(diff), *better_and_worse(diff), why(diff)]
    ordered = {"format_version": data.pop("format_version"), "summary": [each for each in told if each], **data}
    return json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON schema of what `diff_to_json` writes."""
    return Document.model_json_schema(mode="serialization")


def number_data(number: Number) -> dict[str, Any]:
    """A number with what follows from it."""
    return number.model_dump(mode="json")


def diff_from_json(text: str) -> PlanDiff:
    """The difference that `diff_to_json` wrote; refuses another major version."""
    data = json.loads(text)
    found = str(data.get("format_version", "none"))
    if found.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise ShardwrightError(f"a plan diff of format_version {found}; this reads {FORMAT_VERSION}")
    return PlanDiff.model_validate(data)
