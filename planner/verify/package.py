"""The package of a plan: rendered to a temporary folder, imported from there, and forgotten again."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from planner.plan.schema import Plan
from planner.render import write_package


@contextmanager
def imported_package(plan: Plan) -> Iterator[ModuleType]:
    """The package of a plan, rendered to a temporary folder; afterwards neither folder nor modules are left."""
    name = re.sub(r"\W", "_", f"audited_{plan.name}")
    before = set(sys.modules)
    with TemporaryDirectory(prefix="shardwright-") as folder:
        directory = Path(folder) / name
        write_package(plan, directory)
        spec = importlib.util.spec_from_file_location(
            name, directory / "__init__.py", submodule_search_locations=[str(directory)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[name] = package
        try:
            spec.loader.exec_module(package)
            yield package
        finally:
            for module in set(sys.modules) - before:
                if module == name or module.startswith(f"{name}."):
                    del sys.modules[module]
