# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""What clients ask for, read from the JSON of OpenAI's API: /v1/completions and /v1/chat/completions."""

import secrets
from dataclasses import dataclass
from typing import Any, Literal

from .constraints import GrammarError, choice_grammar, json_grammar, regex_grammar
from .fields import ApiError, Fields, is_integer
from .sampling import Sampling
from .tokenizer import Message

HARMLESS = (
    *("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"),
    *("prompt_cache_retention", "truncate_prompt_tokens"),
)
"""Fields that change no text; they are accepted and do nothing."""
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logit_bias": ({},),
    "suffix": ("",),
    "echo": (False,),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields that this server has no use for -> the values that ask for nothing, and are accepted."""
FORMS = ("text", "json_object", "json_schema")
ROLES = ("system", "developer", "user", "assistant")
STOPS = 4  # stop strings of a request
TOP_LOGPROBS = 20
SEEDS = 2**31  # seeds of the sampler; those of requests are taken modulo this
COMPLETION_TOKENS = 16  # of a completion that names no limit, as in OpenAI's API


@dataclass(frozen=True)
class Rules:
    """What the server takes."""

    model: str  # the name by which it is asked for
    vocab: int
    prompts: int = 32  # of one request
    longest_answer: int | None = None  # tokens; None: as many as there is room for


@dataclass(frozen=True)
class AskedForm:
    """What an answer must keep to."""

    field: str  # that asks for it
    grammar: str  # in llguidance's notation; it may still prove to be none


UsageTold = Literal["at the end", "with each"]


@dataclass(frozen=True)
class Asked:
    """A request that was read: conversations, texts or token ids to continue, each for a choice of its own."""

    chat: bool
    prompts: tuple[str | tuple[int, ...] | tuple[Message, ...], ...]
    sampling: Sampling
    max_tokens: int | None
    stops: tuple[str, ...]
    stop_ids: frozenset[int]
    ignores_end: bool
    form: AskedForm | None
    top_logprobs: int
    streams: bool
    tells_usage: UsageTold | None  # in streams


def read_request(data: dict[str, Any], chat: bool, rules: Rules) -> Asked:
    """The request in a JSON object; ApiError that names the field where it cannot be served."""
    fields = Fields(data)
    _refuse_unsupported(fields)
    _check_model(fields, rules)
    prompts = (_messages(fields),) if chat else _prompts(fields, rules)
    logprobs, top = _chat_logprobs(fields) if chat else _text_logprobs(fields)
    streams, form = fields.flag("stream"), _form(fields)
    asked = Asked(
        chat=chat,
        prompts=prompts,
        sampling=_sampling(fields, logprobs, constrained=form is not None),
        max_tokens=_max_tokens(fields, chat, rules),
        stops=_stops(fields),
        stop_ids=_stop_ids(fields, rules),
        ignores_end=_ignores_end(fields, form),
        form=form,
        top_logprobs=top,
        streams=streams,
        tells_usage=_tells_usage(fields, streams),
    )
    fields.refuse_rest()
    return asked


def _refuse_unsupported(fields: Fields) -> None:
    for name in HARMLESS:
        fields.take(name)
    for name, accepted in UNSUPPORTED.items():
        value = fields.take(name)
        # Types count: true is not 1.
        if value is not None and not any(type(value) is type(each) and value == each for each in accepted):
            raise ApiError(f"{name} is not supported by this server", name, "unsupported_parameter")


def _check_model(fields: Fields, rules: Rules) -> None:
    name = fields.take("model", rules.model)
    if not isinstance(name, str):
        raise fields.refusal("model", name, "a name is wanted")
    if name != rules.model:
        raise ApiError(f"this server has the model {rules.model} only", "model", "model_not_found", status=404)


def _sampling(fields: Fields, logprobs: bool, constrained: bool) -> Sampling:
    top_k, seed = fields.integer("top_k", -1, 2**31 - 1), fields.integer("seed", -(2**63), 2**63 - 1)
    return Sampling(
        temperature=fields.number("temperature", 1, 0, 2),
        top_k=max(0, top_k or 0),  # -1 is off, as 0 is
        top_p=fields.number("top_p", 1, 0, 1, above=True),
        min_p=fields.number("min_p", 0, 0, 1),
        repetition=fields.number("repetition_penalty", 1, 0, 10, above=True),
        presence=fields.number("presence_penalty", 0, -2, 2),
        frequency=fields.number("frequency_penalty", 0, -2, 2),
        seed=(secrets.randbits(31) if seed is None else seed) % SEEDS,
        logprobs=logprobs,
        constrained=constrained,
    )


def _max_tokens(fields: Fields, chat: bool, rules: Rules) -> int | None:
    most = rules.longest_answer or 2**31 - 1
    names = ("max_completion_tokens", "max_tokens") if chat else ("max_tokens",)
    given = [fields.integer(name, 1, most) for name in names]
    found = next((value for value in given if value is not None), None)
    if found is None and not chat:
        return min(COMPLETION_TOKENS, most)
    return rules.longest_answer if found is None else found


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.take("stop", [])
    stops = [value] if isinstance(value, str) else value
    good = isinstance(stops, list) and len(stops) <= STOPS and all(isinstance(each, str) and each for each in stops)
    if not good:
        raise fields.refusal("stop", value, f"a string, or a list of at most {STOPS}, none of them empty, is wanted")
    return tuple(stops)


def _stop_ids(fields: Fields, rules: Rules) -> frozenset[int]:
    value = fields.take("stop_token_ids", [])
    if not _are_ids(value, rules):
        raise fields.refusal("stop_token_ids", value, f"a list of token ids below {rules.vocab} is wanted")
    return frozenset(value)


def _ignores_end(fields: Fields, form: AskedForm | None) -> bool:
    ignores = fields.flag("ignore_eos")
    if ignores and form:
        raise ApiError(f"ignore_eos cannot be asked for together with {form.field}", "ignore_eos", "invalid_value")
    return ignores


def _form(fields: Fields) -> AskedForm | None:
    """What the answer must keep to, as OpenAI's clients ask for it, or as those of vLLM do."""
    found = [_response_format(fields.take("response_format")), _structured(fields.take("structured_outputs"))]
    forms = [form for form in found if form is not None]
    if len(forms) > 1:
        raise ApiError("response_format and structured_outputs exclude each other", "structured_outputs")
    return forms[0] if forms else None


