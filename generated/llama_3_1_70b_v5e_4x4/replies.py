# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Answers on their way to a client, who may go away at any time: then what is being made for it is cancelled."""

import asyncio
import json
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from .answers import Form
from .fields import ApiError
from .generation import Generation, Piece

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies must not wait for the end
]


class Reply(ABC):
    """The answer to a request whose choices wait in the queue."""

    def __init__(self, made: Generation, form: Form) -> None:
        self.made, self.form = made, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; whatever ends this, nothing of the request stays behind."""
        watcher = asyncio.create_task(self._watch(receive))
        try:
            await self.send(scope, receive, send)
        except OSError:
            pass  # the client has gone
        finally:
            self.made.cancel()
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    @abstractmethod
    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is made."""

    async def _watch(self, receive: Receive) -> None:
        """Cancel the choices once the client has gone; that ends them, and so the answer."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.made.cancel()


class WholeReply(Reply):
    """An answer in one piece."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer once all is made."""
        pieces = [piece async for piece in self.made.pieces()]
        if any(piece.finish == "cancelled" for piece in pieces):
            return
        failed = [piece for piece in pieces if piece.finish == "error"]
        if failed:
            error = failure(failed[0])
            response = JSONResponse(error.body(), error.status)
        else:
            response = JSONResponse(self.form.answer(pieces, self.made.usage))
        await response(scope, receive, send)


class StreamReply(Reply):
    """An answer in server-sent events."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each piece as it comes; [DONE] is last, unless an error is."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        failed: ApiError | None = None
        async for piece in self.made.pieces():
            if piece.finish in ("error", "cancelled"):
                failed = failure(piece)
                continue
            for chunk in self.form.chunks(piece, self.made.usage):
                await send(_event(json.dumps(chunk)))
        if failed:
            await send(_event(json.dumps(failed.body())))
        else:
            if self.form.asked.tells_usage:
                await send(_event(json.dumps(self.form.usage_chunk(self.made.usage))))
            await send(_event("[DONE]"))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def failure(piece: Piece) -> ApiError:
    """Why a choice has no end of its own."""
    why: Any = piece.info if isinstance(piece.info, str) else "no token could be made"
    return ApiError(why, code=piece.finish, status=500)


def _event(data: str) -> Message:
    return {"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True}
