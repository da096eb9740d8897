"""The command line as a user meets it: exit codes, streams, help pages, no tracebacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from tests.golden import Golden

ROOT = Path(__file__).resolve().parents[2]
L70B = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"
SMOLLM2 = ROOT / "docs" / "examples" / "smollm2_135m_cpu8.yaml"
COMMANDS = sorted(main.commands)


def shardwright(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "planner", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    done = shardwright("plan", SMOLLM2, "-o", path, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    assert "OPTIMAL" in done.stdout
    assert f"wrote {path}" in done.stderr
    return path


RENDERED = ("--set", "serving.strategies=rendered")


@pytest.mark.parametrize(
    ("arguments", "code", "stream", "words"),
    [
        (["check", L70B], 0, "stdout", "no errors"),
        (["check", L70B, "--set", "hardware.slice=4x5"], 1, "stdout", "4x4"),
        (["check", "nowhere.yaml"], 2, "stderr", "nowhere.yaml"),
        (["plan", L70B, "--set", "model.layerz=2"], 1, "stderr", 'did you mean "model.layers"?'),
        (["plan", L70B, "--set", "model.config=mixtral-8x7b", *RENDERED], 1, "stderr", "mixtral"),
        (
            ["plan", L70B, "--set", "model.weights.dtype=bf16", "--set", "hardware.slice=2x2"],
            3,
            "stderr",
            "GB missing per chip",
        ),
        (
            ["plan", L70B, "--set", "model.activations.dtype=float32", "--set", "model.kv_cache.dtype=float32"],
            0,
            "stdout",
            "OPTIMAL",
        ),
        (["show", "nowhere.yaml"], 2, "stderr", "cannot be read"),
        (["show", L70B], 2, "stderr", "not a plan"),
        (["chips", "v5f"], 1, "stderr", "did you mean v5p or v5e"),
        (["chips", "v5e"], 0, "stdout", "tpus.md"),
        (["schema"], 0, "stdout", "json-schema.org"),
        (["no-such-command"], 2, "stderr", "No such command"),
        (["plan"], 2, "stderr", "Missing argument"),
    ],
    ids=lambda value: " ".join(map(str, value))[-60:] if isinstance(value, list) else "",
)
def test_exit_codes_and_streams(arguments, code, stream, words, tmp_path):
    done = shardwright(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in getattr(done, stream)
    assert "Traceback" not in done.stderr


def test_show_prints_what_plan_printed(plan_file):
    planned = shardwright("plan", SMOLLM2, cwd=plan_file.parent)
    shown = shardwright("show", plan_file, cwd=plan_file.parent)
    assert shown.stdout == planned.stdout
    listed = shardwright("show", plan_file, "--collectives", cwd=plan_file.parent)
    assert "generate.attention.qkv" in listed.stdout


def test_json_output_is_json_and_text_has_no_colour(plan_file):
    shown = shardwright("show", plan_file, "--format", "json", cwd=plan_file.parent)
    assert json.loads(shown.stdout)["proof"]["status"] == "OPTIMAL"
    assert "\x1b" not in shardwright("show", plan_file, cwd=plan_file.parent).stdout
    chips = json.loads(shardwright("chips", "--format", "json", cwd=plan_file.parent).stdout)
    assert {chip["name"] for chip in chips} >= {"v5e", "v5p", "h100", "cpu"}


def test_a_failed_plan_leaves_the_old_file(tmp_path):
    old = tmp_path / "plan.yaml"
    old.write_text("old", encoding="utf-8")
    done = shardwright("plan", L70B, "--set", "hardware.slice=1x1", "-o", old, cwd=tmp_path)
    assert done.returncode == 3
    assert old.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_a_plan_never_overwrites_its_spec(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SMOLLM2.read_text(encoding="utf-8"), encoding="utf-8")
    done = shardwright("plan", spec, "-o", "./spec.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "is the spec itself" in done.stderr
    assert spec.read_text(encoding="utf-8") == SMOLLM2.read_text(encoding="utf-8")


def test_the_order_of_sets_and_dicts_changes_nothing(tmp_path):
    plans = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "planner", "plan", str(L70B), "-o", f"{seed}.yaml"]
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
        subprocess.run(
            [sys.executable, "-m", "planner", "render", f"{seed}.yaml", "-o", f"p{seed}"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=True,
        )
        files = sorted((tmp_path / f"p{seed}").rglob("*.*"))
        plans.append([(path.relative_to(tmp_path / f"p{seed}"), path.read_bytes()) for path in files if path.is_file()])
    assert plans[0] == plans[1]


def test_a_closed_pipe_is_no_error(tmp_path):
    command = f"{sys.executable} -m planner chips | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name):
    text = CliRunner().invoke(main, [name, "--help"], prog_name="shardwright").output
    assert "Examples:" in text
    assert f"shardwright {name}" in text


def test_help_pages_are_in_the_reference(golden: Golden):
    pages = ["# The command line", "", "Generated from `--help`.", ""]
    for arguments in ([], *([name] for name in COMMANDS)):
        text = CliRunner().invoke(main, [*arguments, "--help"], prog_name="shardwright", terminal_width=100).output
        pages += [f"## {' '.join(['shardwright', *arguments])}", "", "```text", text.rstrip(), "```", ""]
    golden(ROOT / "docs" / "reference" / "cli.md", "\n".join(pages))
