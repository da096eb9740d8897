"""The HTTP server, asked by OpenAI's own client and by clients that do as they like."""

import asyncio
import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.asgi import post
from tests.serving.fake_runner import VOCAB
from tests.serving.machine import END, KEY, PIECES, Machine, Machines, ids_of, wait_until

HARD = "naïve 日本語 👩‍👩‍👧 ok stop 日 the end"
GREEDY = {"temperature": 0, "seed": 5}
USER = [{"role": "user", "content": "hi"}]


@pytest.fixture
def machine(machines: Machines) -> Machine:
    return machines().listen()


@pytest.fixture
def client(machine: Machine) -> Any:
    with machine.client() as client:
        yield client


def call(
    machine: Machine, path: str, body: Any = None, method: str = "POST", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """(status, headers, JSON or text) of a plain HTTP request."""
    connection = http.client.HTTPConnection("127.0.0.1", machine.port, timeout=60)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, data, headers or {})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    told = dict(response.getheaders())
    return response.status, told, json.loads(text) if "json" in told.get("content-type", "") else text


def get(machine: Machine, path: str) -> tuple[int, dict[str, str], Any]:
    return call(machine, path, method="GET")


def error_of(answer: tuple[int, dict[str, str], Any]) -> tuple[int, Any, Any]:
    """(status, param, code) of an error in OpenAI's form."""
    status, _, body = answer
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return status, body["error"]["param"], body["error"]["code"]


def completion(client: Any, prompt: Any = "hello", **other: Any) -> Any:
    extra = {name: other.pop(name) for name in ("top_k", "min_p", "ignore_eos", "stop_token_ids") if name in other}
    return client.completions.create(model="fake", prompt=prompt, extra_body=extra, **GREEDY | other)


def chat(client: Any, **other: Any) -> Any:
    return client.chat.completions.create(model="fake", messages=USER, **GREEDY | other)


def streamed(chunks: Any) -> list[Any]:
    with chunks:
        return list(chunks)


# Answers


def test_a_completion_is_the_text_of_its_tokens(machine: Machine, client: Any):
    answer = completion(client, max_tokens=30)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.choices[0].text == machine.tokenizer.decode(machine.expected("hello", 30, temperature=0, seed=5))
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].logprobs is None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 30, 35)
    assert completion(client).usage.completion_tokens == 16
    machine.check_base_line()


def test_usage_is_told_with_each_chunk_where_load_generators_ask_for_it(machine: Machine, client: Any):
    options = {"include_usage": True, "continuous_usage_stats": True}
    for chunks in (
        streamed(chat(client, max_tokens=20, stream=True, stream_options=options)),
        streamed(completion(client, max_tokens=20, stream=True, stream_options=options)),
    ):
        made = [chunk.usage.completion_tokens for chunk in chunks]
        assert made == sorted(made)
        assert 0 < made[0] < made[-1] == 20  # the first may have to wait for the rest of its character
        assert len(set(made)) > 5
        assert chunks[-1].choices == []


