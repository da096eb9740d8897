"""Answers that keep to a form: JSON, regular expressions, lists of texts."""

import json
import re
from typing import Any

import pytest

from tests.package.harness import Package
from tests.serving.asgi import posted
from tests.serving.machine import END, Machine, Machines, PieceTokenizer, ids_of

USER = [{"role": "user", "content": "hi"}]
SHAPE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "size": {"type": "integer", "maximum": 99, "minimum": 0},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SHAPE, "strict": True}}


@pytest.fixture
def machine(machines: Machines) -> Machine:
    return machines({"depth": 2}, end_ids=frozenset({END}), slots=4)


def texts(machine: Machine, form: dict[str, Any], seeds: range = range(8), **other: Any) -> list[tuple[str, str]]:
    """Answers to one question with several seeds, and why they ended."""
    found = []
    for seed in seeds:
        status, body = posted(
            machine.app, "/v1/chat/completions", {"messages": USER, "seed": seed, "max_tokens": 400} | form | other
        )
        assert status == 200, body
        found.append((body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"]))
    return found


def test_json_keeps_to_its_schema(machine: Machine):
    found = texts(machine, {"response_format": SCHEMA})
    for text, finish in found:
        value = json.loads(text)
        assert finish == "stop"
        assert set(value) == {"name", "size"}
        assert isinstance(value["name"], str) and len(value["name"]) <= 6  # noqa: PT018
        assert value["size"] in range(100)
    assert len(set(found)) > 4
    machine.check_base_line()


def test_json_may_be_any_object(machine: Machine):
    for text, finish in texts(machine, {"response_format": {"type": "json_object"}}):
        assert finish == "length" or isinstance(json.loads(text), dict)
        assert text.startswith("{")


@pytest.mark.parametrize("regex", [r"[a-c]{3}[0-9]+x", "(ab)+", "日本語?", "é|ü"])
def test_texts_match_their_regex(machine: Machine, regex: str):
    for text, finish in texts(machine, {"structured_outputs": {"regex": regex}}):
        assert finish == "stop"
        assert re.fullmatch(regex, text)


def test_texts_are_of_a_list(machine: Machine):
    choice = ["stop", "St .*", "a 日 b"]
    found = texts(machine, {"structured_outputs": {"choice": choice}}, range(20))
    assert {text for text, _ in found} == set(choice)


def test_every_choice_of_a_request_has_a_form_of_its_own(machine: Machine):
    body = {"prompt": ["a", "b", "c"], "max_tokens": 60, "structured_outputs": {"regex": "[a-f]{20}"}}
    found = posted(machine.app, "/v1/completions", body)[1]["choices"]
    assert all(re.fullmatch("[a-f]{20}", each["text"]) for each in found)
    assert len({each["text"] for each in found}) == 3


def test_a_form_outlives_preemption(machines: Machines):
    sizes = {"slots": 4, "pages_per_group": 24, "pages_per_slot": 16, "context": 64, "longest_prompt": 63}
    machine = machines(end_ids=frozenset({END}), **sizes)
    body = {"prompt": ["a", "b", "c", "d"], "max_tokens": 50, "structured_outputs": {"regex": "([a-f][x-z]){22}"}}
    status, answer = posted(machine.app, "/v1/completions", body)
    assert status == 200
    assert all(re.fullmatch("([a-f][x-z]){22}", each["text"]) for each in answer["choices"])
    assert machine.scheduler.counters.preemptions > 0


REFUSED = [
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "text", "x": 1}}, "response_format.x"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"x": 1}}}, "response_format.json_schema.x"),
    *(
        ({"structured_outputs": {"json": schema}}, "structured_outputs.json")
        for schema in (
            {"type": "objec"},
            {"$ref": "#/nope"},
            {"type": "string", "pattern": "("},
            "a",
            {"properties": 5},
        )
    ),
    *(({"structured_outputs": {"regex": regex}}, "structured_outputs.regex") for regex in ("(", "(?=a)b", 1)),
    *(({"structured_outputs": {"choice": texts}}, "structured_outputs.choice") for texts in ([], ["a", 1], "a", [""])),
    ({"response_format": SCHEMA, "structured_outputs": {"regex": "a"}}, "structured_outputs"),
    ({"response_format": SCHEMA, "ignore_eos": True}, "ignore_eos"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_cannot_be_kept_to_is_refused(machine: Machine, fields: dict[str, Any], param: str):
    status, body = posted(machine.app, "/v1/chat/completions", {"messages": USER} | fields)
    assert (status, body["error"]["param"]) == (400, param)
    assert param in body["error"]["message"]


def test_plain_text_is_no_form(machine: Machine):
    body = {"messages": USER, "max_tokens": 5, "response_format": {"type": "text"}}
    assert posted(machine.app, "/v1/chat/completions", body)[0] == 200


def test_a_model_without_an_end_keeps_to_no_form(machines: Machines):
    body = {"messages": USER, "response_format": {"type": "json_object"}}
    status, answer = posted(machines().app, "/v1/chat/completions", body)
    assert (status, answer["error"]["param"]) == (400, "response_format")
    assert "no token that ends" in answer["error"]["message"]


def test_a_form_goes_back_where_its_text_does(package: Package):
    module = package.module("constraints")
    form = module.Grammars(PieceTokenizer(frozenset({END}))).follower(module.regex_grammar("abc|xyz"))
    after = [form.allowed(ids_of(text)).nonzero()[0].tolist() for text in ("", "ab", "x", "xy", "abc", "")]
    assert after[0] == after[5] == sorted(ids_of("a") + ids_of("x"))
    assert after[1:5] == [ids_of("c"), ids_of("y"), ids_of("z"), [END]]
