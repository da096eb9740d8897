"""Explanations as text and as JSON."""

import json

from planner.explain.explanation import Explanation

FORMAT_VERSION = "1.0"


def explanations_to_text(found: list[Explanation]) -> str:
    """Each address, and its sentences below it."""
    blocks = ["\n".join([each.address, *(f"  {sentence}" for sentence in each.sentences)]) for each in found]
    return "\n".join(blocks) + "\n"


def explanations_to_json(found: list[Explanation]) -> str:
    """The same with the numbers behind the sentences, in base units."""
    listed = [{"address": each.address, "sentences": list(each.sentences), "numbers": each.numbers} for each in found]
    return json.dumps({"format_version": FORMAT_VERSION, "explanations": listed}, indent=2, ensure_ascii=False) + "\n"
