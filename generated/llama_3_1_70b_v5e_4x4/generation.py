# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The choices of one request while they are made: events of the service in, pieces of text out."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .api import Asked
from .constraints import Follower
from .runner import Choosing
from .sequence import Event, Finish, Request
from .service import Service
from .text import TextStream
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class Piece:
    """What one event adds to a choice: text, which may be empty, and its token; the last one has a `finish`."""

    choice: int
    text: str
    token: int | None = None
    info: Any = None  # of the token: `logprob`, and `top` [(token, logprob)]; or why a choice ends with "error"
    finish: Finish | None = None


@dataclass
class Choice:
    """One continuation of a prompt."""

    request: Request
    text: TextStream
    finish: Finish | None = None


@dataclass
class Usage:
    """Tokens of a request so far."""

    prompt: int
    cached: int = 0  # of the prompt's
    made: int = 0


@dataclass
class Generation:
    """All choices of a request; several prompts have a choice each."""

    service: Service
    tokenizer: Tokenizer
    asked: Asked
    prompts: Sequence[Sequence[int]]
    followers: Sequence[Follower | None]  # of each choice
    id: str
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        ends = frozenset() if self.asked.ignores_end else self.tokenizer.end_ids
        self.choices = {f"{self.id}-{nth}": self._choice(nth, ends) for nth in range(len(self.prompts))}
        self.usage = Usage(sum(map(len, self.prompts)))

    def _choice(self, nth: int, ends: frozenset[int]) -> Choice:
        asked, stop_ids = self.asked, ends | self.asked.stop_ids
        prompt = tuple(self.prompts[nth])
        follower = self.followers[nth]
        choosing, sync = Choosing(asked.sampling, follower), follower is not None
        request = Request(f"{self.id}-{nth}", prompt, asked.max_tokens, choosing, stop_ids, sync)
        return Choice(request, TextStream(self.tokenizer, asked.stops))

    async def begin(self) -> None:
        """Put all choices into the queue, or none; raises what `Service.submit` raises."""
        try:
            for choice in self.choices.values():
                await self.service.submit(choice.request, self.events)
        except BaseException:  # also where the client's task is cancelled
            self.cancel()
            raise

    def cancel(self) -> None:
        """End what is not finished; nothing where all is."""
        for name, choice in self.choices.items():
            if choice.finish is None:
                self.service.cancel(name)

    async def pieces(self) -> AsyncIterator[Piece]:
        """The pieces of all choices as they come, until each choice has its end."""
        names = list(self.choices)
        while any(choice.finish is None for choice in self.choices.values()):
            event = await self.events.get()
            choice = self.choices[event.request]
            if choice.finish is None:  # else it has stopped at a stop string, and tokens were still on their way
                yield self._piece(names.index(event.request), choice, event)

    def _piece(self, nth: int, choice: Choice, event: Event) -> Piece:
        text, choice.finish = "", event.finish
        self.usage.cached += event.cached
        if event.token is not None:
            self.usage.made += 1
            text = "" if event.finish == "stop" else choice.text.add(event.token)
        if event.finish in ("stop", "length"):
            text += choice.text.finish()
        if choice.text.stopped and choice.finish != "stop":
            choice.finish = "stop"
            self.service.cancel(event.request, "stop")
        return Piece(nth, text, event.token, event.info, choice.finish)
