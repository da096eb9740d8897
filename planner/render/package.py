"""Plan -> rendered package, in memory."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined

from planner.plan.file import plan_to_yaml
from planner.plan.schema import Plan
from planner.render.model import RenderError
from planner.render.refuse import refuse_unrendered
from planner.render.shake import shake
from planner.render.view import PackageView, package_view

HELPERS = frozenset({"attention", "collectives", "kernels", "kv_cache", "model", "sharding"})
"""Modules of which a package gets only what its other modules use."""
LINE_LENGTH = 120
PLAN_FILE = "plan.yaml"


def templates_folder() -> Path:
    """The folder of the templates: inside an installed wheel, or beside the packages in a checkout."""
    root = Path(__file__).resolve().parents[1]
    installed = root / "_templates"
    return installed if installed.is_dir() else root.parent / "templates"


def literal(value: Any) -> str:
    """Python source of a string, number or tuple of them, in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int | float):
        return repr(value)
    items = [literal(item) for item in value]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def signature(name: str, arguments: Sequence[str], returns: str) -> str:
    """The first lines of a function, wrapped as the formatter does; arguments that are empty are left out."""
    told = [argument for argument in arguments if argument]
    one_line = f"def {name}({', '.join(told)}) -> {returns}:"
    if len(one_line) <= LINE_LENGTH:
        return one_line
    if len(inner := f"    {', '.join(told)}") <= LINE_LENGTH:
        return f"def {name}(\n{inner}\n) -> {returns}:"
    lines = "".join(f"    {argument},\n" for argument in told)
    return f"def {name}(\n{lines}) -> {returns}:"


@lru_cache(maxsize=8)
def environment(overlay: Path | None) -> Environment:
    """Jinja2 over the templates; a file of the same name in `overlay` takes the place of ours.

    It keeps compiled templates, and compiles one anew when its file has changed.
    """
    folders = [folder for folder in (overlay, templates_folder()) if folder is not None]
    loader = ChoiceLoader([FileSystemLoader(folder) for folder in folders])
    made = Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["py"] = literal
    made.filters["signature"] = signature
    return made


def render_package(plan: Plan, overlay: Path | None = None) -> dict[str, str]:
    """The files of the package of `plan`, path -> text; templates in `overlay` take the place of ours, or add files."""
    if overlay is not None and not overlay.is_dir():
        raise RenderError(f"overlay {overlay} is no folder")
    refuse_unrendered(plan)
    text = plan_to_yaml(plan)
    view = package_view(plan, hashlib.sha256(text.encode()).hexdigest())
    jinja = environment(overlay)
    rendered = {name: _render(jinja, name, view) for name in jinja.list_templates(extensions=["j2"])}
    # Some files are for some plans only, and empty in others.
    files = {name.removesuffix(".j2"): text for name, text in rendered.items() if text.strip()}
    modules = {_module(name): files.pop(name) for name in list(files) if name.endswith(".py")}
    files |= {f"{name.replace('.', '/')}.py": source for name, source in shake(modules, HELPERS).items()}
    return dict(sorted((files | {PLAN_FILE: text}).items()))


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _render(jinja: Environment, name: str, view: PackageView) -> str:
    return jinja.get_template(name).render(view=view)
