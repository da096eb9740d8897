"""What the server takes and refuses: every field, with the name of the one at fault."""

from typing import Any

import pytest

from tests.package.harness import Package
from tests.serving.asgi import posted
from tests.serving.fake_runner import VOCAB
from tests.serving.machine import Machines

USER = [{"role": "user", "content": "hi"}]
BAD_FIELDS = [
    *(("temperature", value) for value in (-0.1, 2.1, "1", True, [], {})),
    *(("top_p", value) for value in (0, -1, 1.01, "1", False)),
    *(("top_k", value) for value in (-2, 1.5, "3", True, 2**31)),
    *(("min_p", value) for value in (-0.1, 1.1, "0")),
    *(("repetition_penalty", value) for value in (0, -1, 11, "1")),
    *((name, value) for name in ("presence_penalty", "frequency_penalty") for value in (-2.1, 2.1, "0", [])),
    *(("seed", value) for value in (1.5, "1", True, 2**63, -(2**63) - 1)),
    *(("stop", value) for value in (1, "", [""], ["a", 1], ["a"] * 5, {}, True)),
    *(("stop_token_ids", value) for value in (1, ["a"], [-1], [VOCAB], [1.0], [True], "a")),
    *(("max_tokens", value) for value in (0, -1, 1.5, "5", True, 2**40)),
    *(("stream", value) for value in (1, "true", [])),
    *(("ignore_eos", value) for value in (0, "yes")),
    *(("stream_options", value) for value in ({}, [], {"include_usage": True})),
    *(("model", value) for value in (1, [], True)),
    *(("n", value) for value in (2, 0, 1.0, True, "1")),
    *(("logit_bias", value) for value in ({"1": 5}, [], 1)),
    *(("response_format", value) for value in ("text", [])),
    *(("structured_outputs", value) for value in ({}, {"json": {}, "regex": "a"}, "a", [])),
    *(("tools", value) for value in ([{}], {}, "x")),
    *((name, 5) for name in ("best_of", "suffix", "echo", "tool_choice", "functions", "audio", "modalities")),
    *(("temprature", value) for value in (1, "x")),
]


@pytest.fixture
def app(machines: Machines) -> Any:
    return machines().app


def check_refusal(answer: tuple[int | None, Any], param: str | None) -> str:
    """The message of an error that names a field."""
    status, body = answer
    assert status == 400, body
    error = body["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    return str(error["message"])


def test_every_wrong_field_is_refused_by_its_name(app: Any):
    for name, value in BAD_FIELDS:
        for path, what in (("completions", {"prompt": "a"}), ("chat/completions", {"messages": USER})):
            message = check_refusal(posted(app, f"/v1/{path}", what | {name: value}), name)
            assert name in message


def test_null_is_as_good_as_absent(app: Any):
    body = {"prompt": "a"} | dict.fromkeys(name for name, _ in BAD_FIELDS if name != "temprature")
    assert posted(app, "/v1/completions", body)[0] == 200


def test_values_that_ask_for_nothing_are_taken(app: Any):
    nothing = {"n": 1, "tools": [], "tool_choice": "none", "logit_bias": {}, "response_format": {"type": "text"}}
    harmless = {"user": "me", "store": True, "metadata": {}, "service_tier": "auto", "parallel_tool_calls": True}
    for path, what in (("completions", {"prompt": "a"}), ("chat/completions", {"messages": USER})):
        assert posted(app, f"/v1/{path}", what | nothing | harmless)[0] == 200
    old = {"best_of": 1, "echo": False, "suffix": "", "logprobs": 20}
    assert posted(app, "/v1/completions", {"prompt": "a"} | old)[0] == 200


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        "",
        [],
        [""],
        ["a", 1],
        [1, "a"],
        [[]],
        [[1], "a", []],
        [-1],
        [VOCAB],
        [1.5],
        [True],
        5,
        {},
        [None],
        [[[1]]],
    ],
)
def test_prompts_that_are_none_are_refused(app: Any, prompt: Any):
    check_refusal(posted(app, "/v1/completions", {"prompt": prompt}), "prompt")


