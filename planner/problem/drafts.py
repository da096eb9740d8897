"""Speculation: a draft model proposes tokens, and one step of the model verifies them for every sequence.

Such a step has k + 1 rows for each sequence, its last token and k drafts, and reads weights and cache once. It takes
longer than a plain one, and the drafts are made before; it adds several tokens to a sequence.
"""

from fractions import Fraction
from typing import NamedTuple

from cost_models.speculation import expected_tokens


class Drafts(NamedTuple):
    """k `tokens` drafted for a step, how likely one is accepted if those before it were, and seconds to draft one."""

    tokens: int
    acceptance: float
    draft_step_s: float

    @property
    def seconds(self) -> float:
        """Seconds of the drafts of a step."""
        return self.tokens * self.draft_step_s


def rows_of(drafts: Drafts | None) -> int:
    """Rows of each sequence in a generate step."""
    return 1 if drafts is None else drafts.tokens + 1


def tokens_per_step(drafts: Drafts | None) -> Fraction:
    """Tokens that a generate step adds to a sequence on average (arXiv 2211.17192, equation 1)."""
    return Fraction(1) if drafts is None else Fraction(expected_tokens(drafts.acceptance, drafts.tokens))
