"""How a prefill reads its prompts: whole, in one step, or in chunks of so many tokens, one step each.

Keys and values of the tokens read so far stay where a prefill of whole prompts leaves them: whole on all axes but those
that cut KV heads. So each chunk brings its own to the queries, finds those of the prefix there, and attends to both.
"""

from math import ceil
from typing import NamedTuple


class Steps(NamedTuple):
    """The steps of a prefill: so many, each of which reads so many `tokens` of every prompt, the last one padded."""

    number: int
    tokens: int

    @property
    def read(self) -> int:
        """Tokens that all steps read of a prompt, padding included."""
        return self.number * self.tokens

    @property
    def mean_read(self) -> float:
        """Tokens that have been read at the end of a step, on average: what a step attends to, itself included."""
        return self.tokens * (self.number + 1) / 2

    def alike(self, queries: float, window: int | None) -> list[tuple[int, float]]:
        """The steps as pairs of how many and their mean end, grouped so that attention is linear in the end.

        The last `queries` of the tokens read attend to them, at most `window` each. It makes no difference to a step
        that ends W + queries or more tokens after the first how many more they are; up to W the window limits nothing.
        """
        if window is None or self.number == 1:
            return [(self.number, self.mean_read)]
        free = min(self.number, window // self.tokens)
        full = min(max(ceil((window + queries) / self.tokens), free + 1), self.number + 1)
        found = [(free, self.tokens * (free + 1) / 2)] if free else []
        found += [(1, float(step * self.tokens)) for step in range(free + 1, full)]
        last = self.number + 1 - full
        return [*found, (last, window + queries)] if last else found


def steps_of(tokens: int, chunk: int | None) -> Steps:
    """The steps that read prompts of `tokens`: one where they are not longer than a `chunk`, None for whole prompts."""
    if chunk is None or chunk >= tokens:
        return Steps(1, tokens)
    return Steps(ceil(tokens / chunk), chunk)
