# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The text of a stream of tokens up to a stop string, told as soon as it is certain."""

from collections.abc import Sequence

from .tokenizer import Detokenizer, Tokenizer


class TextStream:
    """Text piece by piece. What may be the beginning of a stop string is held back until it is known not to be one."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        """A stream at its beginning, which ends before the first of `stops` that is complete."""
        self.stopped = False
        self._detokenizer, self._stops = Detokenizer(tokenizer), stops
        self._held = ""

    def add(self, token: int) -> str:
        """The text that is certain now that `token` came; nothing once it has stopped."""
        return self._certain(self._detokenizer.add(token))

    def finish(self) -> str:
        """What is left when no more tokens come."""
        text = self._certain(self._detokenizer.finish())
        held, self._held = self._held, ""
        return text + held

    def _certain(self, text: str) -> str:
        if self.stopped:
            return ""
        held = self._held + text
        # The stop string that ends first counts, however the text was cut into tokens.
        found = [(at + len(stop), at) for stop in self._stops if (at := held.find(stop)) >= 0]
        self.stopped = bool(found)
        end = min(found)[1] if found else len(held) - max([0, *(_begun(held, stop) for stop in self._stops)])
        self._held = "" if found else held[end:]
        return held[:end]


def _begun(text: str, stop: str) -> int:
    """Letters of `stop` with which `text` ends."""
    return next((count for count in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:count])), 0)
