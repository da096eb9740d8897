"""A package on several hosts: processes with some of the devices each, which load their own shards and agree."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.render import write_package
from tests.package.cases import CASES
from tests.package.harness import Package, load
from tests.render.plans import make_plan

CASE = next(case for case in CASES if case.name == "two_d_gathered")
COUNT_LOADED = """
import sys
import toy.__main__ as command
from toy.checkpoint import RandomCheckpoint

class Counting(RandomCheckpoint):
    values = 0
    def read(self, part, layer=None, rows=slice(None), columns=slice(None)):
        found = super().read(part, layer, rows, columns)
        Counting.values += found.size if part == "gate" else 0
        return found

command.RandomCheckpoint = Counting
command.start(command.parser().parse_args(sys.argv[1:]))
print("values", Counting.values, file=sys.stderr)
"""
APART = """
import os, runpy, sys

# The library that carries collectives between CPU processes writes to descriptor 1 itself, from several threads.
sys.stdout = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.getcwd())
if sys.argv[0] == "-m":
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hosts")
    write_package(make_plan(CASE), made / "toy")
    (made / "count.py").write_text(COUNT_LOADED)
    (made / "apart.py").write_text(APART)
    return made


def together(folder: Path, *arguments: str, asked: str = "") -> list[subprocess.CompletedProcess[str]]:
    """Two processes of four devices each that run the same command; `asked` is typed to the first of them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    joined = ("--devices", "cpu", "--coordinator", coordinator, "--processes", "2")
    started = [
        subprocess.Popen(
            [sys.executable, "apart.py", *arguments, *joined, "--process", str(process)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    ended = []
    for process, typed in zip(started, (asked, ""), strict=True):
        out, err = process.communicate(typed, timeout=300)
        ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return ended


def test_two_hosts_make_the_tokens_of_one(folder: Path) -> None:
    arguments = ("-m", "toy", "generate", "--tiny", "--prompt", "hello", "--ids", "--max-tokens", "6")
    alone = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    first, second = together(folder, *arguments)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == alone.stdout
    assert second.stdout == ""


def test_questions_reach_all_hosts(folder: Path) -> None:
    arguments = ("-m", "toy", "chat", "--tiny", "--max-tokens", "3")
    first, second = together(folder, *arguments, asked="hello\nand now é?\n")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert len(first.stdout.splitlines()) >= 2


def test_each_host_reads_its_own_shards_only(folder: Path) -> None:
    ended = together(folder, "count.py", "generate", "--tiny", "--prompt", "hello")
    assert [each.returncode for each in ended] == [0, 0], ended[0].stderr
    read = [int(values) for each in ended for values in re.findall(r"^values (\d+)$", each.stderr, re.MULTILINE)]
    assert read == [2 * 64 * 128 // 2] * 2  # layers * d_model * d_ff of the tiny model, in two halves


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return load(CASE, tmp_path_factory.mktemp("devices"))


def tpu(kind: str, *places: tuple[int, int], process: int = 0) -> list[Any]:
    """Devices as jax shows those of a TPU host."""
    return [SimpleNamespace(platform="tpu", device_kind=kind, coords=(*at, 0), process_index=process) for at in places]


def test_other_chips_and_scattered_hosts_are_refused(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    of_tpu = load(replace(CASE, name="of_tpu", chip="v5e"), tmp_path)
    devices, error = of_tpu.module("devices"), of_tpu.module("sharding").DeviceError
    with pytest.raises(error, match=r"the plan is for v5e chips, and this machine has TPU v4; --devices cpu runs"):
        devices._check_kind(tpu("TPU v4", (0, 0)))
    devices._check_kind(tpu("TPU v5 lite", (0, 0)))
    hosts = [(x, y) for x in (0, 1) for y in (0, 1)], [(x, y) for x in (0, 1) for y in (2, 3)]
    monkeypatch.setattr(devices.jax, "process_count", lambda: 2)
    devices._check_hosts(tpu("TPU v5 lite", *hosts[0]) + tpu("TPU v5 lite", *hosts[1], process=1))
    crossed = tpu("TPU v5 lite", (0, 0), (1, 3)) + tpu("TPU v5 lite", (1, 0), (0, 3), process=1)
    with pytest.raises(error, match=r"the chips of process 0 are no block of the slice: \[\(0, 0\), \(1, 3\)\]"):
        devices._check_hosts(crossed)
    idle = tpu("TPU v5 lite", *hosts[0], *hosts[1]) + tpu("TPU v5 lite", (6, 6), process=1)
    with pytest.raises(error, match=r"process 1 drives none of the 8 planned chips; run fewer processes"):
        devices._check_hosts(idle)


def test_processes_must_share_the_chips_evenly(folder: Path) -> None:
    command = [sys.executable, "-m", "toy", "generate", "--tiny", "--prompt", "x", "--processes", "3"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: 8 planned chips are not an equal number on each of 3 processes" in done.stderr
