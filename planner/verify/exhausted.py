"""Why a program did not compile; out of HBM, by how much, and which item is larger than its budget."""

import re
from collections.abc import Iterator, Mapping

from planner.plan.records import Hbm
from planner.plan.units import bytes_text

REFUSAL_LENGTH = 400
GIB = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
GROWN = 1.01
"""An item that is larger than its budget by no more than its padding did not grow."""

_NEEDED = re.compile(r"\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)")
_USED = re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm")


def refusal(error: Exception) -> str:
    """The first sentences of an error, on one line; compiler errors begin with their own kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = "" if type(error).__name__ == "JaxRuntimeError" else f"{type(error).__name__}: "
    return f"{kind}{' '.join(lines[:2])}"[:REFUSAL_LENGTH]


def why_not_compiled(failure: str, given: Mapping[str, int], hbm: Hbm) -> str:
    """A refusal in a sentence; `given` are the bytes of the program's arguments on one chip, by item."""
    sizes = needed_bytes(failure)
    return failure if sizes is None else f"{out_of_hbm(*sizes)}: {', '.join(items_of(sizes[0], given, hbm))}"


def needed_bytes(failure: str) -> tuple[int, int] | None:
    """(bytes a program needs, bytes there are) as the compiler says it, None where it says something else."""
    found = _NEEDED.search(failure) or _USED.search(failure)
    if found is None:
        return None
    needed, needed_unit, there, there_unit = found.groups()
    return int(float(needed) * GIB[needed_unit]), int(float(there) * GIB[there_unit])


def out_of_hbm(needed: int, there: int) -> str:
    """By how much a program does not fit."""
    return (
        f"out of HBM by {bytes_text(needed - there)}, as it needs {bytes_text(needed)} of the {bytes_text(there)} there"
    )


def items_of(needed: int, given: Mapping[str, int], hbm: Hbm) -> Iterator[str]:
    """What fills HBM, each beside its budget: arguments, and for temporaries what is left of the whole."""
    budgets = {"weights": hbm.weights + (hbm.copies or 0), "cache": hbm.kv_cache}
    rest = max(0, needed - sum(given.values()))
    for item, size in {**given, "temporaries": rest}.items():
        budget = budgets.get(item, hbm.activations + hbm.logits)
        verdict = "grew beyond" if size > GROWN * budget else "within"
        yield f"{item} {bytes_text(size)} ({verdict} the planned {bytes_text(budget)})"
