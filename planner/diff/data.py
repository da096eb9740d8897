"""A difference as JSON.

`format_version`: a minor version adds keys, which readers ignore; a major one breaks, and readers refuse it.
"""

import json
from typing import Any

from planner.diff.schema import FORMAT_VERSION, Number, PlanDiff
from planner.diff.words import NO_CHANGES, consequence, headline
from planner.errors import ShardwrightError


def diff_to_json(diff: PlanDiff) -> str:
    """The difference with its sentences, and each number's change and percent."""
    data = diff.model_dump(mode="json")
    summary = [f"{headline(diff)}.", consequence(diff)] if diff.changes else [NO_CHANGES]
    numbers = [number_data(number) for number in diff.numbers]
    ordered = {"format_version": data.pop("format_version"), "summary": summary, **data, "numbers": numbers}
    return json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"


def number_data(number: Number) -> dict[str, Any]:
    """A number with what follows from it."""
    return {**number.model_dump(mode="json"), "change": number.change, "percent": number.percent}


def diff_from_json(text: str) -> PlanDiff:
    """The difference that `diff_to_json` wrote; refuses another major version."""
    data = json.loads(text)
    found = str(data.get("format_version", "none"))
    if found.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise ShardwrightError(f"a plan diff of format_version {found}; this reads {FORMAT_VERSION}")
    return PlanDiff.model_validate(data)
