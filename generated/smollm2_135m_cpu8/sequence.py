# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What is asked of the scheduler, what it answers, and what it knows of each request meanwhile."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Finish = Literal["stop", "length", "cancelled", "error"]


class QueueFull(Exception):
    """As many requests wait as may wait."""


class PromptTooLong(ValueError):
    """A prompt that the engine can never read, or after which there is no room for a token."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(f"the prompt has {tokens} tokens; this engine reads 1 to {limit}")
        self.tokens, self.limit = tokens, limit


@dataclass(frozen=True)
class Request:
    """A prompt, and how it is to be continued."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int | None = None  # None: as many as there is room for
    sampling: Any = None  # for the runner
    stop_ids: frozenset[int] = frozenset()
    needs_sync: bool = False  # how a token is chosen depends on the one before it, so that the host must see that first


@dataclass(frozen=True)
class Event:
    """A token of a request, or the end of it, or both.

    A token that finishes with "stop" is a stop id and no text. "cancelled" and "error" come without a token.
    """

    request: str
    token: int | None
    finish: Finish | None = None
    info: Any = None  # what the runner tells of the token, such as log-probabilities
    cached: int = 0  # with the first token: how many of the prompt's were in the prefix cache


class State(Enum):
    """Where a sequence is on its way."""

    WAITING = "waiting"  # in the queue; it has neither slot nor pages
    READING = "reading"  # has a slot and pages; its tokens are being read, its own pages are still empty
    RUNNING = "running"  # its pages hold its tokens, and every generate step adds one
    FINISHED = "finished"


@dataclass(eq=False)
class Sequence:
    """The tokens of a request so far, and what it has of the chips."""

    request: Request
    arrival: int  # requests are served in this order
    end: int  # tokens it has at most, those of the prompt included
    reserves: bool  # it takes all pages it may ever need at once, because it could not be read again
    tokens: list[int]  # prompt and generated tokens that the host has seen
    state: State = State.WAITING
    slot: int = -1
    pages: list[int] = field(default_factory=list)
    cached: int = 0  # tokens whose pages came from the prefix cache
    written: int = 0  # positions that the pages hold once all that was dispatched is done

    @property
    def made(self) -> list[int]:
        """The generated tokens."""
        return self.tokens[len(self.request.prompt) :]

    @property
    def last_written(self) -> int:
        """Positions that are ever needed: the last token is not written."""
        return self.end - 1
