# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What the scheduler asks of the chips, done by the compiled programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from .kv_cache import slots_of_a_chip
from .programs import Programs, Reading
from .sampling import Chosen, Sampling


class Constraint(Protocol):
    """What a sequence may choose."""

    def allowed(self, made: Sequence[int]) -> np.ndarray:
        """bool[vocab]: the tokens that may follow those that were chosen."""


@dataclass(frozen=True)
class Choosing:
    """How a request chooses its tokens."""

    sampling: Sampling
    constraint: Constraint | None = None


@dataclass(frozen=True)
class Prompts:
    """Prompts that are read together, and how each goes on."""

    reading: Reading
    asked: list[Choosing]


@dataclass(frozen=True)
class Told:
    """The log probability of a token, and the likeliest tokens in its place with theirs."""

    logprob: float
    top: list[tuple[int, float]]


@dataclass(frozen=True)
class Made:
    """Tokens on their way from the chips: for each step and row, which of what was chosen."""

    places: list[list[tuple[Chosen, tuple[int, ...]]]]
    telling: frozenset[int]  # rows of which log probabilities are wanted

    def __post_init__(self) -> None:
        for chosen in {id(chosen): chosen for step in self.places for chosen, _ in step}.values():
            for array in jax.tree.leaves(chosen) if self.telling else [chosen.tokens]:
                array.copy_to_host_async()

    def ids(self) -> list[list[int]]:
        """Token ids [steps][rows]; waits for them."""
        return [[int(np.asarray(chosen.tokens)[at]) for chosen, at in step] for step in self.places]

    def info(self, step: int, row: int) -> Told | None:
        """The log probabilities of a token, where they are wanted."""
        if row not in self.telling:
            return None
        chosen, at = self.places[step][row]
        ids, logprobs = np.asarray(chosen.top_tokens)[at], np.asarray(chosen.top_logprobs)[at]
        return Told(float(np.asarray(chosen.logprobs)[at]), list(zip(ids.tolist(), logprobs.tolist(), strict=True)))


class Runner:
    """The chips of a plan, as the scheduler's protocol has them."""

    def __init__(self, programs: Programs, steps_per_dispatch: int = 1, pages_per_group: int | None = None) -> None:
        """A runner of compiled programs, whose slots are all free; it uses all pages of a group, or fewer."""
        config = programs.config
        self.programs, self.steps_per_dispatch = programs, steps_per_dispatch
        self.slots, self.context, self.prompts = config.batch, config.context, config.prompts
        self.groups = config.batch // slots_of_a_chip(config, programs.mesh)
        self._held_pages = config.batch // self.groups * config.pages_per_slot
        self.pages_per_group = min(pages_per_group or self._held_pages, self._held_pages)
        self.tokens_per_page, self.pages_per_slot = config.page_tokens * 1, config.pages_per_slot
        self.longest_prompt = min(config.buckets[-1], config.context - 1)
        self.chunk: int | None = None
        self.reuses_prefixes = False
        self._asked: dict[int, Choosing] = {}

    def begin(self, prompts: list[list[int]], samplings: list[Choosing], made: list[int]) -> Prompts:
        """A reading of up to `prompts` prompts, of which the last `made` tokens were generated."""
        told = zip(samplings, prompts, made, strict=True)
        forbidden = [self._forbidden(asked, tokens[len(tokens) - count :]) for asked, tokens, count in told]
        reading = self.programs.begin(prompts, [asked.sampling for asked in samplings], made, forbidden)
        return Prompts(reading, samplings)

    def load(self, prompts: Prompts, nth: int, table: list[int], tokens: int) -> None:
        """Put the first `tokens` tokens' keys and values, whole pages of `table`, in the place of the nth prompt's."""
        raise RuntimeError("this plan reads whole prompts")

    def read(self, prompts: Prompts, first: int, tokens: int) -> None:
        """Read positions [first, first + tokens) of all prompts of a reading."""
        self.programs.read_whole([prompts.reading])  # first is 0, and tokens are those of the longest

    def first_tokens(self, prompts: Prompts) -> Made:
        """The token after each prompt, in one step."""
        found = prompts.reading.ends
        instead = next(iter(found.values()))  # of prompts that were given up
        ends = [found.get(nth, instead) for nth in range(len(prompts.asked))]
        telling = frozenset(nth for nth, asked in enumerate(prompts.asked) if asked.sampling.logprobs)
        return Made([[(chosen, (row,)) for chosen, row in ends]], telling)

    def insert(self, prompts: Prompts, nth: int, slot: int, table: list[int], cached: int, length: int) -> None:
        """Give a free slot the nth prompt of a reading and its first token; the first `cached` tokens are in place."""
        pages = self._table(table)
        self.programs.write(prompts.reading, nth, pages, cached)
        token = self.programs.first_token(prompts.reading, nth)
        self.programs.start(slot, prompts.reading, nth, token, pages)
        self._asked[slot] = prompts.asked[nth]

    def set_table(self, slot: int, table: list[int]) -> None:
        """Change the pages of a slot."""
        self.programs.set_table(slot, self._table(table))

    def steer(self, slot: int, made: list[int]) -> None:
        """Tell what a slot's sequence has generated."""
        forbidden = self._forbidden(self._asked[slot], made)
        if forbidden is not None:
            self.programs.steer(slot, forbidden)

    def generate(self, steps: int) -> Made:
        """Make `steps` tokens for each slot."""
        telling = frozenset(slot for slot, asked in self._asked.items() if asked.sampling.logprobs)
        if steps == 1:
            chosen = self.programs.step()
            return Made([[(chosen, (slot,)) for slot in range(self.slots)]], telling)
        chosen = self.programs.step(steps)
        return Made([[(chosen, (step, slot)) for slot in range(self.slots)] for step in range(steps)], telling)

    def release(self, slot: int) -> None:
        """Free a slot."""
        self.programs.free(slot)
        del self._asked[slot]

    def copy_out(self, page: int) -> Any:
        """The contents of a page on their way to host memory."""
        raise RuntimeError("this plan reads whole prompts")

    def copy_in(self, handle: Any, page: int) -> None:
        """Write what `copy_out` returned to a page."""
        raise RuntimeError("this plan reads whole prompts")

    def _page(self, page: int) -> int:
        """A page id among all that the chips hold."""
        return page // self.pages_per_group * self._held_pages + page % self.pages_per_group

    def _table(self, table: Sequence[int]) -> np.ndarray:
        return np.array([page if page < 0 else self._page(page) for page in table], np.int32)

    def _forbidden(self, asked: Choosing, made: Sequence[int]) -> np.ndarray | None:
        """bool[vocab_stored]: the tokens that a sequence may not choose next; None where it may choose any."""
        if asked.constraint is None:
            return None
        config = self.programs.config
        allowed = asked.constraint.allowed(made)[: config.vocab]
        return np.pad(~allowed, (0, config.vocab_stored - allowed.size), constant_values=True)
