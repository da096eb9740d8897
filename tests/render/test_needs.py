"""What packages import from elsewhere is what their README says that they need, and what the extras install."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from planner.render import render_package
from tests.render.plans import make_plan
from tests.render.test_render import LLAMA, PLAIN, code

ROOT = Path(__file__).resolve().parents[2]
SERVER = {"llguidance", "prometheus-client", "starlette", "uvicorn"}


def imported(text: str) -> Iterator[tuple[bool, str]]:
    """(whether it is of the package, top-level name) of every import of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((False, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level > 0, (node.module or "").split(".")[0]


def needs(files: dict[str, str]) -> set[str]:
    """Distributions that files import."""
    names = {name for text in files.values() for own, name in imported(text) if not own}
    return {name.replace("_", "-") for name in names - sys.stdlib_module_names}


def test_the_readme_names_what_a_package_imports():
    for case in (PLAIN, LLAMA):
        files = render_package(make_plan(case))
        told = files["README.md"].split("It needs ")[1].split("`PACKAGE`")[0]
        modules = {name: text for name, text in code(files).items() if not name.startswith("tests/")}
        assert set(re.findall(r"`([a-z0-9-]+)`", told)) == needs(modules)


def test_only_the_server_needs_what_servers_need():
    files = code(render_package(make_plan(PLAIN)))
    users = {name for name, text in files.items() if needs({name: text}) & SERVER}
    assert {"constraints.py", "server.py", "replies.py", "metrics.py", "serve.py"} == users
    reached, pending = set(), ["__init__", "service"]
    while pending:
        module = pending.pop()
        if module not in reached and f"{module}.py" in files:
            reached.add(module)
            pending += [name for own, name in imported(files[f"{module}.py"]) if own]
    assert not {f"{module}.py" for module in reached} & users


def test_the_extras_install_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = code(render_package(make_plan(PLAIN)))
    given = {re.split(r"[<>=\[]", each)[0] for name in ("run", "serve") for each in extras[name]}
    assert needs({name: text for name, text in files.items() if not name.startswith("tests/")}) <= given
    assert {re.split(r"[<>=]", each)[0] for each in extras["serve"]} == SERVER
    assert "shardwright[serve]" in extras["run"]
