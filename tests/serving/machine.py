"""A server over a fake runner: real threads, real HTTP, no chips."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import openai
import uvicorn
from llguidance import TokenizerWrapper

from tests.package.harness import Package
from tests.serving.fake_runner import NOTHING, VOCAB, FakeRunner, Tokens, expected

PIECES = [
    *(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?\n0123456789"),
    *("é".encode()[at : at + 1] for at in range(2)),
    *("日".encode()[at : at + 1] for at in range(3)),
    *("👩".encode()[at : at + 1] for at in range(4)),
    *("日本語 the of ing stop St op en ü 👩 本".encode().split(b" ")),
    b"\x91\xa9\xf0\x9f",  # the end of one character and the beginning of the next
    "日".encode()[1:] + "日".encode()[:1],
    *(bytes([byte]) for byte in b"\xaf\xe2\x80\x8d\xa7"),
]
PIECES += [bytes([byte]) for byte in range(256) if bytes([byte]) not in PIECES]
PIECES += [f"<{token}>".encode() for token in range(len(PIECES), VOCAB)]
END = VOCAB - 1
KEY = "a key"


class PieceTokenizer:
    """Tokens that are bytes and pieces of characters and words."""

    def __init__(self, end_ids: frozenset[int] = frozenset()) -> None:
        self.end_ids = end_ids

    def encode(self, text: str) -> list[int]:
        return [byte % VOCAB for byte in text.encode()]

    def encode_chat(self, messages: Any) -> list[int]:
        return self.encode("\n".join(message["content"] for message in messages) + "\n")

    def for_grammars(self) -> TokenizerWrapper:
        return TokenizerWrapper(self)

    # What llguidance asks of a tokenizer.
    eos_token_id, bos_token_id, tokens, special_token_ids = END, None, PIECES, (END,)

    def __call__(self, text: bytes) -> list[int]:
        return ids_of(text.decode())

    def decode(self, ids: Any) -> str:
        return b"".join(PIECES[token] for token in ids).decode(errors="replace")


def ids_of(text: str) -> list[int]:
    """Tokens of which the text is `text`, as long ones as there are."""
    left, found = text.encode(), []
    while left:
        piece = max((each for each in PIECES if left.startswith(each)), key=len)
        found.append(PIECES.index(piece))
        left = left[len(piece) :]
    return found


class TalkingTokens(Tokens):
    """Tokens with log-probabilities."""

    def info(self, step: int, row: int) -> Any:
        assert self.made is not None
        token = self.made[step][row]
        return SimpleNamespace(logprob=-token / 10, top=[(token, -token / 10), ((token + 1) % VOCAB, float("-inf"))])


def permitted(choosing: Any, made: Any, token: int) -> int:
    """A token that a request may choose after `made`, by `token` where it has a choice; -1 where it has none."""
    if choosing.constraint is None:
        return token
    allowed = choosing.constraint.allowed(made)[:VOCAB].nonzero()[0]
    return int(allowed[token % len(allowed)]) if len(allowed) else NOTHING


class TalkingRunner(FakeRunner):
    """A fake runner that may follow a script, pause, or break."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.script: list[int] = []  # what every prompt of one token is followed by
        self.pause_s = 0.0  # that each generate step takes
        self.reads = threading.Event()  # prompts are read while this is set
        self.reads.set()
        self.broken: Exception | None = None  # what the next generate step raises

    def read(self, reading: Any, first: int, tokens: int) -> None:
        assert self.reads.wait(60)
        super().read(reading, first, tokens)

    def generate(self, steps: int) -> Tokens:
        if self.broken:
            raise self.broken
        time.sleep(self.pause_s)
        return super().generate(steps)

    def _first(self, reading: Any, nth: int) -> int:
        found = super()._first(reading, nth)
        if nth < len(reading.prompts):
            prompt, count = reading.prompts[nth], reading.made[nth]
            found = permitted(reading.samplings[nth], prompt[len(prompt) - count :], found)
        return self.script[reading.made[nth] % len(self.script)] if self.script else found

    def _next(self, slot: Any) -> int:
        found = super()._next(slot)
        if slot.table:
            slot.token = found = permitted(slot.sampling, slot.made, found)
        if self.script and slot.table:
            slot.token = found = self.script[(slot.length - 1) % len(self.script)]
        return found

    def _handle(self, generated: bool) -> Tokens:
        self.handles.append(tokens := TalkingTokens(self, generated))
        return tokens


