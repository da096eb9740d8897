"""What the compiler writes to stderr while it compiles; it tells some faults in no other way."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2
FULL_COPY = "Involuntary full rematerialization"
"""How XLA says that it gathers an array whole because it knows no other way from one layout to another."""


@contextmanager
def compiler_log() -> Iterator[list[str]]:
    """The lines written to stderr in the meantime, filled in at the end; what is no known fault is passed on."""
    lines: list[str] = []
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), STDERR)
        try:
            yield lines
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)
            file.seek(0)
            text = file.read().decode(errors="replace")
            lines += text.splitlines()
            others = [line for line in lines if FULL_COPY not in line]
            if others:
                print("\n".join(others), file=sys.stderr)


def full_copies(log: tuple[str, ...]) -> tuple[str, ...]:
    """What XLA says of arrays that it gathers whole, a sentence each."""
    return tuple(line[line.index(FULL_COPY) :] for line in log if FULL_COPY in line)
