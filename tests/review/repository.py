"""A throw-away git repository with specs of a small model, and `shardwright` in it."""

import subprocess
from pathlib import Path

from click.testing import CliRunner

from planner.cli import main
from tests.plans_of import SPECS

SPEC = (SPECS / "smollm2_135m_cpu8.yaml").read_text(encoding="utf-8")
SERVING = "serving"


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def spec_text(name: str, concurrency: int = 8) -> str:
    """A spec of its own name that plans in a moment."""
    text = SPEC.replace("name: smollm2-135m-cpu8", f"name: {name}")
    changed = text.replace("concurrency: 8", f"concurrency: {concurrency}")
    assert f"name: {name}\n" in changed
    assert f"concurrency: {concurrency}\n" in changed
    return changed


def write(path: str, text: str) -> None:
    """Write a file below the current folder."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def edit(path: str, old: str, new: str) -> None:
    """Replace something in a file that must hold it."""
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    write(path, text.replace(old, new))


def commit(message: str) -> None:
    """Commit everything here."""
    git(Path(), "add", "-A")
    git(Path(), "commit", "-q", "-m", message)


def shardwright(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def done(*arguments: str) -> None:
    """Run the command, which must succeed."""
    code, out, err = shardwright(*arguments)
    assert code == 0, out + err


def begin(folder: Path) -> None:
    """Three specs: one with its plan beside it and a package, one as `spec.yaml` and `plan.yaml`, one alone and wrong.
    That one cannot be planned, so whoever looks at it finds out."""
    git(folder, "init", "-q", "-b", "main")
    write(f"{SERVING}/chat.yaml", spec_text("chat"))
    write(f"{SERVING}/code/spec.yaml", spec_text("code", 16))
    write(f"{SERVING}/other.yaml", spec_text("other").replace("chip: cpu", "chip: cpx"))
    done("plan", f"{SERVING}/chat.yaml", "-o", f"{SERVING}/chat.plan.yaml")
    done("plan", f"{SERVING}/code/spec.yaml", "-o", f"{SERVING}/code/plan.yaml")
    done("render", f"{SERVING}/chat.plan.yaml", "-o", f"{SERVING}/chat_package")
    commit("three services")
