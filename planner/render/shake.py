"""Removal of what a rendered package does not use, so that no template has to know what the others call.

Helper modules are written out whole; here, top-level names that nothing reaches are cut out of them, and imports that
no longer serve are cut out of every module.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

Sources = Mapping[str, str]
KEPT = 256  # texts of which findings are kept


class _Module:
    """What the text of a module tells of it."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)

    @cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """Top-level functions, classes and assigned names."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node
        return found

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Local name -> (module, name) for names imported from other modules of the package."""
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.level and node.module
            for alias in node.names
        }

    @cached_property
    def mentioned(self) -> dict[ast.stmt, list[tuple[str | None, str]]]:
        """Top-level statement -> (module, name) of all that it mentions; of this module, None."""
        return {node: list(_references(node, self.imported)) for node in self.tree.body}


def shake(sources: Sources, helpers: frozenset[str]) -> dict[str, str]:
    """`sources` (module name -> text) without the top-level names of `helpers` that are never reached.

    A helper of which nothing is left is left out.
    """
    # Most modules of most packages differ in their first line only: what is found of the rest is kept.
    split = {module: _first_line(text) for module, text in sources.items()}
    used = _reached({module: _module(rest) for module, (_, rest) in split.items()}, helpers)
    kept = {
        module: (first, _without_definitions(rest, frozenset(used[module])) if module in helpers else rest)
        for module, (first, rest) in split.items()
        if module not in helpers or used[module]
    }
    # The imports of __init__ are what the package offers.
    return {
        module: first + (rest if module == "__init__" else _without_unused_imports(rest))
        for module, (first, rest) in kept.items()
    }


def _first_line(text: str) -> tuple[str, str]:
    """The comment that a text begins with, and what follows it."""
    first, end, rest = text.partition("\n")
    return (first + end, rest) if first.startswith("#") else ("", text)


@lru_cache(maxsize=KEPT)
def _module(text: str) -> _Module:
    return _Module(text)


def _references(node: ast.AST, imported: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str | None, str]]:
    """(module, name) of everything in the package that `node` mentions; of its own module, None."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            yield part.value.id, part.attr
        elif isinstance(part, ast.Name):
            yield imported.get(part.id, (None, part.id))


def _reached(modules: Mapping[str, _Module], helpers: frozenset[str]) -> dict[str, set[str]]:
    """Module -> its top-level names that are reached from the modules that are not helpers."""
    pending = [
        (found or name, mentioned)
        for name, module in modules.items()
        for node in module.tree.body
        if name not in helpers or node not in module.defined.values()
        for found, mentioned in module.mentioned[node]
    ]
    used: dict[str, set[str]] = {name: set() for name in modules}
    while pending:
        name, wanted = pending.pop()
        module = modules.get(name)
        if module and wanted in module.defined and wanted not in used[name]:
            used[name].add(wanted)
            pending += [(found or name, each) for found, each in module.mentioned[module.defined[wanted]]]
    return used


@lru_cache(maxsize=KEPT)
def _without_definitions(text: str, used: frozenset[str]) -> str:
    lines = text.splitlines(keepends=True)
    for name, node in reversed(_module(text).defined.items()):
        if name in used:
            continue
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            while first and not lines[first - 1].strip():
                first -= 1
        del lines[first : node.end_lineno]
    return "".join(lines)


@lru_cache(maxsize=KEPT)
def _without_unused_imports(text: str) -> str:
    """`text` with only those imported names that it mentions, and no empty lines left where imports stood."""
    tree = ast.parse(text)
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = text.splitlines(keepends=True)
    for node in reversed(tree.body):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        kept = [alias for alias in node.names if (alias.asname or alias.name).split(".")[0] in mentioned]
        if len(kept) != len(node.names) and "noqa" not in lines[node.lineno - 1]:
            lines[node.lineno - 1 : node.end_lineno] = [_import_line(node, kept)] if kept else []
    return re.sub(r"\n{4,}", "\n\n\n", _close_import_gaps("".join(lines)))


def _import_line(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> str:
    listed = ", ".join(f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in names)
    if isinstance(node, ast.Import):
        return f"import {listed}\n"
    return f"from {'.' * node.level}{node.module or ''} import {listed}\n"


def _close_import_gaps(text: str) -> str:
    """`text` with at most one empty line between the docstring, the import blocks and what follows them."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not imports:
        return text
    lines = text.splitlines(keepends=True)
    last = imports[-1].end_lineno or 0
    head = re.sub(r"\n{3,}", "\n\n", "".join(lines[:last]))
    return head + "".join(lines[last:])
