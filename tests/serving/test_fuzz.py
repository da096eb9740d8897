"""Requests that are broken in every way, thousands of them: each is answered, and nothing is left behind."""

import asyncio
import json
import os
from random import Random
from typing import Any

import pytest

from tests.serving.asgi import post, posted
from tests.serving.machine import Machines

REQUESTS = int(os.environ.get("FUZZED_REQUESTS", "10000"))
TEXTS = ("", "a", "日本", "\ud800", "\x00", "a" * 600, "<|im_end|>", "1", "text", "user", "{}")
NUMBERS = (0, 1, -1, 2, 3.5, 1e308, -1e308, 2**31, 2**63, 2**70, 0.1, float("nan"), float("inf"), 20, 21)
PATHS = ("/v1/completions", "/v1/chat/completions")
FIELDS = (
    *("prompt", "messages", "model", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed"),
    *("presence_penalty", "frequency_penalty", "stop", "stop_token_ids", "max_tokens", "max_completion_tokens"),
    *("logprobs", "top_logprobs", "stream", "stream_options", "ignore_eos", "n", "tools", "user", "echo", "x"),
    *("role", "content", "type", "include_usage", "continuous_usage_stats"),
)


def drawn_value(random: Random, depth: int = 0) -> Any:
    """Any value of JSON."""
    kind = random.randrange(8 if depth < 4 else 5)
    if kind < 2:
        return random.choice(TEXTS)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind == 4:
        return random.choice((None, True, False))
    if kind == 5:
        return {random.choice((*FIELDS, *TEXTS)): drawn_value(random, depth + 1) for _ in range(random.randrange(4))}
    return [drawn_value(random, depth + 1) for _ in range(random.randrange(5))]


def good(random: Random) -> dict[str, Any]:
    """A request that is served, whichever path it takes."""
    body = {"max_tokens": random.randrange(1, 20), "stream": random.random() < 0.5, "top_k": random.choice((-1, 0, 5))}
    body["stop"] = random.choice(("a", ["b", "日"], []))
    return body


def drawn_body(random: Random, path: str) -> bytes:
    """A request that has some wrong fields, or is no JSON, or is all right."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(200))
    messages = [{"role": "user", "content": random.choice(("a", [{"type": "text", "text": "b"}]))}]
    body = good(random) | (
        {"messages": messages} if "chat" in path else {"prompt": random.choice(("a", ["b", "c"], [1]))}
    )
    for _ in range(random.choice((0, 1, 1, 2))):
        place = random.choice((body, body, messages[0]))
        place[random.choice(FIELDS)] = drawn_value(random)
    text = json.dumps(body).encode()
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = text[:at] + random.randbytes(random.randrange(3)) + text[at + random.randrange(3) :]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_malformed_requests_are_answered_and_leave_nothing(machines: Machines, seed: int):
    machine = machines({"queue": 40}, slots=4, pages_per_group=60, context=64, pages_per_slot=16, longest_prompt=63)
    random, statuses = Random(seed), []

    async def ask() -> None:
        path = random.choice(PATHS)
        body = drawn_body(random, path)
        gone = random.randrange(4) if random.random() < 0.1 else None
        status, text = await post(machine.app, path, body, gone)
        statuses.append(status)
        if status == 200 and text.startswith(b"data"):
            assert gone is not None or text.endswith(b"data: [DONE]\n\n")
        elif status is not None:
            assert (set(json.loads(text)) == {"error"}) == (status != 200)

    async def ask_all() -> None:
        for _ in range(REQUESTS // 4 // 20):
            await asyncio.gather(*(ask() for _ in range(20)))

    asyncio.run(ask_all())
    assert set(statuses) <= {200, 400, 404, 429, None}
    assert statuses.count(200) > len(statuses) / 20
    assert statuses.count(400) > len(statuses) / 5
    machine.check_base_line()
    assert machine.service.state == "ready"
    assert posted(machine.app, "/v1/completions", {"prompt": "a"})[0] == 200
