# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The engine thread: it alone calls the scheduler, takes requests from clients in event loops, and tells them events.

Whatever happens, each request that was taken ends with an event that has a `finish`: also where it is cancelled, where
the service stops before it is done, and where the thread fails.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from .measures import Load, Record, StepTimes, load_of
from .scheduler import Scheduler
from .sequence import Event, Finish, QueueFull, Request

State = Literal["starting", "ready", "draining", "stopped", "failed"]
Events = asyncio.Queue[Event]
CANCEL_SECONDS = 5.0  # that the thread has to end what is left after draining, before it is left alone
POLL_SECONDS = 0.02
log = logging.getLogger(__package__)


class Unavailable(Exception):
    """The service takes no requests: not yet, or not any more."""


@dataclass(eq=False)
class _Client:
    """A request that is not finished, and where its events go."""

    request: Request
    events: Events
    loop: asyncio.AbstractEventLoop
    accepted: asyncio.Future[None]
    record: Record

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the client's thread."""
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            log.debug("the event loop of request %s is closed", self.request.id)


class Service:
    """A scheduler in a thread of its own."""

    def __init__(self, build: Callable[[], Scheduler]) -> None:
        """`build` makes the scheduler, in the thread: it may load weights and compile programs first."""
        self.fault: BaseException | None = None
        self.load = Load()
        self.observers: list[Callable[[Record], None]] = []  # told of each request that ended, in its client's thread
        self._build = build
        self._scheduler: Scheduler | None = None
        self._times = StepTimes()
        self._closing = False
        self._clients: dict[str, _Client] = {}
        self._commands: list[Callable[[], None]] = []
        self._wake = threading.Condition()  # guards all that both threads change
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # For clients, in their event loops

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def state(self) -> State:
        """Where the service is between its start and its end; requests are taken when it is ready."""
        if self.fault is not None:
            return "failed"
        if self._closing:
            return "draining" if self._thread.is_alive() else "stopped"
        return "starting" if self._scheduler is None else "ready"

    @property
    def built(self) -> bool:
        """Whether there has been a scheduler."""
        return self._scheduler is not None

    async def submit(self, request: Request, events: Events) -> None:
        """Put a request into the scheduler's queue; its events go to `events`, the last one has a `finish`.

        Raises what `Scheduler.add` raises, and Unavailable.
        """
        loop = asyncio.get_running_loop()
        record = Record(request.id, len(request.prompt), time.monotonic())
        client = _Client(request, events, loop, loop.create_future(), record)
        with self._wake:
            if self.state != "ready" or self._scheduler is None:
                raise Unavailable(f"the engine is {self.state}")
            if len(self._commands) >= self._scheduler.limits.queue:
                raise QueueFull(f"{len(self._commands)} requests are about to wait; more may not")
            if request.id in self._clients:
                raise ValueError(f"request {request.id} is not finished yet")
            self._clients[request.id] = client
            self._send(partial(self._add, self._scheduler, client))
        try:
            await client.accepted
        except asyncio.CancelledError:
            self.cancel(request.id)
            raise

    def cancel(self, request_id: str, finish: Finish = "cancelled") -> None:
        """End a request wherever it is; nothing where it has ended."""
        with self._wake:
            if self._scheduler is not None and request_id in self._clients:
                self._send(partial(self._scheduler.cancel, request_id, finish))

    async def drain(self, seconds: float) -> bool:
        """Take no more requests, and wait until those there are have ended; whether all did in so many seconds.

        The others end with an error. The thread ends, unless it is starting, or the chips do not answer.
        """
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._scheduler is None or await self._joined(seconds):
            return True
        with self._wake:
            self._send(self._cancel_all)
        if not await self._joined(CANCEL_SECONDS):
            self._end_all("the engine does not answer")
        return False

    async def _joined(self, seconds: float) -> bool:
        """Whether the thread has ended, after so many seconds at most."""
        end = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)  # a thread that waits for the other could not be given up
        return not self._thread.is_alive()

    # In the engine thread

    def _run(self) -> None:
        try:
            self._scheduler = scheduler = self._build()
            self.load = load_of(scheduler, None)
            while self._obey(scheduler):
                self._step(scheduler)
        except BaseException as fault:  # whatever it is, clients must hear of it
            if self.built:  # else whoever starts the service tells it
                log.exception("the engine failed")
            with self._wake:
                self.fault = fault
            self._end_all("the engine failed")

    def _send(self, command: Callable[[], Any]) -> None:
        self._commands.append(command)
        self._wake.notify()

    def _obey(self, scheduler: Scheduler) -> bool:
        """Wait until there is something to do, and do what clients want; False at the end."""
        with self._wake:
            while not self._commands and scheduler.idle:
                if self._closing and not self._clients:
                    return False
                self._wake.wait()
            commands, self._commands = self._commands, []
        for command in commands:
            command()
        return True

    def _add(self, scheduler: Scheduler, client: _Client) -> None:
        try:
            scheduler.add(client.request)
        except (QueueFull, ValueError) as refusal:
            with self._wake:
                self._clients.pop(client.request.id, None)
            client.call(_settle, client.accepted, refusal)
        else:
            client.call(_settle, client.accepted)

    def _step(self, scheduler: Scheduler) -> None:
        counters, begin = scheduler.counters, time.monotonic()
        steps, read = counters.steps, counters.read_tokens
        events = scheduler.step()
        now = time.monotonic()
        self._times.note(now - begin, counters.steps - steps, counters.read_tokens - read)
        self.load = load_of(scheduler, self._times.median_s)
        self._tell(events, now)

    def _tell(self, events: list[Event], now: float) -> None:
        """Give clients their events, with one call for all that a loop's clients have in common."""
        told: dict[asyncio.AbstractEventLoop, list[tuple[_Client, Event]]] = {}
        with self._wake:
            for event in events:
                if client := self._clients.get(event.request):
                    client.record.note(event, now)
                    told.setdefault(client.loop, []).append((client, event))
                    if event.finish is not None:
                        del self._clients[event.request]
        for some in told.values():
            some[0][0].call(self._deliver, some)

    def _deliver(self, told: list[tuple[_Client, Event]]) -> None:
        """Put events where clients wait for them; in their thread."""
        for client, event in told:
            client.events.put_nowait(event)
            if event.finish is not None:
                for observe in self.observers:
                    observe(client.record)

    def _cancel_all(self) -> None:
        assert self._scheduler is not None
        with self._wake:
            clients = list(self._clients)
        self._end_all("the server stops before the answer is complete")
        for request_id in clients:
            self._scheduler.cancel(request_id, "error")

    def _end_all(self, why: str) -> None:
        """Tell all clients that there will be no more; those that were not accepted yet are refused."""
        with self._wake:
            clients = list(self._clients.values())
        for client in clients:
            client.call(_settle, client.accepted, Unavailable(why))
        self._tell([Event(client.request.id, None, "error", why) for client in clients], time.monotonic())


def _settle(accepted: asyncio.Future[None], refusal: Exception | None = None) -> None:
    """Say whether a request was taken, unless its client has gone or been told."""
    if accepted.done():
        return
    if refusal is None:
        accepted.set_result(None)
    else:
        accepted.set_exception(refusal)
