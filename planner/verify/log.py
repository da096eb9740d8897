"""What the compiler writes to stderr while it compiles; it tells some faults in no other way."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

STDERR = 2
FULL_COPY = "Involuntary full rematerialization"
"""How XLA says that it gathers an array whole because it knows no other way from one layout to another."""

_REMARK = re.compile(rb"[IW]\d{4} \d\d:\d\d:\d\d")
"""How a line of information, or a warning, of XLA begins; errors begin with E or F."""


@contextmanager
def compiler_log() -> Iterator[list[str]]:
    """The faults written to stderr in the meantime, a line each, filled in at the end.

    Other lines are passed on as they come: a compiler that aborts has nobody else to say why. Its other warnings are
    dropped, as they are about XLA and not about the program.
    """
    faults: list[str] = []
    sys.stderr.flush()
    kept = os.dup(STDERR)
    reads, writes = os.pipe()
    os.dup2(writes, STDERR)
    os.close(writes)
    reader = Thread(target=_sort, args=(reads, kept, faults), daemon=True)
    reader.start()
    try:
        yield faults
    finally:
        sys.stderr.flush()
        os.dup2(kept, STDERR)
        reader.join()
        os.close(kept)


def _sort(reads: int, kept: int, faults: list[str]) -> None:
    """Read lines to the end: faults into their list, all but other warnings to the descriptor `kept`."""
    with os.fdopen(reads, "rb") as lines:
        for line in lines:
            if FULL_COPY.encode() in line:
                faults.append(line.decode(errors="replace").rstrip("\n"))
            elif not _REMARK.match(line):
                os.write(kept, line)


def full_copies(log: tuple[str, ...]) -> tuple[str, ...]:
    """What XLA says of arrays that it gathers whole, a sentence each."""
    return tuple(line[line.index(FULL_COPY) :] for line in log if FULL_COPY in line)
