# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Answers that keep to a form: llguidance says which tokens may come next."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, grammar_from

from .tokenizer import Tokenizer

BLANKS = r"[\x20\n]{0,20}"


class GrammarError(ValueError):
    """A form that no answer can be held to, such as a JSON schema that is none."""


class Grammars:
    """Makes constraints over the tokens of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Nothing can be held to a form where no token says that an answer ends."""
        ends = sorted(tokenizer.end_ids)
        self._tokens = LLTokenizer(tokenizer.for_grammars(), eos_token=ends) if ends else None

    def follower(self, grammar: str) -> "Follower":
        """What holds one answer to a grammar in llguidance's own notation; it takes up to a second."""
        if self._tokens is None:
            raise GrammarError("these weights come with no token that ends an answer")
        follower = Follower(self._tokens, grammar)
        if follower.fault:
            raise GrammarError(follower.fault)
        return follower


class Follower:
    """The tokens that an answer may have, step by step."""

    def __init__(self, tokens: LLTokenizer, grammar: str) -> None:
        """An answer at its beginning; `fault` says why a grammar is none."""
        self._matcher = LLMatcher(tokens, grammar, log_level=0)
        self._read: list[int] = []
        self.fault: str = self._matcher.get_error()

    def allowed(self, made: Sequence[int]) -> np.ndarray:
        """bool[tokens]: those that may follow `made`; none where the grammar has become too large to follow."""
        if list(made[: len(self._read)]) != self._read:
            self._matcher.reset()
            self._read = []
        self._matcher.consume_tokens(list(made[len(self._read) :]))
        self._read = list(made)
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        found: np.ndarray = np.unpackbits(bits, bitorder="little").astype(np.bool_)
        return found if not self._matcher.is_error() else np.zeros_like(found)


def json_grammar(schema: dict[str, Any]) -> str:
    """The grammar of JSON that keeps to a schema; GrammarError for a schema that is none."""
    try:
        # A small model may else put blanks into its answer for ever.
        return LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_pattern": BLANKS})
    except ValueError as error:
        raise GrammarError(str(error)) from error


def regex_grammar(regex: str) -> str:
    """The grammar of texts that a regular expression matches from end to end."""
    return LLMatcher.grammar_from_regex(regex)


def choice_grammar(texts: Sequence[str]) -> str:
    """The grammar of these texts."""
    return grammar_from("choice", json.dumps(list(texts)))
