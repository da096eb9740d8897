"""Files of a git revision: `REV:path` from the root of the repository, `REV:./path` from here, as for `git show`."""

import subprocess
from posixpath import basename, dirname, join, normpath

from planner.errors import PlanFileError
from planner.spec.nearest import nearest

HINT = "give a file, or REV:path with a path from the root of the repository (REV:./path from here)"


def is_revision(name: str) -> bool:
    """Whether a name has the form of a file of a revision."""
    revision, colon, path = name.partition(":")
    return bool(colon and revision and path) and not revision.startswith("-")


def text_at(name: str) -> str:
    """The text of `REV:path`; raises PlanFileError."""
    found = blob(name)
    if found is None:
        raise PlanFileError(f"{name}: cannot be read: {fix(name)}")
    return found


def fix(name: str) -> str:
    """The nearest file of a revision to one that it lacks, or how one is named."""
    revision, _, path = name.partition(":")
    listed = git("ls-tree", "-r", "--full-tree", "--name-only", revision)
    if listed is None:
        return f"there is no revision {revision}, nor a file {name}; {HINT}"
    files = listed.splitlines()
    close = next((file for file in files if basename(file) == basename(path)), None) or nearest(path, files)
    return f"revision {revision} has no such file; {f'did you mean {revision}:{close}?' if close else HINT}"


def blob(name: str) -> str | None:
    """The text of `REV:path`, None for nothing there or no text."""
    return git("cat-file", "blob", name)


def git(*arguments: str) -> str | None:
    """What a git command prints; None where it fails, prints no text, or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
        return done.stdout.decode("utf-8-sig") if done.returncode == 0 else None
    except (OSError, UnicodeDecodeError):
        return None


def beside(name: str, path: str) -> str | None:
    """The text of a file that a file of a revision names, from where that lies; None for nothing there."""
    revision, _, own = name.partition(":")
    start = "./" if own.startswith("./") else ""
    joined = normpath(join(dirname(own), path))
    return blob(f"{revision}:{start}{joined}")