def test_usage_tells_how_much_of_a_prompt_was_in_the_prefix_cache(machine: Machine, client: Any):
    page = machine.runner.tokens_per_page
    prompt = "a" * (2 * page + 1)
    usages = [completion(client, prompt, max_tokens=3).usage for _ in range(2)]
    assert [usage.prompt_tokens_details.cached_tokens for usage in usages] == [0, 2 * page]
    both = completion(client, [prompt, prompt + "a"], max_tokens=3).usage
    assert both.prompt_tokens_details.cached_tokens == 4 * page
    chunks = streamed(completion(client, prompt, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 2 * page


def test_a_chat_answer_is_a_message(machine: Machine, client: Any):
    answer = chat(client, max_completion_tokens=9, user="me", store=False, metadata={"a": "b"})
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == machine.tokenizer.decode(
        machine.expected("hi\n", 9, temperature=0, seed=5)
    )
    assert answer.choices[0].finish_reason == "length"
    assert chat(client).usage.total_tokens == machine.runner.context


def test_a_stream_is_the_same_answer_piece_by_piece(machine: Machine, client: Any):
    whole = chat(client, max_tokens=40)
    chunks = streamed(chat(client, max_tokens=40, stream=True, stream_options={"include_usage": True}))
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["length"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len(chunks) > 20
    texts = streamed(completion(client, max_tokens=40, stream=True))
    assert "".join(chunk.choices[0].text for chunk in texts) == completion(client, max_tokens=40).choices[0].text


def test_a_stream_ends_with_done(machine: Machine):
    body = {"prompt": "a", "stream": True, "max_tokens": 3}
    status, headers, text = call(machine, "/v1/completions", body)
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: "))["choices"] for event in events[:-2])


@pytest.mark.parametrize("stream", [False, True])
def test_several_prompts_have_a_choice_each(machine: Machine, client: Any, stream: bool):
    prompts = ["a", "bcd", "a"]
    answer = completion(client, prompts, max_tokens=12, stream=stream)
    if stream:
        texts = ["", "", ""]
        for chunk in streamed(answer):
            texts[chunk.choices[0].index] += chunk.choices[0].text
    else:
        texts = [choice.text for choice in answer.choices]
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 36)
    wanted = [machine.tokenizer.decode(machine.expected(each, 12, temperature=0, seed=5)) for each in prompts]
    assert texts == wanted


def test_prompts_may_be_token_ids(machine: Machine, client: Any):
    wanted = machine.tokenizer.decode(machine.expected([1, 0, 2], 8, temperature=0, seed=5))
    assert completion(client, [1, 0, 2], max_tokens=8).choices[0].text == wanted
    answer = completion(client, [[1, 0, 2], [3]], max_tokens=8)
    assert [len(answer.choices), answer.choices[0].text] == [2, wanted]


def test_contents_and_stops_may_come_in_parts(machine: Machine, client: Any):
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    answer = client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": parts}], max_tokens=9, **GREEDY
    )
    assert answer.choices[0].message.content == chat(client, max_tokens=9).choices[0].message.content


def test_logprobs_stand_beside_the_tokens(machine: Machine, client: Any):
    tokens = machine.expected("hi\n", 12, temperature=0, seed=5, logprobs=True)
    told = chat(client, max_tokens=12, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert [each.logprob for each in told] == [-token / 10 for token in tokens]
    assert [each.token for each in told] == [PIECES[token].decode(errors="replace") for token in tokens]
    assert [len(each.top_logprobs) for each in told] == [2] * 12
    assert {each.top_logprobs[1].logprob for each in told} == {-9999.0}
    for each, token in zip(told, tokens, strict=True):
        assert each.bytes in (list(PIECES[token]), None)
    assert all(not each.top_logprobs for each in chat(client, max_tokens=5, logprobs=True).choices[0].logprobs.content)
    assert chat(client, max_tokens=5).choices[0].logprobs is None
    chunks = streamed(chat(client, max_tokens=12, logprobs=True, top_logprobs=2, stream=True))
    parts = [part for chunk in chunks if chunk.choices[0].logprobs for part in chunk.choices[0].logprobs.content]
    assert parts == told


def test_logprobs_of_completions_tell_offsets(machine: Machine, client: Any):
    machine.runner.script = ids_of("the end of it")
    choice = completion(client, [1], max_tokens=5, logprobs=1).choices[0]
    assert choice.text == "the end "
    assert choice.logprobs.tokens == ["the", " ", "en", "d", " "]
    assert choice.logprobs.text_offset == [0, 3, 4, 6, 7]
    assert choice.logprobs.token_logprobs == [-token / 10 for token in machine.runner.script[:5]]
    assert [list(each) for each in choice.logprobs.top_logprobs] == [[token] for token in choice.logprobs.tokens]
    chunks = streamed(completion(client, [1], max_tokens=5, logprobs=1, stream=True))
    offsets = [each for chunk in chunks if chunk.choices[0].logprobs for each in chunk.choices[0].logprobs.text_offset]
    assert offsets == [0, 3, 4, 6, 7]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "wanted"), [("p 日", "naïve 日本語 👩‍👩‍👧 ok sto"), (["xx", "日本語", "語"], "naïve ")]
)
def test_text_ends_before_a_stop_string(machine: Machine, client: Any, stop: Any, wanted: str, stream: bool):
    machine.runner.script = ids_of(HARD)
    answer = completion(client, [1], max_tokens=400, stop=stop, stream=stream)
    if stream:
        chunks = streamed(answer)
        text, finish = "".join(chunk.choices[0].text for chunk in chunks), chunks[-1].choices[0].finish_reason
    else:
        text, finish = answer.choices[0].text, answer.choices[0].finish_reason
        assert answer.usage.completion_tokens < 40
    assert (text, finish) == (wanted, "stop")
    machine.check_base_line()
    wait_until(lambda: [record.finish for record in machine.records] == ["stop"])