def test_too_many_prompts_are_refused(app: Any):
    assert "33 prompts; at most 32" in check_refusal(posted(app, "/v1/completions", {"prompt": ["a"] * 33}), "prompt")


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hi", "messages"),
        (["hi"], "messages[0]"),
        ([None], "messages[0]"),
        ([{"content": "a"}], "messages[0].role"),
        ([{"role": "tool", "content": "a"}], "messages[0].role"),
        ([{"role": ["user"], "content": "a"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 1}], "messages[0].content"),
        ([{"role": "user", "content": []}], "messages[0].content"),
        ([*USER, {"role": "user", "content": ["a"]}], "messages[1].content[0]"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            "messages[0].content[0].type",
        ),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}], "messages[0].content[0].x"),
        ([{"role": "user", "content": "a", "name": 1}], "messages[0].name"),
        ([{"role": "user", "content": "a", "other": 1}], "messages[0].other"),
        ([{"role": "assistant", "content": "a", "tool_calls": [{}]}], "messages[0].tool_calls"),
    ],
)
def test_messages_that_are_none_are_refused(app: Any, messages: Any, param: str):
    check_refusal(posted(app, "/v1/chat/completions", {"messages": messages}), param)


def test_log_probabilities_are_asked_for_as_openai_does(app: Any):
    chat, text = "/v1/chat/completions", "/v1/completions"
    for top in (21, -1, 1.5, True, "1"):
        check_refusal(posted(app, chat, {"messages": USER, "logprobs": True, "top_logprobs": top}), "top_logprobs")
        check_refusal(posted(app, text, {"prompt": "a", "logprobs": top}), "logprobs")
    check_refusal(posted(app, chat, {"messages": USER, "top_logprobs": 2}), "top_logprobs")
    check_refusal(posted(app, chat, {"messages": USER, "logprobs": 2}), "logprobs")


def test_options_of_streams_are_read_strictly(app: Any):
    for options in ({"include_usage": 1}, {"include_usage": "yes"}):
        body = {"prompt": "a", "stream": True, "stream_options": options}
        check_refusal(posted(app, "/v1/completions", body), "stream_options.include_usage")
    body = {"prompt": "a", "stream": True, "stream_options": {"continuous_usage_stats": 1}}
    check_refusal(posted(app, "/v1/completions", body), "stream_options.continuous_usage_stats")
    body = {"prompt": "a", "stream": True, "stream_options": {"other": 1}}
    check_refusal(posted(app, "/v1/completions", body), "stream_options.other")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"a"',
        b"\xff\xfe",
        b'{"prompt": "a"',
        b'{"prompt": "a", "temperature": NaN}',
        b'{"prompt": "a", "temperature": Infinity}',
        b'{"prompt": "a", "temperature": 1e999}',
        b'{"prompt": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"[" * 100_000,
        b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"seed": ' + b"9" * 10_000 + b"}",
    ],
    ids=range(15),
)
def test_what_is_no_json_object_is_refused(app: Any, body: bytes):
    check_refusal(posted(app, "/v1/completions", body), None)


def test_errors_do_not_repeat_long_values(app: Any):
    message = check_refusal(posted(app, "/v1/completions", {"prompt": "a", "top_k": "9" * 10**5}), "top_k")
    assert len(message) < 200
    status, body = posted(app, "/v1/completions", {"prompt": "a", "x" * 10**5: 1})
    assert (status, len(str(body)) < 400) == (400, True)


def test_answers_may_be_limited(machines: Machines):
    machine = machines(rules={"longest_answer": 7})
    answer = posted(machine.app, "/v1/chat/completions", {"messages": USER})
    assert answer[1]["usage"]["completion_tokens"] == 7
    message = check_refusal(posted(machine.app, "/v1/completions", {"prompt": "a", "max_tokens": 8}), "max_tokens")
    assert "from 1 to 7" in message


def test_defaults_are_those_of_openai(package: Package):
    api = package.module("api")
    rules = api.Rules("fake", VOCAB)
    asked = api.read_request({"prompt": "a"}, False, rules)
    plain = package.module("sampling").Sampling(temperature=1.0, seed=asked.sampling.seed)
    assert asked.sampling == plain
    assert (plain.temperature, plain.top_p, plain.top_k, plain.repetition) == (1, 1, 0, 1)
    assert asked.max_tokens == 16
    chat = api.read_request({"messages": USER, "max_tokens": 5, "max_completion_tokens": 6}, True, rules)
    assert chat.max_tokens == 6
    assert api.read_request({"messages": USER}, True, rules).max_tokens is None
    assert api.read_request({"prompt": "a", "seed": -1}, False, rules).sampling.seed == 2**31 - 1
    drawn = {api.read_request({"prompt": "a"}, False, rules).sampling.seed for _ in range(10)}
    assert len(drawn) == 10


def test_developers_speak_as_the_system(package: Package):
    api = package.module("api")
    messages = [{"role": "developer", "content": "be brief"}, *USER]
    asked = api.read_request({"messages": messages}, True, api.Rules("fake", VOCAB))
    assert asked.prompts == (({"role": "system", "content": "be brief"}, USER[0]),)
