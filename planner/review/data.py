"""A review as JSON. `format_version`: a minor version adds keys, which readers ignore; a major one breaks."""

import json
from typing import Any

from planner.diff.data import diff_to_json
from planner.review.schema import Review, Reviewed
from planner.review.words import summary, title

FORMAT_VERSION = "1.0"


def review_to_json(review: Review) -> str:
    """The review with the whole difference of each spec, as `diff --format json` writes it."""
    data = {
        "format_version": FORMAT_VERSION,
        "summary": f"{title(review)}.",
        "folder": review.folder,
        "base": review.base,
        "specs": review.specs,
        "reviewed": [spec_data(each) for each in review.reviewed],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def spec_data(each: Reviewed) -> dict[str, Any]:
    """One spec."""
    return {
        "spec": each.spec,
        "change": each.change,
        "verdict": each.verdict,
        "summary": f"{summary(each)}.",
        "stale": list(each.stale),
        "notes": list(each.notes),
        "error": each.error,
        "diff": None if each.diff is None or each.change == "new" else json.loads(diff_to_json(each.diff)),
    }
