"""The steps of action.yml, run here in bash as a runner would: expressions filled in, outputs and paths handed on."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
ACTION = YAML(typ="safe", pure=True).load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class Runner:
    """A job of a pull request: its checkout, a folder for temporary files, and what `github` says."""

    checkout: Path
    temporary: Path
    github: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """`shardwright`, `gh` and `python3` on the path are those of this checkout."""
        binaries = self.temporary / "bin"
        binaries.mkdir(parents=True)
        programs = {"shardwright": "-m planner", "gh": str(Path(__file__).with_name("fake_gh.py")), "python3": ""}
        for name, arguments in programs.items():
            script = binaries / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        self.comments.write_text("[]", encoding="utf-8")

    @property
    def comments(self) -> Path:
        """The comments of the pull request."""
        return self.temporary / "comments.json"

    def calls(self) -> list[str]:
        """What `gh` was asked for."""
        kept = self.temporary / "calls"
        return kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []

    def run(self, **inputs: str) -> tuple[int, dict[str, str], str]:
        """The exit code, the outputs and what was printed, of all steps up to the first that fails."""
        names = {f"github.{key}": value for key, value in self.github.items()}
        for name, given in ACTION["inputs"].items():
            value = inputs.pop(name.replace("-", "_"), None)
            names[f"inputs.{name}"] = filled(given["default"], names) if value is None else value
        assert not inputs, f"the action has no inputs {inputs}"
        printed, code = "", 0
        for step in ACTION["runs"]["steps"]:
            code, said = self.step(step, names)
            printed += said
            if code:
                break
        return code, {key: filled(each["value"], names) for key, each in ACTION["outputs"].items()}, printed

    def step(self, step: Mapping[str, Any], names: dict[str, str]) -> tuple[int, str]:
        """One step; what it writes to GITHUB_OUTPUT becomes names for those after it."""
        assert step["shell"] == "bash"
        assert not EXPRESSION.search(step["run"]), "expressions in a script let text of a pull request run"
        output = self.temporary / "output"
        output.write_text("", encoding="utf-8")
        variables = {
            **os.environ,
            **self.variables,
            "PATH": f"{self.temporary / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_PATH": str(self.temporary / "path"),
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
            "RUNNER_TEMP": str(self.temporary),
            "COMMENTS": str(self.comments),
            "CALLS": str(self.temporary / "calls"),
            **{name: filled(value, names) for name, value in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=self.checkout, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        for line in output.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            names[f"steps.{step['id']}.outputs.{key}"] = value
        return done.returncode, done.stdout.decode()


def filled(text: str, names: Mapping[str, str]) -> str:
    """A text with its expressions: a name, or the first of several that is not empty."""

    def value(found: re.Match[str]) -> str:
        return next((told for name in found[1].split(" || ") if (told := names.get(name, ""))), "")

    return EXPRESSION.sub(value, text)
