"""Infeasible answers say where the spec sets what conflicts: a line, an override, or nothing for a plan's spec."""

from pathlib import Path

import pytest

from planner.errors import InfeasibleSpec
from planner.plan.make import make_plan
from planner.spec import load_with_lines, spec_from_data, spec_to_data
from tests.plans_of import SPECS

SPEC = (SPECS / "llama_3_1_70b_v5e_4x4.yaml").read_text(encoding="utf-8")


def told(folder: Path, text: str, *overrides: str) -> str:
    path = folder / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InfeasibleSpec) as caught:
        make_plan(*load_with_lines(path, overrides))
    return str(caught.value)


def line_of(text: str, words: str) -> int:
    return 1 + next(number for number, line in enumerate(text.splitlines()) if words in line)


def test_the_slice_and_the_limit_are_named_with_their_lines(tmp_path: Path):
    text = f"{SPEC}limits:\n  tpot: 1 ms\n"
    message = told(tmp_path, text)
    assert f"on v5e 4x4: hardware.slice (line {line_of(text, 'slice:')})" in message
    assert f"TPOT (limits.tpot, line {line_of(text, 'tpot:')}): the least possible is" in message


def test_an_override_is_named_as_it_was_given(tmp_path: Path):
    message = told(tmp_path, SPEC, "hardware.slice=2x2", "limits.ttft=1 ms", "hardware.reserve=0.5")
    assert "on v5e 2x2: hardware.slice (--set hardware.slice=2x2)" in message
    assert "less the reserve, --set hardware.reserve=0.5" in message or "limits.ttft, --set limits.ttft=1 ms" in message


def test_pins_are_named_with_their_lines(tmp_path: Path):
    text = f"{SPEC}pins:\n  generate.attention: 2d\n  generate.mlp: 1d\n"
    message = told(tmp_path, text)
    first, second = line_of(text, "generate.attention"), line_of(text, "generate.mlp")
    assert f"generate.attention: 2d (line {first}), generate.mlp: 1d (line {second})" in message


def test_a_spec_without_a_file_has_no_lines(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC, encoding="utf-8")
    spec, _ = load_with_lines(path, ["limits.tpot=1 ms"])
    with pytest.raises(InfeasibleSpec) as caught:
        make_plan(spec_from_data(spec_to_data(spec)))
    assert "line" not in str(caught.value).splitlines()[0]
    assert "TPOT (limits.tpot): the least possible" in str(caught.value)
