"""Every block of the documents is run again: files are written, commands executed in order, outputs compared.

A line `...` in an output stands for any lines. `pytest --update-golden` rewrites the outputs without such a line.
Servers that a document starts listen on a free port in place of its 8000, and end with the document.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "```console\n" in path.read_text(encoding="utf-8")
)
PORT = re.compile(r"\b8000\b")
BLOCK = re.compile(r"```(?P<kind>console|\w+ file=(?P<name>\S+))\n(?P<body>.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def environment(folder: Path) -> dict[str, str]:
    """`shardwright` and `python` on the path are those of this checkout and environment."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name, arguments in (("shardwright", "-m planner"), ("python", "")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


@dataclass(frozen=True)
class Shell:
    """Where commands run; those that stay behind in process groups, which `groups` names."""

    folder: Path
    variables: dict[str, str]
    groups: list[int]

    def run(self, command: str) -> str:
        """What a command prints, without blanks at ends of lines."""
        words = ["bash", "-c", f"{{ {command}\n}} 2>&1"]
        started = subprocess.Popen(
            words, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, start_new_session=True
        )
        if " &" in command.replace("&&", ""):
            self.groups.append(started.pid)
        printed, _ = started.communicate()
        return "".join(line.rstrip() + "\n" for line in printed.decode().splitlines())


@contextmanager
def shell(folder: Path, variables: dict[str, str]) -> Iterator[Shell]:
    """Runs commands, and ends what they leave running."""
    ran = Shell(folder, variables, [])
    try:
        yield ran
    finally:
        for group in ran.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def free_port() -> str:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def matches(expected: str, actual: str) -> bool:
    """Whether an output is what the document shows, `...` standing for any lines."""
    pattern = re.escape(expected).replace(re.escape("...\n"), "(?:.*\n)*?")
    return re.fullmatch(pattern, actual) is not None


def steps(text: str, folder: Path) -> Iterator[re.Match[str]]:
    """The commands of a document with their outputs, in order; files that come before one are written before it."""
    for block in BLOCK.finditer(text):
        if block["name"]:
            (folder / block["name"]).write_text(block["body"], encoding="utf-8")
        else:
            yield from COMMAND.finditer(text, block.start("body"), block.end("body"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_block_of_a_document_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
):
    document = ROOT / name
    text = document.read_text(encoding="utf-8")
    update = request.config.getoption("update_golden")
    folder = tmp_path / "work"
    folder.mkdir()
    port = free_port()
    written, copied = "", 0
    with shell(folder, environment(tmp_path)) as ran:
        for step in steps(text, folder):
            actual = ran.run(PORT.sub(port, step["command"])).replace(port, "8000")
            if update and "...\n" not in step["output"]:
                written += text[copied : step.start("output")] + actual
                copied = step.end("output")
            else:
                assert matches(step["output"], actual), f"$ {step['command']}\n{actual}"
    if update:
        document.write_text(written + text[copied:], encoding="utf-8")
