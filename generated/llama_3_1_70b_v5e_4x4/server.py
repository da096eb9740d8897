# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""An HTTP server that speaks OpenAI's API, over a service and a tokenizer."""

import asyncio
import hmac
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .answers import Form
from .api import Asked, Rules, read_request
from .constraints import Follower, GrammarError, Grammars
from .fields import ApiError, parse_object
from .generation import Generation
from .measures import Record
from .metrics import Metrics, status_of
from .replies import StreamReply, WholeReply
from .sequence import PromptTooLong, QueueFull
from .service import Service, Unavailable
from .tokenizer import Tokenizer, TokenizerError

Handler = Callable[[Request], Awaitable[ASGIApp]]
RETRY_SECONDS = 1  # after which a client that was refused may come again
BODY_SECONDS = 60  # in which a body must have come
PAGE_MAY = (  # its own style and script, and questions to this server
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
)
log = logging.getLogger(__package__)


@dataclass(frozen=True)
class Options:
    """How the server meets its clients."""

    rules: Rules
    api_key: str | None = None  # what clients must send as a bearer token
    body_bytes: int = 8 * 2**20


@dataclass(frozen=True)
class _Server:
    """What all handlers need."""

    service: Service
    tokenizer: Tokenizer
    grammars: Grammars
    options: Options
    metrics: Metrics
    started: int  # seconds since 1970


def create_app(service: Service, tokenizer: Tokenizer, options: Options) -> Starlette:
    """The application; the service is started and drained by whoever made it."""
    server = _Server(service, tokenizer, Grammars(tokenizer), options, Metrics(service), int(time.time()))
    service.observers.append(_log_request)
    routes = [
        _route(server, "/v1/completions", partial(_complete, server, False), "POST", locked=True),
        _route(server, "/v1/chat/completions", partial(_complete, server, True), "POST", locked=True),
        _route(server, "/v1/models", partial(_models, server), locked=True),
        _route(server, "/health", partial(_health, server)),
        _route(server, "/ready", partial(_ready, server)),
        _route(server, "/metrics", partial(_metrics, server)),
        _route(server, "/status", partial(_status, server)),
        _route(server, "/", _page),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _fault})


def _route(server: _Server, path: str, handler: Handler, method: str = "GET", locked: bool = False) -> Route:
    """A path whose refusals are told in OpenAI's form; `locked`: it needs the API key, where there is one."""

    async def handle(request: Request) -> ASGIApp:
        try:
            if locked:
                _check_key(request, server.options.api_key)
            return await handler(request)
        except ApiError as error:
            server.metrics.refused.labels(str(error.status)).inc()
            _log({"event": "refused", "path": path, "status": error.status, "error": error.message})
            return refusal(error)

    return Route(path, handle, methods=[method])


