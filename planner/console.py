"""What people see: results on stdout, progress and errors on stderr, no colour when piped, exit codes for errors."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 160
DONE, NO, FAILED, INFEASIBLE = 0, 1, 2, 3


def output() -> "Console":
    """A rich console on stdout; wide when piped, so that no row wraps."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def complain(message: str) -> None:
    """Print an error or a note on stderr."""
    print(message, file=sys.stderr)


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Say on stderr what takes a while, and how long it took."""
    started = time.perf_counter()
    print(f"{doing} ...", file=sys.stderr, end="", flush=True)
    done = "failed"
    try:
        yield
        done = "done"
    finally:
        print(f" {done} in {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while something takes a while, moved on by calls; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.advance(task, done)


def guarded(work: Callable[[], int | None]) -> int:
    """The exit code of `work`; errors that a user can cause become messages, and nothing shows a traceback."""
    try:
        return work() or DONE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        complain("interrupted")
        return FAILED
    except Exception as error:
        return explained(error)


def explained(error: Exception) -> int:
    """Print an error and return its exit code."""
    from cost_models.chips import UnknownChip, UnsupportedDtype
    from planner.errors import ShardwrightError
    from planner.spec import SpecErrors, format_diagnostics

    if isinstance(error, SpecErrors):
        complain(format_diagnostics(error.diagnostics))
        return error.exit_code
    if isinstance(error, ShardwrightError):
        complain(f"{error.heading}: {error}")
        return error.exit_code
    if isinstance(error, UnknownChip | UnsupportedDtype):
        complain(f"error: {error.args[0]}")
        return NO
    if isinstance(error, OSError):
        complain(f"error: {error.filename or ''}: {error.strerror or error}")
        return FAILED
    if os.environ.get("SHARDWRIGHT_TRACEBACK"):
        raise error
    complain(
        f"internal error: {type(error).__name__}: {error}\n"
        "set SHARDWRIGHT_TRACEBACK=1 to see where, and please report it"
    )
    return FAILED
