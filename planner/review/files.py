"""What a folder under git holds: specs, the plan beside each, rendered packages; and which specs a change touches.

    chat.yaml     its plan is chat.plan.yaml
    spec.yaml     its plan is plan.yaml
    packages      rendered folders, wherever they lie below: the `name` in their plan.yaml is that of their spec

Every path is one from here, with slashes, as git prints it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from posixpath import basename, dirname, join, normpath, relpath

from planner.diff.revision import blob, git
from planner.diff.sides import CONFIG, PLAN_KEY
from planner.errors import CannotRun, PlanFileError
from planner.render import is_rendered

SUFFIXES = (".yaml", ".yml")
SECTION = re.compile(r"""(?:^|[{,])\s*["']?(version|model|hardware|workload)["']?\s*:""", re.MULTILINE)
NAME = re.compile(r"""^["']?name["']?\s*:\s*["']?([^"'#\n]+?)["']?,?\s*(?:#.*)?$""", re.MULTILINE)
PLAN_NAME = "plan.yaml"


def is_spec(text: str) -> bool:
    """Whether a file is meant as a spec: a version and most of the sections, so that a slip in a key hides none."""
    found = set(SECTION.findall(text))
    return "version" in found and len(found) > 2 and PLAN_KEY.search(text) is None


def name_of(text: str) -> str:
    """What a spec or a plan calls itself; nothing where no line says it."""
    found = NAME.search(text)
    return found[1] if found else ""


def plan_beside(spec: str) -> str:
    """Where the plan of a spec lies."""
    stem = basename(spec).rsplit(".", 1)[0]
    return join(dirname(spec), PLAN_NAME if stem == "spec" else f"{stem}.{PLAN_NAME}")


@dataclass(frozen=True)
class Changed:
    """Paths that differ from a revision: all of them, and for renamed ones what they were called."""

    base: str | None
    paths: frozenset[str]
    earlier: Mapping[str, str]

    def was(self, path: str) -> str:
        """What a path is called in the base."""
        return self.earlier.get(path, path)

    def text(self, path: str) -> str | None:
        """What the base holds under what `path` is called there; None for nothing."""
        return None if self.base is None else blob(self.source(path))

    def source(self, path: str) -> str:
        """The name under which the base holds a path, for messages and for git."""
        return f"{self.base}:./{self.was(path)}"


@dataclass(frozen=True)
class Service:
    """A spec with its text, where its plan lies, and its rendered packages."""

    spec: str
    text: str
    packages: tuple[str, ...]

    @property
    def plan(self) -> str:
        """Where its plan lies, if it is kept."""
        return plan_beside(self.spec)

    def plans(self) -> Iterator[str]:
        """Every file that may hold its plan, the one beside it first."""
        yield from (self.plan, *(join(each, PLAN_NAME) for each in self.packages))

    def touched(self, changed: Changed) -> bool:
        """Whether its spec, the model config that this names, its plan or a package differs from the base."""
        configs = (normpath(join(dirname(self.spec), each)) for each in CONFIG.findall(self.text))
        if not changed.paths.isdisjoint((self.spec, self.plan, *configs)):
            return True
        return any(path.startswith(f"{each}/") for each in self.packages for path in changed.paths)


@dataclass(frozen=True)
class Folder:
    """The files of a folder that git knows or would add."""

    name: str
    files: tuple[str, ...]
    changed: Changed

    @cached_property
    def specs(self) -> Mapping[str, str]:
        """Path -> text of every spec; also of a file that was one in the base and cannot be told any more."""
        found = {}
        for path in self.files:
            if path.endswith(SUFFIXES):
                text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
                if is_spec(text) or self.was_spec(path):
                    found[path] = text
        return found

    def was_spec(self, path: str) -> bool:
        """Whether a changed file is a spec in the base."""
        text = self.changed.text(path) if path in self.changed.paths else None
        return text is not None and is_spec(text)

    @cached_property
    def packages(self) -> Mapping[str, str]:
        """Folder -> name of the plan of every rendered package."""
        plans = [path for path in self.files if basename(path) == PLAN_NAME and is_rendered(Path(dirname(path) or "."))]
        return {dirname(path): name_of(Path(path).read_text(encoding="utf-8", errors="replace")) for path in plans}

    def services(self) -> Iterator[Service]:
        """Every spec with what belongs to it; a package may still have the name of the spec in the base."""
        for spec, text in self.specs.items():
            earlier = self.changed.text(spec) if spec in self.changed.paths else None
            names = {name_of(text), name_of(earlier or "")} - {""}
            own = tuple(folder for folder, name in self.packages.items() if name in names)
            self.refuse_twins(spec, names, own)
            yield Service(spec, text, own)

    def refuse_twins(self, spec: str, names: set[str], packages: tuple[str, ...]) -> None:
        """A package must belong to one spec."""
        twin = next((path for path, text in self.specs.items() if path != spec and name_of(text) in names), None)
        if packages and twin is not None:
            raise CannotRun(
                f"{spec} and {twin} are both called {name_of(self.specs[twin])}, so {packages[0]} could be the package "
                "of either; give each spec a name of its own"
            )

    def removed(self) -> Iterator[str]:
        """Specs of the base that are gone, by what they were called."""
        renamed = set(self.changed.earlier.values())
        for path in sorted(self.changed.paths - renamed):
            if (
                path.endswith(SUFFIXES)
                and is_below(path, self.name)
                and not Path(path).exists()
                and self.was_spec(path)
            ):
                yield path


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder."""
    return not relpath(path, folder).startswith("../")


def read_folder(name: str, base: str) -> Folder:
    """The files below a folder, and what differs from where `base` was left; raises CannotRun and PlanFileError."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", name)
    if listed is None:
        raise CannotRun(f"{name} is not in a git repository here; review finds by git what a change touches")
    files = sorted({path for path in listed.split("\0") if path and Path(path).is_file()})
    return Folder(name, tuple(files), read_changes(start_of(base)))


def start_of(base: str) -> str | None:
    """The commit at which HEAD left `base`; `base` where history is too short to tell, None before any commit."""
    if git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}") is None:
        if base == "HEAD":
            return None
        raise PlanFileError(
            f"there is no revision {base}; fetch it (git fetch origin {base}), or give --base another one"
        )
    found = git("merge-base", base, "HEAD")
    return base if found is None else found.strip()


def read_changes(base: str | None) -> Changed:
    """What differs between a commit and the files here, those that git does not know yet with it."""
    prefix = (git("rev-parse", "--show-prefix") or "").strip()
    new = (git("ls-files", "-z", "--others", "--exclude-standard") or "").split("\0")
    if base is None:
        return Changed(None, frozenset((git("ls-files", "-z") or "").split("\0") + new) - {""}, {})
    fields = iter((git("diff", "--name-status", "-z", "-M", base, "--") or "").split("\0"))
    paths, earlier = set(new) - {""}, {}
    for status in fields:
        if status:
            path = relpath(next(fields), prefix or ".")
            paths.add(path)
            if status.startswith("R"):
                earlier[after := relpath(next(fields), prefix or ".")] = path
                paths.add(after)
    return Changed(base, frozenset(paths), earlier)
