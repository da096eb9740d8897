"""python -m PACKAGE, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from planner.render import write_package
from tests.package import reference
from tests.package.cases import CASES
from tests.plans_of import example_plan
from tests.render.plans import make_plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two packages: `toy` under a two-dimensional plan, and `smol`, the real model."""
    made = tmp_path_factory.mktemp("command")
    write_package(make_plan(next(case for case in CASES if case.name == "two_d_gathered")), made / "toy")
    write_package(example_plan("smollm2_135m_cpu8"), made / "smol")
    return made


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_tiny_generates_the_same_ids_again(folder: Path) -> None:
    arguments = ("toy", "generate", "--tiny", "--prompt", "hello", "--ids", "--max-tokens", "6", "--temperature", "1")
    first, second = run(folder, *arguments), run(folder, *arguments)
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.split()) == 6
    assert first.stdout == second.stdout
    assert "compiling generate" in first.stderr


def test_chat_answers_with_real_weights(folder: Path) -> None:
    weights = str(reference.smollm2_path())
    question = "What is the capital of France?"
    answer = run(folder, "smol", "chat", "--weights", weights, "--prompt", question, "--max-tokens", "12")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "The capital of France is Paris.\n"


def test_bench_prints_measured_beside_predicted(folder: Path) -> None:
    bench = run(folder, "toy", "bench", "--tiny")
    assert bench.returncode == 0, bench.stderr
    lines = bench.stdout.splitlines()
    assert lines[0].split() == ["step", "measured", "predicted"]
    assert [line.split(",")[0] for line in lines[1:3]] == ["prefill", "generate"]
    assert lines[2].endswith("12.5 ms")
    assert lines[-1] == "The measured model is the tiny one: the two columns are not comparable."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat", "--prompt", "hi"], "error: give --weights PATH, or --tiny for random weights"),
        (["chat", "--weights", "absent.gguf", "--prompt", "hi"], "error: no weights at absent.gguf"),
        (["generate", "--tiny", "--prompt", "x" * 999], "error: the prompt has 999 tokens; this plan reads 1 to 255"),
        (
            ["generate", "--tiny", "--prompt", "x", "--top-p", "2"],
            "--top-p: 2 is not a number above 0 and at most 1",
        ),
    ],
)
def test_mistakes_are_told_without_a_traceback(folder: Path, arguments: list[str], message: str) -> None:
    mistake = run(folder, "toy", *arguments)
    assert mistake.returncode == 2
    assert message in mistake.stderr.splitlines()[-1]
    assert "Traceback" not in mistake.stderr


def test_tests_travel_with_the_package(folder: Path) -> None:
    travelled = run(folder, "pytest", "-q", "toy", "-p", "no:cacheprovider")
    assert travelled.returncode == 0, travelled.stdout
    assert "5 passed" in travelled.stdout
