# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Answers in the form of OpenAI's API: whole ones, and chunks of streams."""

from dataclasses import dataclass, field
from typing import Any

from .api import Asked
from .generation import Piece, Usage
from .tokenizer import Tokenizer

Json = dict[str, Any]
MARK = "\ufffd"


@dataclass
class Form:
    """How the answer to one request is written."""

    asked: Asked
    tokenizer: Tokenizer
    id: str
    model: str
    created: int  # seconds since 1970
    _begun: set[int] = field(default_factory=set)  # choices of which a chunk was written
    _lengths: dict[int, int] = field(default_factory=dict)  # letters of each choice so far

    def chunks(self, piece: Piece, usage: Usage) -> list[Json]:
        """The chunks of a stream that tell a piece; none where there is nothing to tell yet. `usage` is that so far."""
        tells = piece.text or piece.finish or (piece.token is not None and self.asked.sampling.logprobs)
        if not tells:
            return []
        choice: Json = {"index": piece.choice, "logprobs": self._logprobs([piece]), "finish_reason": piece.finish}
        if not self.asked.chat:
            return [self._chunk([{**choice, "text": piece.text}], usage)]
        delta = {"content": piece.text} if piece.text or not piece.finish else {}
        chunks = [self._chunk([{**choice, "delta": delta}], usage)]
        if piece.choice not in self._begun:
            self._begun.add(piece.choice)
            first: Json = {"index": piece.choice, "delta": {"role": "assistant", "content": ""}}
            chunks.insert(0, self._chunk([{**first, "logprobs": None, "finish_reason": None}], usage))
        return chunks

    def usage_chunk(self, usage: Usage) -> Json:
        """The chunk after all others, where a client asks for it."""
        return self._chunk([], usage) | {"usage": usage_of(usage)}

    def answer(self, pieces: list[Piece], usage: Usage) -> Json:
        """The whole answer, from all its pieces."""
        indices = sorted({piece.choice for piece in pieces})
        choices = [self._choice(nth, [piece for piece in pieces if piece.choice == nth]) for nth in indices]
        kind = "chat.completion" if self.asked.chat else "text_completion"
        return {**self._head(kind), "choices": choices, "usage": usage_of(usage)}

    def _choice(self, nth: int, pieces: list[Piece]) -> Json:
        text = "".join(piece.text for piece in pieces)
        choice: Json = {"index": nth, "logprobs": self._logprobs(pieces), "finish_reason": pieces[-1].finish}
        if self.asked.chat:
            return {**choice, "message": {"role": "assistant", "content": text, "refusal": None}}
        return {**choice, "text": text}

    def _chunk(self, choices: list[Json], usage: Usage) -> Json:
        kind = "chat.completion.chunk" if self.asked.chat else "text_completion"
        chunk = {**self._head(kind), "choices": choices}
        if self.asked.tells_usage is None:
            return chunk
        return {**chunk, "usage": usage_of(usage) if self.asked.tells_usage == "with each" else None}

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _logprobs(self, pieces: list[Piece]) -> Json | None:
        if not self.asked.sampling.logprobs:
            return None
        return self._chat_logprobs(pieces) if self.asked.chat else self._text_logprobs(pieces)

    def _chat_logprobs(self, pieces: list[Piece]) -> Json:
        top = self.asked.top_logprobs
        return {
            "content": [
                {
                    **self._token(piece.token, piece.info.logprob),
                    "top_logprobs": [self._token(*each) for each in piece.info.top[:top]],
                }
                for piece in pieces
                if _has_token(piece)
            ],
            "refusal": None,
        }

    def _token(self, token: int | None, logprob: float) -> Json:
        text = self._text(token)
        return {"token": text, "logprob": _finite(logprob), "bytes": None if MARK in text else list(text.encode())}

    def _text_logprobs(self, pieces: list[Piece]) -> Json:
        top, told = self.asked.top_logprobs, [piece for piece in pieces if _has_token(piece)]
        offsets = [offset for offset, piece in zip(self._offsets(pieces), pieces, strict=True) if _has_token(piece)]
        tops = [{self._text(token): _finite(value) for token, value in piece.info.top[:top]} for piece in told]
        return {
            "tokens": [self._text(piece.token) for piece in told],
            "token_logprobs": [_finite(piece.info.logprob) for piece in told],
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _offsets(self, pieces: list[Piece]) -> list[int]:
        """Where in the text of their choice pieces begin."""
        offsets = []
        for piece in pieces:
            offsets.append(self._lengths.get(piece.choice, 0))
            self._lengths[piece.choice] = offsets[-1] + len(piece.text)
        return offsets

    def _text(self, token: int | None) -> str:
        return "" if token is None else self.tokenizer.decode([token])


def _has_token(piece: Piece) -> bool:
    return piece.token is not None and piece.info is not None


def usage_of(usage: Usage) -> Json:
    """Tokens read and made, as OpenAI tells them; a stop token counts as made."""
    total, cached = usage.prompt + usage.made, {"cached_tokens": usage.cached}
    told = {"prompt_tokens": usage.prompt, "completion_tokens": usage.made, "total_tokens": total}
    return {**told, "prompt_tokens_details": cached}


def _finite(logprob: float) -> float:
    """A log-probability that JSON can hold; OpenAI writes -9999 for what is impossible."""
    return max(float(logprob), -9999.0)