def test_stop_token_ids_end_an_answer(machine: Machine, client: Any):
    machine.runner.script = ids_of("abc abc")
    answer = completion(client, [1], max_tokens=50, stop_token_ids=[PIECES.index(b"c")])
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("ab", "stop")


# Public bug reports of other engines


# F1: vllm-project/tpu-inference#1386, #1189
@pytest.mark.parametrize(("given", "wanted"), [(None, 0), (-1, 0), (0, 0), (1, 1), (VOCAB + 5, VOCAB + 5)])
def test_f1_top_k_is_off_where_it_is_not_asked_for(machine: Machine, client: Any, given: int | None, wanted: int):
    given_ = {} if given is None else {"top_k": given}
    tokens = machine.expected("hello", 6, temperature=1.5, seed=5, top_k=wanted)
    assert completion(client, max_tokens=6, temperature=1.5, **given_).choices[0].text == machine.tokenizer.decode(
        tokens
    )


def test_f1_requests_without_a_seed_have_seeds_of_their_own(machine: Machine, client: Any):
    texts = {client.completions.create(model="fake", prompt="a", max_tokens=20).choices[0].text for _ in range(5)}
    assert len(texts) == 5


# F2: huggingface/text-generation-inference#333, Blaizzy/mlx-vlm#1076, deepjavalibrary/djl#3085
def test_f2_streams_do_not_cut_characters(machine: Machine, client: Any):
    machine.runner.script = ids_of(HARD)
    for cut in range(1, len(machine.runner.script)):
        chunks = streamed(completion(client, [1], max_tokens=cut, stream=True))
        pieces = [chunk.choices[0].text for chunk in chunks]
        assert "".join(pieces) == machine.tokenizer.decode(machine.runner.script[:cut])
        assert not any("\ufffd" in piece for piece in pieces[:-1])


# F5: raullenchai/Rapid-MLX#1759; sgl-project/sglang#36333
def raw(machine: Machine, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", machine.port))
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


LONG = {"prompt": "a", "max_tokens": 500, "stream": True}


@pytest.mark.parametrize("stream", [True, False])
def test_f5_a_client_that_goes_away_while_tokens_are_made_frees_its_slot(machines: Machines, stream: bool):
    machine = machines(slots=2).listen()
    machine.runner.pause_s = 0.01
    gone = [raw(machine, LONG | {"stream": stream}) for _ in range(2)]
    wait_until(lambda: machine.service.load.made_tokens >= 6)
    for connection in gone:
        connection.close()
    with machine.client() as client:
        assert completion(client, max_tokens=5).usage.completion_tokens == 5
    machine.check_base_line()
    assert sorted(record.finish for record in machine.records) == ["cancelled", "cancelled", "length"]
    assert all(record.tokens < 400 for record in machine.records)
    assert 'serve_requests_total{finish="cancelled"} 2.0' in get(machine, "/metrics")[2]


@pytest.mark.parametrize("stream", [True, False])
def test_f5_a_client_that_goes_away_in_the_queue_is_never_read(machines: Machines, stream: bool):
    machine = machines(slots=1).listen()
    machine.runner.pause_s = 0.01
    with raw(machine, LONG | {"max_tokens": 60}) as first:
        wait_until(lambda: machine.service.load.made_tokens > 0)
        waiting = [raw(machine, LONG | {"prompt": "queued", "stream": stream}) for _ in range(3)]
        wait_until(lambda: machine.service.load.waiting == 3)
        for connection in waiting:
            connection.close()
        wait_until(lambda: len(machine.records) == 3)
        assert [(record.finish, record.tokens) for record in machine.records] == [("cancelled", 0)] * 3
        assert machine.service.load.running == 1
        while b"[DONE]" not in first.recv(65536):
            pass
    machine.check_base_line()
    assert [call for call in machine.runner.calls if call[0] == "begin" and len(call[1][0]) == 6] == []
    assert machine.records[-1].finish == "length"


@pytest.mark.parametrize("stream", [True, False])
def test_f5_a_client_that_goes_away_while_its_prompt_is_read_frees_its_pages(machines: Machines, stream: bool):
    machine = machines({"prefill_budget": 4}, chunk=4).listen()
    machine.runner.pause_s = 0.01
    with raw(machine, LONG | {"max_tokens": 200}) as first:
        wait_until(lambda: machine.service.load.made_tokens > 0)
        reading = raw(machine, LONG | {"prompt": "b" * 400, "stream": stream})
        wait_until(lambda: machine.service.load.running == 2)
        reading.close()
        wait_until(lambda: len(machine.records) == 1)
        assert (machine.records[0].finish, machine.records[0].tokens) == ("cancelled", 0)
        assert machine.service.load.running == 1
        while b"[DONE]" not in first.recv(65536):
            pass
    machine.check_base_line()
    assert machine.service.load.read_tokens < 400


@pytest.mark.parametrize("how", ["broken pipe", "cancelled"])
def test_f5_nothing_stays_behind_however_a_server_ends_an_answer(machines: Machines, how: str):
    machine = machines()
    machine.runner.pause_s = 0.005

    async def leave() -> None:
        body = json.dumps(LONG).encode()
        task = asyncio.create_task(post(machine.app, "/v1/completions", body, 5, breaks=how == "broken pipe"))
        if how == "cancelled":
            wait_until(lambda: machine.service.load.waiting == 0)
            await asyncio.sleep(0.05)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        while not machine.records:
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(leave(), 60))
    assert [record.finish for record in machine.records] == ["cancelled"]
    machine.check_base_line()


