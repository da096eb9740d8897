"""The collectives in the compiled steps are those the rule tables plan: kind, axes, bytes and number."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.plan.schema import Collective
from tests.package.harness import load
from tests.package.hlo import Key, collectives
from tests.package.test_rule_tables import CASES, INT8
from tests.render.plans import Case, generate_collectives, prefill_collectives


def planned(collectives: Iterable[Collective], case: Case) -> Counter[Key]:
    """Planned collectives, axes in mesh order."""
    found: Counter[Key] = Counter()
    for one in collectives:
        found[one.kind, tuple(axis for axis in case.mesh if axis in one.axes), one.bytes] += one.count
    return found


@pytest.mark.parametrize("case", [*CASES[3:], *INT8[:1]], ids=lambda case: case.name)
def test_compiled_steps_hold_the_planned_collectives_only(case: Case, tmp_path: Path) -> None:
    case = replace(case, buckets=(64,), model={**case.model, "layers": 3})
    package = load(case, tmp_path)
    config = package.module("config").MODEL
    generate = package.module("generate").lower_generate(config, package.mesh).compile().as_text()
    assert collectives(generate, case.mesh) == planned(generate_collectives(case), case)
    prefill = package.module("prefill").lower_prefill(config, package.mesh, 64).compile().as_text()
    assert collectives(prefill, case.mesh) == planned(prefill_collectives(case, 64), case)
