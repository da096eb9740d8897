"""Packages into whose source a fault is written before `verify` compiles them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from planner.plan.schema import Plan
from planner.render import write_package
from planner.verify import Audit, build, package, verify_plan
from planner.verify.build import Step, Target


class Edit(NamedTuple):
    """A text that is replaced where it first stands in a file of a package."""

    file: str
    old: str
    new: str


def verified(
    plan: Plan, edits: Sequence[Edit], step: Step, monkeypatch: pytest.MonkeyPatch, target: Target = "tpu"
) -> Audit:
    """What `verify` says of one step of a plan's package after the edits."""

    def write_edited(plan: Plan, folder: Path) -> None:
        write_package(plan, folder)
        for edit in edits:
            text = (folder / edit.file).read_text(encoding="utf-8")
            assert edit.old in text, edit
            (folder / edit.file).write_text(text.replace(edit.old, edit.new, 1), encoding="utf-8")

    monkeypatch.setattr(package, "write_package", write_edited)
    monkeypatch.setattr(build, "steps_of", lambda *_: [step])
    return verify_plan(plan, target)