# F6: AI-Hypercomputer/JetStream#45, #84, #9, #152
def test_f6_many_streams_have_all_their_tokens_in_order(machines: Machines):
    machine = machines({"depth": 3}, end_ids=frozenset({END, 3, 40}), slots=8, prompts=2).listen()
    with machine.client() as client:

        def ask(nth: int) -> tuple[str, str]:
            chunks = streamed(completion(client, [0, nth, 0], max_tokens=5 + nth, stream=True))
            return "".join(chunk.choices[0].text for chunk in chunks), chunks[-1].choices[0].finish_reason

        with ThreadPoolExecutor(64) as pool:
            found = list(pool.map(ask, range(64)))
    for nth, (text, finish) in enumerate(found):
        tokens = machine.expected([0, nth, 0], 5 + nth, temperature=0, seed=5)
        ended = tokens[-1] in machine.tokenizer.end_ids
        assert text == machine.tokenizer.decode(tokens[:-1] if ended else tokens)
        assert finish == ("stop" if ended else "length")
    assert {finish for _, finish in found} == {"stop", "length"}
    machine.check_base_line()


def test_f6_end_tokens_are_text_where_they_are_to_be_ignored(machines: Machines):
    machine = machines(end_ids=frozenset({7})).listen()
    machine.runner.script = [5, 7, 6]
    with machine.client() as client:
        assert completion(client, [1], max_tokens=3).choices[0].text == "f"
        assert completion(client, [1], max_tokens=3).usage.completion_tokens == 2
        assert completion(client, [1], max_tokens=3, ignore_eos=True).choices[0].text == "fhg"


# Refusals


def test_a_prompt_that_is_too_long_is_told_its_length(machine: Machine, client: Any):
    for streams in (False, True):
        with pytest.raises(openai.BadRequestError, match="has 600 tokens; this engine reads 1 to 511") as told:
            completion(client, "a" * 600, stream=streams)
        assert (told.value.code, told.value.param) == ("context_length_exceeded", "prompt")
    assert error_of(call(machine, "/v1/completions", {"prompt": ["a", "b" * 10**6]}))[2] == "context_length_exceeded"
    machine.check_base_line()


def test_a_full_queue_is_told_with_a_time_to_come_back(machines: Machines):
    machine = machines({"queue": 2}, slots=1).listen()
    machine.runner.pause_s = 0.01
    with raw(machine, LONG):
        wait_until(lambda: machine.service.load.made_tokens > 0)
        queued = [raw(machine, LONG)]
        wait_until(lambda: machine.service.load.waiting == 1)
        # Of several prompts none is kept where one finds no place.
        assert error_of(call(machine, "/v1/completions", {"prompt": ["a", "b"]}))[0] == 429
        wait_until(lambda: machine.service.load.waiting == 1)
        queued.append(raw(machine, LONG))
        wait_until(lambda: machine.service.load.waiting == 2)
        answer = call(machine, "/v1/completions", {"prompt": "a", "stream": True})
        assert error_of(answer) == (429, None, "queue_full")
        assert answer[1]["retry-after"] == "1"
        assert answer[2]["error"]["type"] == "rate_limit_error"
        for connection in queued:
            connection.close()
    machine.check_base_line()
    wait_until(lambda: [record.finish for record in machine.records] == ["cancelled"] * 4)
    assert 'serve_refused_total{status="429"} 2.0' in get(machine, "/metrics")[2]


