"""The command measures on two devices, prints both formats, and says what is missing. No time is asserted."""

import importlib.util
import io
import json
import subprocess

import pytest
from rich.console import Console

from planner import calibrate as part
from planner.calibrate import Calibration, Effort, calibrate, calibration_tables, calibration_to_json
from planner.calibrate.calibrate import calibration, run_measure
from planner.calibrate.fit import Sample
from planner.calibrate.measure import Measured, lines
from planner.commands import calibrate_command
from planner.errors import CannotRun

TINY = Effort(2, matmul_rows=16, matmul_width=16, read_bytes=65_536, collective_bytes=(64, 4096), chained=4, runs=2)
SAMPLES = tuple(
    Sample(kind, ways, size, 1e-5 * ways + size * 1e-9)
    for ways in (2, 4)
    for size in (256, 65_536)
    for kind in ("all_gather", "all_reduce", "all_to_all")
)
MEASURED = Measured(1e10, 2e9, 2e-4, SAMPLES, 1)


def printed(found: Calibration) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(calibration_tables(found))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_two_devices_are_measured() -> None:
    found = run_measure(TINY)
    assert found.flops_per_s > 0
    assert found.bytes_per_s > 0
    assert found.step_s > 0
    assert len(found.samples) + found.drowned == 6
    assert {sample.ways for sample in found.samples} == {2}


def test_the_tables_name_every_constant_beside_the_catalogue() -> None:
    text = printed(calibration(4, 2, MEASURED))
    for name in ("float32", "hbm_bytes_per_s", "ici_bytes_per_s", "ici_hop_s", "collective_launch_s", "step_s"):
        assert name in text
    assert "10 GFLOP/s  25 GFLOP/s" in text
    assert "noise drowned them: 1" in text
    assert text.count("all_reduce") == 4


def test_json_holds_samples_constants_and_sources() -> None:
    data = json.loads(calibration_to_json(calibration(4, 2, MEASURED)))
    assert data["format_version"] == "1.0"
    assert [each["name"] for each in data["constants"]][:2] == ["peak_flops_per_s.float32", "hbm_bytes_per_s"]
    assert all(each["source"] for each in data["constants"])
    assert len(data["collectives"]) == len(SAMPLES)


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_command_prints_what_was_measured(
    style: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(part, "calibrate", lambda effort: calibration(effort.devices, 2, MEASURED))
    assert calibrate_command(4, style) == 0
    shown = capsys.readouterr()
    assert "measuring on 4 virtual CPU devices" in shown.err
    assert ("catalogue" in shown.out) if style == "text" else json.loads(shown.out)


def test_without_jax_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotRun, match=r"pip install 'shardwright\[run\]'"):
        calibrate(TINY)


def test_a_failed_measurement_names_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*args: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "Traceback\nMemoryError: no room\n")

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(CannotRun, match="MemoryError: no room"):
        calibrate(TINY)


@pytest.mark.parametrize(("devices", "talking"), [(2, [2]), (6, [2, 4, 6]), (8, [2, 4, 8]), (32, [2, 4, 8, 16])])
def test_collectives_are_measured_over_lines_the_catalogue_has(devices: int, talking: list[int]) -> None:
    assert lines(devices) == talking