@dataclass
class Machine:
    """A server that listens, and all that is behind it."""

    package: Package
    runner: TalkingRunner
    tokenizer: PieceTokenizer
    service: Any
    app: Any
    records: list[Any] = field(default_factory=list)
    _server: Any = None
    _thread: threading.Thread | None = None

    def listen(self) -> "Machine":
        """Serve at a port of this machine."""
        config = uvicorn.Config(self.app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        wait_until(lambda: self._server.started)
        return self

    @property
    def port(self) -> int:
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def scheduler(self) -> Any:
        return self.service._scheduler

    def client(self, **other: Any) -> openai.OpenAI:
        """OpenAI's own client of it."""
        plain = {"base_url": f"http://127.0.0.1:{self.port}/v1", "api_key": KEY, "max_retries": 0, "timeout": 60}
        return openai.OpenAI(**plain | other)

    def expected(self, prompt: str | list[int], tokens: int, **params: Any) -> list[int]:
        """The tokens that follow a prompt."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        return expected(ids, tokens, self.tokenizer.end_ids, self.choosing(**params), steered=False)

    def choosing(self, **params: Any) -> Any:
        """How a request chooses that asks for `params`, and for what OpenAI's API takes where nothing is said."""
        sampling = self.package.module("sampling").Sampling(**{"temperature": 1.0} | params)
        return self.package.module("runner").Choosing(sampling)

    def stop(self) -> None:
        """Stop listening, and end the engine thread."""
        self.runner.reads.set()
        if self._thread:
            self._server.should_exit = True
            self._thread.join()
        assert asyncio.run(self.service.drain(30))

    def check_base_line(self) -> None:
        """Nothing is in use, and everything adds up, once all requests have ended."""
        wait_until(lambda: self.scheduler.idle and not self.service._clients)
        places = self.scheduler.places
        self.scheduler.check()
        assert places.sequences() == []
        assert self.runner.in_use == set()
        assert not self.runner.handles
        assert self.scheduler.waiting == 0
        held = list(places.cache.held())
        assert sum(places.pages.free(group) for group in range(self.runner.groups)) == len(self.runner.pages) - len(
            held
        )


@dataclass
class Machines:
    """Makes machines."""

    package: Package
    made: list[Machine]

    def __call__(
        self,
        limits: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        rules: dict[str, Any] | None = None,
        end_ids: frozenset[int] = frozenset(),
        **sizes: Any,
    ) -> Machine:
        """A machine whose engine is ready, and which does not listen yet."""
        plain = {"pages_per_group": 400, "context": 512, "pages_per_slot": 128, "longest_prompt": 511, "chunk": 64}
        runner, tokenizer = TalkingRunner(**plain | sizes), PieceTokenizer(end_ids)
        scheduler, server = self.package.module("scheduler"), self.package.module("server")
        limits_ = scheduler.Limits(**limits or {})
        service = self.package.module("service").Service(lambda: scheduler.Scheduler(runner, limits_))
        rules_ = self.package.module("api").Rules(**{"model": "fake", "vocab": VOCAB} | (rules or {}))
        app = server.create_app(service, tokenizer, server.Options(rules_, **options or {}))
        machine = Machine(self.package, runner, tokenizer, service, app)
        service.observers.append(machine.records.append)
        self.made.append(machine)
        service.start()
        wait_until(lambda: service.state == "ready")
        return machine


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.002)
