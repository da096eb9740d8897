"""A side can be a file of a git revision, and what it names beside it is read there too."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.diff.revision import is_revision
from tests.plans_of import SPECS

SPEC = (SPECS / "smollm2_135m_cpu8.yaml").read_text(encoding="utf-8")
CONFIG = {
    "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
}  # fmt: skip


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose last commit made a model one layer deeper, in a config beside and above the spec."""
    serving = tmp_path / "serving"
    serving.mkdir()
    git(tmp_path, "init", "-q", "-b", "trunk")
    for layers in (2, 3):
        config = json.dumps({**CONFIG, "num_hidden_layers": layers})
        (tmp_path / "config.json").write_text(config)
        (serving / "spec.yaml").write_text(SPEC.replace("config: smollm2-135m", "config: ../config.json"))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"{layers} layers")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["diff", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_spec_of_a_revision_is_planned_with_the_config_of_that_revision(repository: Path) -> None:
    code, out, err = run("trunk~1:serving/spec.yaml", "serving/spec.yaml", "--exit-code")
    assert (code, err) == (1, "")
    assert "~ spec.model.layers  2 -> 3" in out
    assert run("trunk:serving/spec.yaml", "serving/spec.yaml", "--exit-code") == (0, "No changes.\n", "")


def test_a_path_from_here(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "serving")
    assert run("trunk:./spec.yaml", "spec.yaml") == (0, "No changes.\n", "")


def test_what_a_revision_lacks_is_told(repository: Path) -> None:
    code, out, err = run("trunk:spec.yaml", "serving/spec.yaml")
    assert (code, out) == (2, "")
    told = "trunk:spec.yaml: cannot be read: revision trunk has no such file; did you mean trunk:serving/spec.yaml?"
    assert told in err
    code, _, err = run("trnk:serving/spec.yaml", "serving/spec.yaml")
    assert code == 2
    assert "there is no revision trnk, nor a file trnk:serving/spec.yaml" in err


def test_a_mistake_in_a_revision_names_the_revision(repository: Path) -> None:
    (repository / "serving" / "spec.yaml").write_text(SPEC.replace("chip: cpu", "chip: cpx"))
    git(repository, "commit", "-qam", "wrong")
    code, _, err = run("trunk:serving/spec.yaml", "trunk~1:serving/spec.yaml")
    assert code == 1
    assert "trunk:serving/spec.yaml:9:" in err


@pytest.mark.parametrize(
    ("name", "expected"),
    [("HEAD:a.yaml", True), ("a.yaml", False), (":a.yaml", False), ("HEAD:", False), ("--output=x:a", False)],
)
def test_what_is_named_as_a_revision(name: str, expected: bool) -> None:
    assert is_revision(name) == expected
