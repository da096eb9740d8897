"""The known word a mistyped one was probably meant to be."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The member of `known` closest to `word`, or None when none is close enough to be a slip of the hand."""
    ranked = sorted((edits(word.lower(), candidate.lower()), candidate) for candidate in known)
    if not ranked:
        return None
    distance, candidate = ranked[0]
    return candidate if distance <= max(1, max(len(word), len(candidate)) // 3) else None


def nearest_few(word: str, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """The `count` members of `known` closest to `word`, best first, however far they are."""
    ranked = sorted((edits(word.lower(), candidate.lower()), candidate) for candidate in known)
    return tuple(candidate for _, candidate in ranked[:count])


def edits(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`."""
    before: list[int] = []
    previous = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        current = [i]
        for j, other in enumerate(b, start=1):
            step = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                step = min(step, before[j - 2] + 1)
            current.append(step)
        before, previous = previous, current
    return previous[-1]