def test_a_body_may_not_be_larger_than_allowed(machines: Machines):
    machine = machines(options={"body_bytes": 1000}).listen()
    assert error_of(call(machine, "/v1/completions", {"prompt": "a" * 1000})) == (413, None, "body_too_large")
    chunked = http.client.HTTPConnection("127.0.0.1", machine.port, timeout=60)
    chunked.request("POST", "/v1/completions", iter([b"x" * 600] * 3), encode_chunked=True)
    assert chunked.getresponse().status == 413
    chunked.close()
    assert call(machine, "/v1/completions", {"prompt": "a" * 400})[0] == 200


def test_only_the_key_opens(machines: Machines):
    machine = machines(options={"api_key": KEY}).listen()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": "Bearer a keyé"}):
        for path, method in (("/v1/completions", "POST"), ("/v1/chat/completions", "POST"), ("/v1/models", "GET")):
            assert error_of(call(machine, path, b"{}", method, headers))[::2] == (401, "invalid_api_key")
    for path in ("/health", "/ready", "/metrics", "/status", "/"):
        assert get(machine, path)[0] == 200
    with machine.client() as client, machine.client(api_key="other") as other:
        assert client.models.list().data[0].id == "fake"
        with pytest.raises(openai.AuthenticationError):
            completion(other)


def test_unknown_paths_and_methods_are_errors_of_the_same_form(machine: Machine):
    assert error_of(get(machine, "/v2/completions"))[0] == 404
    assert error_of(call(machine, "/v1/embeddings", {"input": "a"}))[0] == 404
    status, headers, _ = answer = get(machine, "/v1/completions")
    assert error_of(answer)[0] == status == 405
    assert headers["allow"] == "POST"
    with machine.client() as client, pytest.raises(openai.NotFoundError):
        client.completions.create(model="another", prompt="a")


def test_a_mistake_of_the_server_is_told_without_its_inside(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine.tokenizer, "encode", lambda text: 1 / 0)
    answer = call(machine, "/v1/completions", {"prompt": "a"})
    assert error_of(answer)[0] == 500
    assert "division" not in answer[2]["error"]["message"]
    assert call(machine, "/v1/completions", {"prompt": [1]})[0] == 200


