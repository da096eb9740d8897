"""Removal of what a rendered package does not use, so that no template has to know what the others call.

Helper modules are written out whole; here, top-level names that nothing reaches are cut out of them, and imports that
no longer serve are cut out of every module.
"""

import ast
import re
from collections.abc import Iterator, Mapping

Sources = Mapping[str, str]


def shake(sources: Sources, helpers: frozenset[str]) -> dict[str, str]:
    """`sources` (module name -> text) without the top-level names of `helpers` that are never reached.

    A helper of which nothing is left is left out.
    """
    used = _reached(sources, helpers)
    kept = {
        module: _without_definitions(text, used[module]) if module in helpers else text
        for module, text in sources.items()
        if module not in helpers or used[module]
    }
    # The imports of __init__ are what the package offers.
    return {module: text if module == "__init__" else _without_unused_imports(text) for module, text in kept.items()}


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """Top-level functions, classes and assigned names."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def _references(node: ast.AST, module: str, imported: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(module, name) of everything in the package that `node`, part of `module`, mentions."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            yield part.value.id, part.attr
        elif isinstance(part, ast.Name):
            yield imported.get(part.id, (module, part.id))


def _imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Local name -> (module, name) for names imported from other modules of the package."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level and node.module
        for alias in node.names
    }


def _reached(sources: Sources, helpers: frozenset[str]) -> dict[str, set[str]]:
    """Module -> its top-level names that are reached from the modules that are not helpers."""
    trees = {module: ast.parse(text) for module, text in sources.items()}
    imported = {module: _imported(tree) for module, tree in trees.items()}
    defined = {module: _definitions(tree) for module, tree in trees.items()}
    pending = [
        reference
        for module, tree in trees.items()
        for node in tree.body
        if module not in helpers or node not in defined[module].values()
        for reference in _references(node, module, imported[module])
    ]
    used: dict[str, set[str]] = {module: set() for module in sources}
    while pending:
        module, name = pending.pop()
        if module in defined and name in defined[module] and name not in used[module]:
            used[module].add(name)
            pending.extend(_references(defined[module][name], module, imported[module]))
    return used


def _without_definitions(text: str, used: set[str]) -> str:
    lines = text.splitlines(keepends=True)
    for name, node in reversed(_definitions(ast.parse(text)).items()):
        if name in used:
            continue
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            while first and not lines[first - 1].strip():
                first -= 1
        del lines[first : node.end_lineno]
    return "".join(lines)


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
