# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The server as a process: options of the command line, start, and an end that waits for those who are served."""

import argparse
import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from .api import Rules
from .scheduler import Limits, Scheduler
from .server import Options, create_app
from .service import Service
from .tokenizer import Tokenizer

MODEL_NAME = "llama-3.1-70b-v5e-4x4"
CLOSE_SECONDS = 5  # in which the last bytes must have gone to clients


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the server."""
    count = _whole_number(1)
    command.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    command.add_argument("--port", type=_whole_number(0), default=8000, help="port, 0 for any (default: 8000)")
    key = command.add_argument("--api-key", default=os.environ.get("SERVE_API_KEY"))
    key.help = "what clients must send as a bearer token (default: $SERVE_API_KEY, or none)"
    command.add_argument("--model-name", default=MODEL_NAME, help="name by which clients ask for the model")
    command.add_argument("--queue", type=count, default=Limits.queue, help="requests that may wait")
    budget = command.add_argument("--prefill-budget", type=count, default=Limits.prefill_budget)
    budget.help = "prompt tokens read between two generate steps"
    command.add_argument("--depth", type=count, default=Limits.depth, help="generate steps on their way at a time")
    steps = command.add_argument("--steps-per-dispatch", type=count, default=1)
    steps.help = "generate steps that are dispatched as one program, where the host is slow (default: 1)"
    command.add_argument("--no-prefix-cache", action="store_true", help="read every prompt from its beginning")
    host_pages = command.add_argument("--host-pages", type=_whole_number(0), default=Limits.host_pages)
    host_pages.help = "pages that the prefix cache keeps in host memory"
    command.add_argument("--longest-answer", type=count, help="most tokens that a request may ask for")
    command.add_argument("--max-body", type=count, default=Options.body_bytes, help="bytes of the largest request")
    cache = command.add_argument("--compilation-cache", type=Path, metavar="DIR")
    cache.help = "where compiled programs are kept for the next start"
    command.add_argument("--profile", type=Path, metavar="DIR", help="write a trace, whose scopes are plan addresses")
    drain = command.add_argument("--drain-seconds", type=count, default=30)
    drain.help = "time that answers have to end after SIGTERM (default: 30)"


def _whole_number(low: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least {low}")
        return int(text)

    return read


def limits_of(given: argparse.Namespace) -> Limits:
    """What the scheduler may do."""
    return Limits(given.queue, given.prefill_budget, given.depth, not given.no_prefix_cache, given.host_pages)


def options_of(given: argparse.Namespace, vocab: int) -> Options:
    """How the server meets its clients."""
    return Options(Rules(given.model_name, vocab, longest_answer=given.longest_answer), given.api_key, given.max_body)


def serve(given: argparse.Namespace, build: Callable[[], Scheduler], tokenizer: Tokenizer, vocab: int) -> None:
    """Listen until SIGTERM or SIGINT, and then until all are served or the time is up.

    `build` makes the scheduler, with all its programs compiled, while the server listens already and is not ready.
    Raises what `build` raises, or what the engine failed of, and ValueError for a run on several hosts.
    """
    if given.coordinator is not None:
        raise ValueError("the server runs on one host; --coordinator is for chat, generate and bench")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    service = Service(build)
    app = create_app(service, tokenizer, options_of(given, vocab))
    config = uvicorn.Config(
        app,
        host=given.host,
        port=given.port,
        access_log=False,
        log_level="warning",
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    service.start()
    asyncio.run(DrainingServer(config, service, given.drain_seconds).serve())
    if service.fault is not None:
        raise service.fault


class DrainingServer(uvicorn.Server):
    """A server that goes on listening, to say that it is not ready any more, until the service is drained."""

    def __init__(self, config: uvicorn.Config, service: Service, drain_seconds: float) -> None:
        """`drain_seconds`: what answers may take to end after the first signal; the second one ends them at once."""
        super().__init__(config)
        self._service, self._drain_seconds = service, drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                print(f"listening at http://{host}:{port}", file=sys.stderr, flush=True)

    async def on_tick(self, counter: int) -> bool:
        """Whether to end now, which uvicorn asks ten times a second: also where the engine could not be made.

        Where it fails later, /health tells whoever watches over the process.
        """
        ended = await super().on_tick(counter)
        return ended or (self._service.fault is not None and not self._service.built)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        if self._draining or self._loop is None:
            self.should_exit = self.force_exit = True
        else:
            self._loop.call_soon_threadsafe(self._begin_draining)

    def _begin_draining(self) -> None:
        self._draining = self._draining or asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        print("draining: no more requests are taken", file=sys.stderr, flush=True)
        await self._service.drain(self._drain_seconds)
        self.should_exit = True