def test_a_conversation_that_the_chat_template_refuses_is_the_mistake_of_the_client(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    def refuse(messages: Any) -> list[int]:
        raise machine.package.module("tokenizer").TokenizerError("roles must take turns")

    monkeypatch.setattr(machine.tokenizer, "encode_chat", refuse)
    answer = call(machine, "/v1/chat/completions", {"messages": USER})
    assert error_of(answer) == (400, "messages", "invalid_value")
    assert answer[2]["error"]["message"] == "roles must take turns"


# The state of the server


def test_a_fault_of_the_engine_is_told_to_streams_and_to_health(machine: Machine, client: Any):
    machine.runner.pause_s = 0.01
    stream = completion(client, max_tokens=400, stream=True)
    chunks = iter(stream)
    next(chunks)
    machine.runner.broken = OSError("secret")
    with pytest.raises(openai.APIError, match="the engine failed"):
        list(chunks)
    stream.close()
    assert get(machine, "/health")[0] == 503
    assert get(machine, "/ready")[0] == 503
    assert get(machine, "/status")[2]["state"] == "failed"
    answer = call(machine, "/v1/completions", {"prompt": "a"})
    assert error_of(answer) == (503, None, "unavailable")
    assert "secret" not in json.dumps(answer[2])


def test_a_row_without_a_token_is_an_error_for_its_client_alone(machines: Machines):
    machine = machines(slots=2).listen()
    machine.runner.broken_rows.add(0)
    assert error_of(call(machine, "/v1/completions", {"prompt": "a", "max_tokens": 20}))[0] == 500
    text = call(machine, "/v1/completions", {"prompt": "a", "max_tokens": 20, "stream": True})[2]
    assert "[DONE]" not in text
    assert set(json.loads(text.split("\n\n")[-2].removeprefix("data: "))) == {"error"}
    machine.runner.broken_rows.clear()
    assert call(machine, "/v1/completions", {"prompt": "a"})[0] == 200
    machine.check_base_line()


def test_metrics_can_be_parsed_and_add_up(machine: Machine, client: Any):
    for _ in range(3):
        completion(client, "the same prompt of some length", max_tokens=10)
    wait_until(lambda: machine.service.load.running == 0)
    families = {family.name: family for family in text_string_to_metric_families(get(machine, "/metrics")[2])}
    values = {sample.name: sample.value for family in families.values() for sample in family.samples}
    assert values["serve_made_tokens_total"] == 30
    assert values["serve_cached_hbm_tokens_total"] + values["serve_missed_tokens_total"] == 90
    assert values["serve_cached_hbm_tokens_total"] > 20
    assert values["serve_ttft_seconds_count"] == values["serve_request_seconds_count"] == 3
    assert values["serve_tpot_seconds_count"] == 3
    assert (values["serve_slots"], values["serve_ready"]) == (4, 1)
    config = machine.package.module("config")
    assert values["serve_predicted_step_seconds"] == pytest.approx(config.PREDICTED_GENERATE_MS / 1e3)
    assert values["serve_measured_step_seconds"] > 0
    assert families["serve_requests"].samples[0].labels == {"finish": "length"}


def test_the_status_page_stands_alone_and_shows_what_is_told(machine: Machine, client: Any):
    completion(client)
    status, headers, page = get(machine, "/")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert not re.search(r'https?://|src=|@import|url\(|<link(?! rel="icon" href="data:,">)', page)
    assert '<link rel="icon" href="data:,">' in page  # else browsers ask for one, and complain that there is none
    assert "default-src 'none'" in headers["content-security-policy"]
    assert len(page.encode()) < 20_000
    assert "light dark" in page
    told = get(machine, "/status")[2]
    named = set(re.findall(r"\bs\.([a-z_0-9]+)", page))
    assert {"state", "slots", "predicted_ttft_ms", "tpot_p95_ms", "finished"} <= named <= set(told)
    for row in ("batch", "q_heads", "kv_heads", "d_ff"):
        assert f"<td>{row}</td>" in page
    assert told["made_tokens"] == 16


def test_the_status_has_predictions_times_and_ends_of_requests(machines: Machines):
    machine = machines(limits={"queue": 9, "host_pages": 5}).listen()
    before = get(machine, "/status")[2]
    assert [before[name] for name in ("ttft_ms", "ttft_p95_ms", "tpot_ms", "tpot_p95_ms")] == [None] * 4
    assert (before["finished"], before["refused"], before["cached_pages"]) == ({}, {}, 0)
    with machine.client() as client:
        for _ in range(2):
            completion(client, max_tokens=16)
    call(machine, "/v1/completions", b"nonsense")
    wait_until(lambda: machine.service.load.running == 0)
    told = get(machine, "/status")[2]
    config = machine.package.module("config")
    predicted = (config.PREDICTED_GENERATE_MS, config.PREDICTED_TTFT_MS, config.PREDICTED_TPOT_MS)
    assert predicted == (told["predicted_step_ms"], told["predicted_ttft_ms"], told["predicted_tpot_ms"])
    assert 0 < told["ttft_ms"] <= told["ttft_p95_ms"]
    assert 0 < told["tpot_ms"] <= told["tpot_p95_ms"]
    assert (told["finished"], told["refused"]) == ({"length": 2}, {"400": 1})
    assert (told["queue"], told["cached_host_pages"]) == (9, 0)
    assert told["cached_pages"] == len(list(machine.scheduler.places.cache.held())) > 0
    assert told["uptime_s"] > before["uptime_s"] >= 0


def test_each_request_is_a_line_of_json_in_the_log(machine: Machine, client: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger=machine.package.name)
    completion(client, max_tokens=3)
    call(machine, "/v1/completions", b"nonsense")
    wait_until(lambda: len(caplog.records) == 2)
    made, refused = (json.loads(record.message) for record in caplog.records)
    assert (made["event"], made["tokens"], made["prompt_tokens"], made["finish"]) == ("request", 3, 5, "length")
    assert 0 <= made["ttft_ms"] <= made["total_ms"]
    assert made["id"].startswith("cmpl-")
    assert (refused["event"], refused["status"], refused["path"]) == ("refused", 400, "/v1/completions")
