"""A rendered package on disk: a folder that is written whole, and compared whole."""

import difflib
import keyword
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner.plan.schema import Plan
from planner.render.model import RenderError
from planner.render.package import render_package

RENDERED = "# Rendered from plan.yaml"
IGNORED_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


@dataclass(frozen=True)
class Drift:
    """How a folder differs from what its plan renders: file names, and a unified diff of the changed ones."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    diff: str

    def __bool__(self) -> bool:
        """Whether there is any difference."""
        return bool(self.changed or self.missing or self.extra)

    def text(self) -> str:
        """The differences for people: one line a file, then the diff."""
        kinds = (("changed", self.changed), ("missing", self.missing), ("extra", self.extra))
        lines = [f"{kind:8}{name}" for kind, names in kinds for name in names]
        return "\n".join(lines) + (f"\n\n{self.diff.rstrip()}" if self.diff else "")


def write_package(plan: Plan, directory: Path, overlay: Path | None = None) -> tuple[str, ...]:
    """Write the package of `plan` as `directory`, whole, and return its files; what stood there is gone.

    Raises RenderError when the folder's name is no package name, or when it holds something that was not rendered.
    """
    _check_name(directory)
    _check_owned(directory)
    files = render_package(plan, overlay)
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        _fill(fresh / "new", files)
        _replace(directory, fresh)
    finally:
        shutil.rmtree(fresh)
    return tuple(files)


def _replace(directory: Path, fresh: Path) -> None:
    """Put `fresh / new` where `directory` stands; the old folder comes back if that fails."""
    old = fresh / "old"
    if directory.exists():
        directory.rename(old)
    try:
        (fresh / "new").rename(directory)
    except OSError:
        if old.exists():
            old.rename(directory)
        raise


def check_package(plan: Plan, directory: Path, overlay: Path | None = None) -> Drift:
    """The differences between `directory` and the package of `plan`; empty when there are none."""
    wanted = render_package(plan, overlay)
    found = _read(directory)
    changed = tuple(name for name in wanted if name in found and found[name] != wanted[name].encode())
    return Drift(
        changed=changed,
        missing=tuple(name for name in wanted if name not in found),
        extra=tuple(name for name in sorted(found) if name not in wanted),
        diff="".join(_diff(name, found[name].decode(errors="replace"), wanted[name]) for name in changed),
    )


def _check_name(directory: Path) -> None:
    name = directory.name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise RenderError(f"{name or directory} cannot be imported as a package; name the folder like my_package")


def _check_owned(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise RenderError(f"{directory} is a file; render writes a folder")
    if directory.is_dir() and any(directory.iterdir()) and not is_rendered(directory):
        raise RenderError(
            f"{directory} holds files that were not rendered, and render would replace it whole; give another folder"
        )


def is_rendered(directory: Path) -> bool:
    """Whether a folder is a package that was rendered: its first file says so."""
    first = directory / "__init__.py"
    return first.is_file() and first.read_bytes().startswith(RENDERED.encode())


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _read(directory: Path) -> dict[str, bytes]:
    """Path below `directory` -> contents, of every file that is not a cache of some tool."""
    paths = sorted(directory.rglob("*")) if directory.is_dir() else []
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in paths
        if path.is_file() and not IGNORED_FOLDERS.intersection(path.relative_to(directory).parts)
    }


def _diff(name: str, found: str, wanted: str) -> str:
    lines = difflib.unified_diff(
        found.splitlines(keepends=True), wanted.splitlines(keepends=True), f"{name} (found)", f"{name} (rendered)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
