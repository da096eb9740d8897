"""Imports go one way, and each heavy library has one home."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = (
    ("cost_models",),
    ("planner.errors",),
    ("planner.spec",),
    ("planner.problem",),
    ("planner.solve",),
    ("planner.plan",),
    (
        "planner.calibrate",
        "planner.diff",
        "planner.explain",
        "planner.render",
        "planner.report",
        "planner.review",
        "planner.simulate",
        "planner.sweep",
        "planner.verify",
    ),
    ("planner.console", "planner.demo", "planner.commands"),
    ("planner.cli", "planner.__main__"),
)
PEERS_THAT_MAY = {
    ("planner.verify", "planner.render"),
    ("planner.report", "planner.diff"),
    ("planner.report", "planner.explain"),
    ("planner.explain", "planner.diff"),
    ("planner.sweep", "planner.report"),
    ("planner.review", "planner.diff"),
    ("planner.review", "planner.render"),
}
HOMES = {
    "ortools": {"planner.solve"},
    "jinja2": {"planner.render"},
    "jax": {"planner.verify", "planner.calibrate"},
    "networkx": {"planner.problem", "planner.report", "planner.explain"},
    "simpy": {"planner.simulate"},
}
FORMULAS = {
    "attention", "collectives", "devices", "layouts", "matmul", "memory", "mla", "moe", "networks", "roofline",
    "sampling", "traffic",
}  # fmt: skip
FORMULA_USERS = {"cost_models", "planner.problem", "planner.simulate"}

MODULES = sorted([*(ROOT / "planner").rglob("*.py"), *(ROOT / "cost_models").rglob("*.py")])


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str | None:
    """The named part of the layout that a module belongs to."""
    names = [name for layer in LAYERS for name in layer]
    return next((name for name in names if module == name or module.startswith(f"{name}.")), None)


def rank(part: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if part in layer)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_go_one_way(path: Path):
    own = part_of(module_name(path))
    if own is None:
        assert path == ROOT / "planner" / "__init__.py", f"{path} has no place in the layout"
        return
    for imported in imports(path):
        other = part_of(imported)
        if other is None or other == own or (own, other) in PEERS_THAT_MAY:
            continue
        assert rank(other) < rank(own) or rank(own) >= rank("planner.console"), f"{own} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_heavy_libraries_have_one_home(path: Path):
    own = part_of(module_name(path)) or "planner"
    for imported in imports(path):
        homes = HOMES.get(imported.split(".")[0])
        assert homes is None or own in homes, f"{own} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_formulas_are_called_from_problem_and_simulate_only(path: Path):
    own = part_of(module_name(path)) or "planner"
    used = {imported.split(".")[1] for imported in imports(path) if imported.startswith("cost_models.")}
    assert own in FORMULA_USERS or not used & FORMULAS, f"{own} imports {used & FORMULAS}"


def test_rendered_packages_stand_alone():
    for path in (ROOT / "generated").rglob("*.py"):
        for imported in imports_of_package(path):
            assert imported.split(".")[0] not in {"planner", "cost_models"}, f"{path} imports {imported}"


def imports_of_package(path: Path) -> Iterator[str]:
    """As `imports`; a package may import its own modules relatively."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)


def test_planning_imports_no_jax_and_help_imports_nothing_heavy():
    plan = "import sys, planner.plan.make; print([m for m in ('jax', 'jinja2', 'networkx') if m in sys.modules])"
    heavy = ("jax", "ortools", "numpy", "pydantic", "rich")
    cli = f"import sys, planner.cli; print([m for m in {heavy} if m in sys.modules])"
    for code in (plan, cli):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
