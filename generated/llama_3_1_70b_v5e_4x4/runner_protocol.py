# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What the scheduler asks of the chips.

Verbs are carried out in the order in which they are called. None waits for the chips, but for the methods of `Tokens`.
So a page or a slot may be given to another sequence as soon as its release was called: steps that were called before it
still find what they need, and whatever they write late is written before the next owner's tokens.
"""

from typing import Any, Protocol


class Tokens(Protocol):
    """Tokens on their way from the chips. Rows are slots, or prompts of a reading."""

    def ids(self) -> list[list[int]]:
        """Token ids [steps][rows]; waits for them. A negative id says that no token could be made for the row."""

    def info(self, step: int, row: int) -> Any:
        """What else is told of a token, such as its log-probability, or None."""


class Runner(Protocol):
    """The chips: slots that hold sequences, pages that hold keys and values, and the compiled programs."""

    slots: int  # those of group g are [g * slots / groups, (g + 1) * slots / groups)
    groups: int
    pages_per_group: int
    tokens_per_page: int
    pages_per_slot: int
    context: int  # tokens of a sequence, those of its prompt included
    prompts: int  # that are read together
    longest_prompt: int
    chunk: int | None  # tokens of each prompt that `read` takes at most; None: it takes whole prompts
    reuses_prefixes: bool  # whether reading may begin behind cached pages; it needs chunks
    steps_per_dispatch: int

    def begin(self, prompts: list[list[int]], samplings: list[Any], made: list[int]) -> Any:
        """A reading of up to `prompts` prompts, in the bucket of the longest.

        The last `made` tokens of a prompt were generated, before its sequence was preempted. What is chosen must depend
        on positions and tokens only, so that the sequence goes on as if nothing had happened.
        """

    def load(self, reading: Any, nth: int, table: list[int], tokens: int) -> None:
        """Put the first `tokens` tokens' keys and values, whole pages of `table`, in the place of the nth prompt's."""

    def read(self, reading: Any, first: int, tokens: int) -> None:
        """Read positions [first, first + tokens) of all prompts of a reading; shorter prompts have fewer, or none.

        Calls follow each other without gaps. The first begins behind the loaded tokens, a multiple of `tokens_per_page`
        that need be none of `chunk`. The last may be shorter than `chunk`.
        """

    def first_tokens(self, reading: Any) -> Tokens:
        """The token after each prompt, in one step, once all were read."""

    def insert(self, reading: Any, nth: int, slot: int, table: list[int], cached: int, length: int) -> None:
        """Give a free slot the nth prompt of a reading, `length` tokens, and its first token, which comes next.

        Its keys and values go to the pages of `table`, [pages_per_slot], -1 where there is none. The first `cached`
        tokens are already there, in pages that others may be reading: they are not written.
        """

    def set_table(self, slot: int, table: list[int]) -> None:
        """Change the pages of a slot. Tokens at positions without a page are written to no sequence's page."""

    def steer(self, slot: int, made: list[int]) -> None:
        """Tell what a slot's sequence has generated, before each step of one that `needs_sync`."""

    def generate(self, steps: int) -> Tokens:
        """Make `steps` tokens, one or `steps_per_dispatch`, for each slot: write the last token, choose the next.

        Rows of slots without a sequence are arbitrary. A sequence may be made to go on after its end, even beyond the
        context: those tokens are not used, and must do no harm to others.
        """

    def release(self, slot: int) -> None:
        """Free a slot. Its pages are not written any more by what is called after this."""

    def copy_out(self, page: int) -> Any:
        """The contents of a page in host memory, as they are at this call; it does not wait."""

    def copy_in(self, handle: Any, page: int) -> None:
        """Write what `copy_out` returned to a page, bit for bit."""
