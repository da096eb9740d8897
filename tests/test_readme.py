"""Every block of the documents is run again: files are written, commands executed in order, outputs compared.

A line `...` in an output stands for any lines. `pytest --update-golden` rewrites the outputs without such a line.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md",
    "docs/explanation/one-plan-opened.md",
    "docs/how-to/plan-for-a-request-rate.md",
    "docs/how-to/review-a-plan-diff.md",
    "docs/how-to/use-in-ci.md",
)
BLOCK = re.compile(r"```(?P<kind>console|yaml file=(?P<name>\S+))\n(?P<body>.*?)```\n", re.DOTALL)
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


def run(command: str, folder: Path, variables: dict[str, str]) -> str:
    shell = ["bash", "-c", f"{{ {command}\n}} 2>&1"]
    done = subprocess.run(shell, cwd=folder, env=variables, stdout=subprocess.PIPE, check=False)
    return "".join(line.rstrip() + "\n" for line in done.stdout.decode().splitlines())


def matches(expected: str, actual: str) -> bool:
    """Whether an output is what the document shows, `...` standing for any lines."""
    pattern = re.escape(expected).replace(re.escape("...\n"), "(?:.*\n)*?")
    return re.fullmatch(pattern, actual) is not None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_block_of_a_document_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
):
    document = ROOT / name
    text = document.read_text(encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    variables = environment(tmp_path)
    for block in BLOCK.finditer(text):
        if block["name"]:
            (folder / block["name"]).write_text(block["body"], encoding="utf-8")
            continue
        for step in COMMAND.finditer(block["body"]):
            actual = run(step["command"], folder, variables)
            if request.config.getoption("update_golden") and "...\n" not in step["output"]:
                text = text.replace(step[0], f"$ {step['command']}\n{actual}")
            else:
                assert matches(step["output"], actual), f"$ {step['command']}\n{actual}"
    if request.config.getoption("update_golden"):
        document.write_text(text, encoding="utf-8")