def refusal(error: ApiError) -> JSONResponse:
    """An error as a response."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return JSONResponse(error.body(), error.status, headers)


def _check_key(request: Request, key: str | None) -> None:
    given = request.headers.get("authorization", "").encode()
    if key is not None and not hmac.compare_digest(given, f"Bearer {key}".encode()):
        message = "the API key is missing or wrong; send it as a header, Authorization: Bearer KEY"
        raise ApiError(message, code="invalid_api_key", status=401)


# Completions


async def _complete(server: _Server, chat: bool, request: Request) -> ASGIApp:
    """Answer a request for a completion, or for the next message of a chat."""
    if (state := server.service.state) != "ready":
        raise _unavailable(f"the engine is {state}")
    body = await _read_body(request, server.options.body_bytes)
    asked = read_request(parse_object(body), chat, server.options.rules)
    prompts = await run_in_threadpool(_encode, server.tokenizer, asked)
    followers = await run_in_threadpool(_followers, server.grammars, asked)
    made = Generation(server.service, server.tokenizer, asked, prompts, followers, _new_id(chat))
    try:
        await made.begin()
    except PromptTooLong as error:
        param = "messages" if chat else "prompt"
        raise ApiError(str(error), param, "context_length_exceeded") from error
    except QueueFull as error:
        message = f"the server is busy: {error}"
        raise ApiError(message, code="queue_full", status=429, retry_after=RETRY_SECONDS) from error
    except Unavailable as error:
        raise _unavailable(str(error)) from error
    form = Form(asked, server.tokenizer, made.id, server.options.rules.model, int(time.time()))
    return StreamReply(made, form) if asked.streams else WholeReply(made, form)


def _unavailable(message: str) -> ApiError:
    return ApiError(message, code="unavailable", status=503, retry_after=RETRY_SECONDS)


async def _read_body(request: Request, limit: int) -> bytes:
    """The whole body; ApiError where it is too large, or does not come."""
    parts: list[bytes] = []
    size, declared = 0, request.headers.get("content-length", "")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            if declared.isdecimal() and int(declared[:20]) > limit:
                raise _too_large(limit)
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise ApiError(f"the body did not come within {BODY_SECONDS} s", status=408) from None
    except ClientDisconnect:
        raise ApiError("the body did not come whole") from None
    return b"".join(parts)


def _too_large(limit: int) -> ApiError:
    return ApiError(f"the body has more than {limit} bytes", code="body_too_large", status=413)


def _encode(tokenizer: Tokenizer, asked: Asked) -> list[list[int]]:
    """Token ids of all prompts."""
    try:
        return [_ids(tokenizer, prompt) for prompt in asked.prompts]
    except TokenizerError as error:
        raise ApiError(str(error), "messages" if asked.chat else "prompt", "invalid_value") from error


def _ids(tokenizer: Tokenizer, prompt: Any) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    return list(prompt) if isinstance(prompt[0], int) else tokenizer.encode_chat(prompt)


def _followers(grammars: Grammars, asked: Asked) -> list[Follower | None]:
    """What each choice must keep to."""
    if asked.form is None:
        return [None] * len(asked.prompts)
    try:
        return [grammars.follower(asked.form.grammar) for _ in asked.prompts]
    except GrammarError as error:
        raise ApiError(f"{asked.form.field} cannot be kept to: {error}", asked.form.field, "invalid_value") from error


def _new_id(chat: bool) -> str:
    return f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"


# The state of the server


async def _models(server: _Server, _: Request) -> Response:
    """The one model there is."""
    model = {"id": server.options.rules.model, "object": "model", "created": server.started, "owned_by": "local"}
    return JSONResponse({"object": "list", "data": [model]})


async def _health(server: _Server, _: Request) -> Response:
    """503 where the engine has failed and the process should be started anew."""
    state = server.service.state
    return JSONResponse({"state": state}, 503 if state in ("failed", "stopped") else 200)


async def _ready(server: _Server, _: Request) -> Response:
    """503 where no requests should be sent: not yet, or not any more."""
    state = server.service.state
    return JSONResponse({"state": state}, 200 if state == "ready" else 503)


async def _metrics(server: _Server, _: Request) -> Response:
    return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _status(server: _Server, _: Request) -> Response:
    return JSONResponse(status_of(server.metrics, server.options.rules.model))


async def _page(_: Request) -> Response:
    text = Path(__file__).with_name("status.html").read_text(encoding="utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": PAGE_MAY})


async def _http_error(_: Request, error: Exception) -> Response:
    """A path or method that there is not."""
    assert isinstance(error, HTTPException)
    told = refusal(ApiError(error.detail.lower(), code="not_found", status=error.status_code))
    told.headers.update(error.headers or {})
    return told


async def _fault(_: Request, error: Exception) -> Response:
    """A mistake of the server; what it is stands in the log, not in the answer."""
    return refusal(ApiError("the server made a mistake", status=500))


# Logs


def _log_request(record: Record) -> None:
    told = {"event": "request", "id": record.id, "prompt_tokens": record.prompt_tokens, "tokens": record.tokens}
    times = {"ttft_ms": record.ttft_s, "tpot_ms": record.tpot_s, "total_ms": record.total_s}
    rounded = {name: None if seconds is None else round(seconds * 1e3, 3) for name, seconds in times.items()}
    _log({**told, **rounded, "finish": record.finish})


def _log(line: dict[str, Any]) -> None:
    """One line of JSON."""
    log.info(json.dumps({"time": round(time.time(), 3), **line}))
