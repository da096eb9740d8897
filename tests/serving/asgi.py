"""Requests given to an application without a network between."""

import asyncio
import json
from typing import Any


async def post(
    app: Any, path: str, body: bytes, gone_after: int | None = None, breaks: bool = False
) -> tuple[int | None, bytes]:
    """(status, body) of an answer; a client may go away after it was sent so many messages.

    The application is told so, or what it sends then `breaks`: servers do the one or the other.
    """
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    gone, sent, asked = asyncio.Event(), [], 0
    if gone_after == 0:
        gone.set()

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked == 1:
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if len(sent) == gone_after and breaks:
            raise OSError("broken pipe")
        if len(sent) == gone_after:
            gone.set()

    await app(scope, receive, send)
    status = sent[0]["status"] if sent else None
    return status, b"".join(message.get("body", b"") for message in sent)


def posted(app: Any, path: str, body: Any) -> tuple[int | None, Any]:
    """(status, JSON) of one answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, text = asyncio.run(asyncio.wait_for(post(app, path, data), 60))
    return status, json.loads(text)
