"""`--over`: what it spells, what it defaults to, and how its mistakes are told."""

import re
from pathlib import Path

import pytest

from planner.errors import CannotRun
from planner.spec import SpecErrors, load_spec
from planner.sweep.grid import read_grid
from planner.sweep.over import split_values
from tests.plans_of import SPECS

SMOLLM2 = SPECS / "smollm2_135m_cpu8.yaml"
L70B = SPECS / "llama_3_1_70b_v5e_4x4.yaml"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2x4,4x4", ["2x4", "4x4"]),
        (" 1 , 2", ["1", "2"]),
        ("[x, y],none", ["[x, y]", "none"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_values_stand_between_commas_outside_brackets(text: str, values: list[str]):
    assert list(split_values(text)) == values


def test_by_default_the_slices_of_the_spec_and_every_batch_that_plan_tries_are_varied():
    grid = read_grid(SMOLLM2, ["hardware.slices=[2x2, 2x4]"])
    assert grid.over == {"slice": ("2x2", "2x4"), "generate.batch": (1, 2, 3, 4, 6, 8)}
    assert grid.settings == 12
    assert all(case.own for case in grid.cases)
    assert read_grid(SMOLLM2, ["objective=latency"]).over["generate.batch"] == (1, 2, 3, 4, 6, 8)


def test_pins_of_the_spec_hold_unless_they_are_varied():
    pinned = ["hardware.slices=[2x2, 2x4]", "pins.slice=2x2", "pins.generate.batch=3"]
    assert read_grid(SMOLLM2, pinned).over == {"slice": ("2x2",), "generate.batch": (3,)}
    varied = read_grid(SMOLLM2, pinned, ["slice=2x4,1x2", "generate.batch=2"])
    assert varied.over == {"slice": ("2x4", "1x2"), "generate.batch": (2,)}


@pytest.mark.parametrize(
    ("text", "batches"),
    [("1..8", (1, 2, 3, 4, 6, 8)), ("5,5,2", (2, 5)), ("10..40,1", (1, 10, 12, 16, 24, 32, 40)), ("7..7", (7,))],
)
def test_batches_are_numbers_and_ranges_beyond_the_concurrency_too(text: str, batches: tuple[int, ...]):
    assert read_grid(SMOLLM2, (), [f"generate.batch={text}"]).over["generate.batch"] == batches


def test_settings_are_specs_that_plan_would_read():
    grid = read_grid(L70B, (), ["slice=2x4,4x4", "model.weights.dtype=bf16,int8"])
    assert [case.own for case in grid.cases] == [False, False, True, True]
    for case in grid.cases:
        changes = [
            "hardware.slices=[2x4,4x4]",
            f"model.weights.dtype={dict(case.others)['model.weights.dtype']}",
            f"pins.slice={case.slice}",
            "pins.generate.batch=6",
        ]
        assert case.pinned(6) == load_spec(L70B, changes)
        assert case.values(6) == {
            "slice": case.slice,
            "generate.batch": 6,
            "model.weights.dtype": case.spec.model.weights.dtype,
        }


def test_slices_may_be_numbers_and_pins_may_be_varied():
    grid = read_grid(SMOLLM2, ["hardware.chip=h100", "hardware.slice=8"], ["slice=4,8", "generate.q_heads=[x],none"])
    assert [(case.slice, case.spec.pins["generate.q_heads"]) for case in grid.cases] == [
        ("4", ("x",)), ("8", ("x",)), ("4", ()), ("8", ()),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (
            ["slice=4x5,4x4"],
            "--over slice=4x5,4x4: slice 4x5 is not a v5e slice; nearest are 4x4 and 4x8 [slice-shape]",
        ),
        (["generate.batch=1,x"], '--over generate.batch=1,x: generate.batch must be whole numbers above 0 .* not "x"'),
        (["generate.batch=8..2"], 'not "8..2"'),
        (["generate.batch=0"], 'not "0"'),
        (["model.weights.dtype=int8,int7"], '--over model.weights.dtype=int7: .*did you mean "int8"'),
        (["model.weight.dtype=int8"], 'the spec has no "model.weight.dtype"; did you mean "model.weights.dtype"'),
        (["slice"], "not of the form path=value,value"),
        (["slice=4x4,"], "not of the form path=value,value"),
        (["slice=4x4", "hardware.slice=2x4"], "slice is given twice"),
    ],
    ids=str,
)
def test_mistakes_name_the_over_they_are_in(over: list[str], words: str):
    with pytest.raises(SpecErrors) as caught:
        read_grid(L70B, (), over)
    pattern = words if ".*" in words else re.escape(words)
    assert re.search(pattern, str(caught.value))
    assert "--set" not in str(caught.value)


def test_mistakes_are_told_once_and_all_together():
    with pytest.raises(SpecErrors) as caught:
        read_grid(L70B, (), ["model.weights.dtype=int7,int6", "slice=4x5,4x6"])
    assert len(caught.value.diagnostics) == 4


def test_an_endless_grid_is_refused(tmp_path: Path):
    reserves = ",".join(f"{0.001 * step:.3f}" for step in range(1, 100))
    contexts = ",".join(str(2048 + step) for step in range(400))
    with pytest.raises(CannotRun, match="leave out values of --over"):
        read_grid(L70B, (), [f"hardware.reserve={reserves}", f"workload.max_context={contexts}"])
