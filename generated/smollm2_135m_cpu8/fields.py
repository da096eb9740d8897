# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The fields of a JSON object, read with checks, and refusals in the form of OpenAI's API."""

import json
import math
from typing import Any


class ApiError(Exception):
    """What a client is told instead of an answer: a status, and a body in OpenAI's form."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        retry_after: int | None = None,
    ) -> None:
        """`param`: the field at fault; `retry_after`: seconds after which it may be tried again."""
        super().__init__(message)
        self.message, self.param, self.code = message, param, code
        self.status, self.retry_after = status, retry_after

    @property
    def kind(self) -> str:
        """The type of the error, in OpenAI's terms."""
        return {429: "rate_limit_error"}.get(self.status, "server_error" if self.status >= 500 else INVALID)

    def body(self) -> dict[str, Any]:
        """The JSON of the error."""
        told = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": told}


INVALID = "invalid_request_error"


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; ApiError for anything else, half characters and numbers that are none among it."""
    try:
        data = json.loads(body.decode())
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise ApiError("the body is not valid JSON", code="invalid_json") from None
    if not isinstance(data, dict):
        raise ApiError("the body is not a JSON object", code="invalid_json")
    return data


class Fields:
    """The fields of an object, each of which is read once. Null is as good as absent, as in OpenAI's API."""

    def __init__(self, data: Any, path: str = "") -> None:
        """`path`: where the object is in the body, as errors tell it."""
        self._path = path
        if not isinstance(data, dict):
            raise ApiError(f"{path} is {_short(data)}; an object is wanted", path)
        self._left = {name: value for name, value in data.items() if value is not None}

    def take(self, name: str, default: Any = None) -> Any:
        """A field as it is."""
        return self._left.pop(name, default)

    def number(self, name: str, default: float, low: float, high: float, above: bool = False) -> float:
        """A number from `low` to `high`; `above`: `low` itself is not allowed."""
        value = self.take(name, default)
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= value <= high or (above and value == low):
            bounds = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
            raise self.refusal(name, value, f"a number {bounds} is wanted")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`, or None where it is not given."""
        value = self.take(name)
        if value is not None and not is_integer(value, low, high):
            raise self.refusal(name, value, f"a whole number from {low} to {high} is wanted")
        return value if value is None else int(value)

    def flag(self, name: str) -> bool:
        """True or false; false where it is not given."""
        value = self.take(name, False)
        if not isinstance(value, bool):
            raise self.refusal(name, value, "true or false is wanted")
        return value

    def refuse_rest(self) -> None:
        """ApiError where a field was not read."""
        for name in self._left:
            where = self._at(name)
            raise ApiError(f"unrecognised field {_short(where)}", where[:LONGEST_SHOWN], "unknown_parameter")

    def refusal(self, name: str, value: Any, wanted: str) -> ApiError:
        """The error for a value that is not what is wanted."""
        where = self._at(name)
        return ApiError(f"{where} is {_short(value)}; {wanted}", where, "invalid_value")

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def is_integer(value: Any, low: int, high: int) -> bool:
    """Whether a value of JSON is a whole number within bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


LONGEST_SHOWN = 60


def _short(value: Any) -> str:
    """A value of JSON as an error shows it."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