def _response_format(data: Any) -> AskedForm | None:
    if data is None:
        return None
    fields, path = Fields(data, "response_format"), "response_format"
    kind, described = fields.take("type"), fields.take("json_schema")
    fields.refuse_rest()
    if kind not in FORMS:
        raise fields.refusal("type", kind, f"one of {', '.join(FORMS)} is wanted")
    if kind == "text":
        return None
    if kind == "json_object":
        return _json_form(path, {"type": "object"})
    inner = Fields(described, f"{path}.json_schema")
    for harmless in ("name", "description", "strict"):  # every schema is kept to, strict or not
        inner.take(harmless)
    schema = inner.take("schema", {})
    inner.refuse_rest()
    return _json_form(f"{path}.json_schema.schema", schema)


def _structured(data: Any) -> AskedForm | None:
    if data is None:
        return None
    path = "structured_outputs"
    fields = Fields(data, path)
    asked = {name: fields.take(name) for name in ("json", "regex", "choice")}
    fields.refuse_rest()
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        raise ApiError(f"{path} needs one of json, regex and choice", path, "invalid_value")
    name, value = given[0], asked[given[0]]
    if name == "json":
        return _json_form(f"{path}.json", value)
    if name == "regex":
        if not isinstance(value, str):
            raise fields.refusal(name, value, "a regular expression is wanted")
        return AskedForm(f"{path}.regex", regex_grammar(value))
    if not (isinstance(value, list) and value and all(isinstance(each, str) and each for each in value)):
        raise fields.refusal(name, value, "a list of texts is wanted, none of them empty")
    return AskedForm(f"{path}.choice", choice_grammar(value))


def _json_form(path: str, schema: Any) -> AskedForm:
    if not isinstance(schema, dict):
        raise ApiError(f"{path} is no object, which a JSON schema is", path, "invalid_value")
    try:
        return AskedForm(path, json_grammar(schema))
    except GrammarError as error:
        raise ApiError(f"{path} cannot be kept to: {error}", path, "invalid_value") from error


def _are_ids(value: Any, rules: Rules) -> bool:
    return isinstance(value, list) and all(is_integer(each, 0, rules.vocab - 1) for each in value)


def _chat_logprobs(fields: Fields) -> tuple[bool, int]:
    wanted, top = fields.flag("logprobs"), fields.integer("top_logprobs", 0, TOP_LOGPROBS)
    if top is not None and not wanted:
        raise ApiError("top_logprobs needs logprobs to be true", "top_logprobs", "invalid_value")
    return wanted, top or 0


def _text_logprobs(fields: Fields) -> tuple[bool, int]:
    top = fields.integer("logprobs", 0, TOP_LOGPROBS)
    return top is not None, top or 0


def _tells_usage(fields: Fields, streams: bool) -> UsageTold | None:
    options = fields.take("stream_options")
    if options is None:
        return None
    if not streams:
        raise ApiError("stream_options needs stream to be true", "stream_options", "invalid_value")
    inner = Fields(options, "stream_options")
    inner.flag("include_obfuscation")
    usage, always = inner.flag("include_usage"), inner.flag("continuous_usage_stats")
    inner.refuse_rest()
    return ("with each" if always else "at the end") if usage else None


def _prompts(fields: Fields, rules: Rules) -> tuple[str | tuple[int, ...], ...]:
    """One prompt or several: texts, or lists of token ids."""
    value = fields.take("prompt")
    several = isinstance(value, list) and bool(value) and isinstance(value[0], str | list)
    prompts = value if several else [value]
    if len(prompts) > rules.prompts:
        raise ApiError(f"the request has {len(prompts)} prompts; at most {rules.prompts} are taken", "prompt")
    for prompt in prompts:
        if not prompt or not (isinstance(prompt, str) or _are_ids(prompt, rules)):
            wanted = f"a text, token ids below {rules.vocab}, or a list of such is wanted, none of them empty"
            raise fields.refusal("prompt", value, wanted)
    return tuple(prompt if isinstance(prompt, str) else tuple(prompt) for prompt in prompts)


def _messages(fields: Fields) -> tuple[Message, ...]:
    value = fields.take("messages")
    if not isinstance(value, list) or not value:
        raise fields.refusal("messages", value, "a list of messages is wanted")
    return tuple(_message(each, f"messages[{nth}]") for nth, each in enumerate(value))


def _message(data: Any, path: str) -> Message:
    fields = Fields(data, path)
    role, content, name = fields.take("role"), fields.take("content"), fields.take("name", "")
    for unsupported in ("tool_calls", "tool_call_id", "function_call", "audio", "refusal"):
        if fields.take(unsupported):
            where = f"{path}.{unsupported}"
            raise ApiError(f"{where} is not supported by this server", where, "unsupported_parameter")
    fields.refuse_rest()
    if role not in ROLES:
        raise fields.refusal("role", role, f"one of {', '.join(ROLES)} is wanted")
    if not isinstance(name, str):
        raise fields.refusal("name", name, "a text is wanted")
    return {"role": "system" if role == "developer" else role, "content": _content(content, path)}


def _content(content: Any, path: str) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise ApiError(f"{path}.content is neither a text nor a list of parts", f"{path}.content", "invalid_value")
    return "".join(_part(each, f"{path}.content[{nth}]") for nth, each in enumerate(content))


def _part(data: Any, path: str) -> str:
    fields = Fields(data, path)
    kind = fields.take("type")
    if kind != "text":
        message = f"{path} is of a type that is not supported; this server reads text only"
        raise ApiError(message, f"{path}.type", "unsupported_parameter")
    text = fields.take("text")
    fields.refuse_rest()
    if not isinstance(text, str):
        raise fields.refusal("text", text, "a text is wanted")
    return text
